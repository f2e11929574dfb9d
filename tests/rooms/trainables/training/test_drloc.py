"""Dense relative localization against loops in float64, on grids that are not square and that shrink."""

import math

import pytest
import torch
from torch.nn.functional import relu

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import PEG, Learnable
from trainables.encodings.encoding_torch import Grid, Tokens
from trainables.recipe import DRLoc
from trainables.training.init import init_weights
from trainables.training.optional.drloc import Localization

SPEC = DRLoc(pairs=7, hidden=9, weight=0.3)


def tokens(grid: Grid, images: int = 4, dim: int = 6) -> Tokens:
    x = torch.randn((images, grid.prefix + grid.patches, dim), dtype=torch.float64, requires_grad=True)
    return Tokens(x, grid)


def by_hand(head: Localization, t: Tokens, places: torch.Tensor) -> torch.Tensor:
    """The loss, a pair at a time."""
    first, _, second, _, last = head.mlp
    grid, total = t.grid, torch.zeros((), dtype=torch.float64)
    for image, pairs in enumerate(places.tolist()):
        for one, other in pairs:
            here, there = int(one * grid.patches), int(other * grid.patches)
            pair = torch.cat([t.x[image, grid.prefix + here], t.x[image, grid.prefix + there]])
            said = last.weight @ relu(second.weight @ relu(first.weight @ pair + first.bias) + second.bias) + last.bias
            rows = abs(here // grid.columns - there // grid.columns)
            columns = abs(here % grid.columns - there % grid.columns)
            if head.spec.offsets == "unit":
                columns, rows = columns / grid.columns, rows / grid.rows
            total = total + (abs(said[0] - columns) + abs(said[1] - rows)) / (2 * len(pairs))
    return head.spec.weight * total


def test_loss_and_gradients_are_those_of_a_loop(subtests):
    for offsets in ["unit", "patches"]:
        for grid in [Grid(3, 5), Grid(4, 2, prefix=1), Grid(2, 7, prefix=2)]:
            with subtests.test(f"{offsets}, {grid}"):
                head, t = Localization(SPEC.put({"offsets": offsets}), 6, seed=1).double(), tokens(grid)
                learnt = [t.x, *head.parameters()]
                places = head.places(4, step=2)
                losses = head(t, places), by_hand(head, t, places)
                assert torch.allclose(*losses, rtol=1e-12)
                ours, loops = (torch.autograd.grad(loss, learnt) for loss in losses)
                for one, other in zip(ours, loops, strict=True):
                    assert torch.allclose(one, other, rtol=1e-10, atol=1e-12)
                assert grid.prefix == 0 or not ours[0][:, : grid.prefix].any(), "tokens without a place are left out"


def test_the_grid_that_a_peg_has_shrunk_is_the_one_that_counts():
    model = PositionedViT(
        ViT(embed_dim=6, num_heads=2, patch_size=2, depth=2), (3, 8, 14), 2, PEG(padding="valid")
    ).double()
    init_weights(model, 0)
    t = model.features(torch.rand(4, 3, 8, 14, dtype=torch.float64))
    assert (t.grid.rows, t.grid.columns, t.grid.prefix) == (2, 5, 1)
    head = Localization(SPEC, 6, seed=1).double()
    assert torch.allclose(head(t, head.places(4, 0)), by_hand(head, t, head.places(4, 0)), rtol=1e-12)


def test_patches_are_drawn_evenly_and_anew_each_step():
    head, grid = Localization(DRLoc(pairs=500), 6, seed=1), Grid(3, 5)
    places = head.places(60, step=4)
    counts = torch.bincount((places * grid.patches).long().flatten(), minlength=grid.patches)
    assert len(counts) == 15
    assert torch.allclose(counts.double(), torch.full((15,), 4000.0, dtype=torch.float64), atol=5 * 4000**0.5)
    chosen = (places * grid.patches).long()
    assert (chosen[..., 0] == chosen[..., 1]).double().mean() == pytest.approx(1 / 15, abs=0.01)
    assert torch.equal(places, head.places(60, step=4))
    assert not torch.equal(places, head.places(60, step=5))
    assert not torch.equal(places, Localization(DRLoc(pairs=500), 6, seed=2).places(60, step=4))


def test_units_are_shares_of_the_grids_sides():
    head, grid = Localization(SPEC, 6, seed=1), Grid(3, 5)
    corners = torch.tensor([[[0, 14], [4, 0], [7, 7]]])
    assert head.offsets(corners, grid).tolist() == [[[4 / 5, 2 / 3], [4 / 5, 0], [0, 0]]]


def test_the_head_begins_as_torchs_layers_do_by_streams_of_its_own():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    one, other = (Localization(DRLoc(), dim, seed=3) for dim in (6, 8))
    assert torch.equal(before, torch.get_rng_state())
    assert [tuple(layer.weight.shape) for layer in one.mlp[::2]] == [(512, 12), (512, 512), (2, 512)]
    assert torch.equal(one.mlp[2].weight, other.mlp[2].weight)
    for layer in one.mlp[::2]:
        bound = layer.in_features**-0.5
        assert 0.95 * bound < layer.weight.abs().max().item() <= bound
        assert layer.bias.abs().max().item() <= bound


@pytest.mark.parametrize("pool", ["token", "avg", "gap"])
def test_bfloat16_is_finite_and_near(pool):
    model = PositionedViT(ViT(embed_dim=8, num_heads=2, pool=pool), (3, 8, 12), 2, Learnable())
    init_weights(model, 0)
    head, images = Localization(SPEC, 8, seed=1), torch.rand(4, 3, 8, 12)
    exact = head(model.features(images), head.places(4, 0)).item()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        rough = head(model.features(images), head.places(4, 0)).item()
    assert math.isfinite(rough)
    assert rough == pytest.approx(exact, rel=0.02)
    assert rough != exact
