"""Every encoding stands on another grid; where heads read prefix tokens alone, the last block computes only these."""

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from tests.laws.conftest import toy
from trainables.backbones import ViT
from trainables.backbones.backbone_torch import Host
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import PEG, Composed, Fourier, Learnable, NoEncoding, Shape, Widths, parts_of
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid
from trainables.encodings.resample_torch import resampled_table
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError
from trainables.training.init import init_weights
from trainables.weights.transfer import transferred

OTHER = (3, 28, 16)
"""7 x 4 patches, for 3 x 5."""
TABLES = ("learnable", "factorized", "relative", "relative_bias", "Beside")
"""The kinds that may have tables of the grid."""


def moved(model: PositionedViT, other: PositionedViT, pool: str) -> PositionedViT:
    spec = ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4, pool=pool)
    other.load_state_dict(transferred(model, other, spec.shapes((3, 12, 20)), spec.shapes(OTHER)))
    return other.eval()


def seen(model: PositionedViT) -> torch.Tensor:
    with torch.no_grad():
        return model(torch.randn(2, *OTHER, dtype=torch.float64, generator=torch_stream(0, "other")))


def test_every_encoding_stands_on_another_grid(encoding, make, images):
    for pool in ("token", "gap"):
        stands_on_another_grid(encoding, make, images, pool)


def stands_on_another_grid(encoding, make, images, pool):
    model = make(encoding, pool, spread=True)
    model(images)  # in training: running statistics move
    other = make(encoding, pool, seed=1, spread=True, size=OTHER)
    if encoding.label == "Marker":
        with pytest.raises(SpecError, match=r"encoding.Marker.marks must be of shape .* there, got \(1?\d, 8\)"):
            moved(model, other, pool)
        return
    known = {name: value.clone() for name, value in model.state_dict().items()}
    before = seen(other)
    after = seen(moved(model, other, pool))
    assert after.isfinite().all()
    assert not torch.equal(before, after)
    assert all(torch.equal(known[name], value) for name, value in model.state_dict().items()), "it is left as it was"
    changed = {name for name, value in other.state_dict().items() if not torch.equal(value, known[name])}
    assert all(name.split(".")[1] in TABLES for name in changed), changed
    if not changed:
        fresh = make(encoding, pool, seed=2, size=OTHER).eval()
        fresh.load_state_dict(known)
        assert torch.equal(seen(fresh), after)


@pytest.mark.parametrize("kind", ["learnable", "factorized", "relative", "relative_bias"])
def test_tables_of_the_grid_are_resampled(kind, examples, make, images):
    for encoding in examples[kind][:2]:
        model, other = (make(encoding, spread=True, size=size) for size in ((3, 12, 20), OTHER))
        states = model.state_dict(), moved(model, other, "avg").state_dict()
        shapes = [{name: value.shape for name, value in state.items()} for state in states]
        assert shapes[0] != shapes[1]


def test_the_parts_of_a_composition_are_asked_each(make):
    encoding = Composed(parts=(Learnable(), Fourier(), toy("Beside", k=2), PEG(form="dense_stack")))
    with pytest.raises(SpecError, match="parts that reserve channels come first"):
        make(encoding)
    encoding = Composed(parts=(toy("Beside", k=2), Learnable(), Fourier(), PEG(form="dense_stack")))
    model, other = (make(encoding, "token", spread=True, size=size) for size in ((3, 12, 20), OTHER))
    known, made = model.state_dict(), moved(model, other, "token").state_dict()
    for name in ("encoding.learnable.table", "encoding.Beside.tables.k"):
        assert torch.equal(made[name], resampled_table(known[name], model.grid, other.grid))
    assert torch.equal(made["encoding.peg.conv.-1.1.running_var"], known["encoding.peg.conv.-1.1.running_var"])


class Staged(Host):
    """A backbone of two stages, the second on half the grid, and nothing else."""

    def __init__(self, shapes):
        super().__init__()
        grids = [Grid(shape.rows, shape.columns, shape.prefix) for shape in shapes]
        stages = zip(shapes, grids, strict=True)
        self.encoding = nn.ModuleList(build(Learnable(), shape.widths, grid, shape.depth) for shape, grid in stages)
        init_weights(self, 0)


def test_stages_are_resampled_each_on_its_own_grid():
    old, new = (
        [Shape(Widths(4, 2, 2), 1, rows, columns, 0), Shape(Widths(8, 2, 4), 1, rows // 2, columns // 2, 0)]
        for rows, columns in ((4, 6), (8, 2))
    )
    model, other = Staged(old), Staged(new)
    known, made = model.state_dict(), transferred(model, other, old, new)
    for number, grids in enumerate([(Grid(4, 6), Grid(8, 2)), (Grid(2, 3), Grid(4, 1))]):
        name = f"encoding.{number}.learnable.table"
        assert torch.equal(made[name], resampled_table(known[name], *grids))
    other.load_state_dict(made)


SIZE = (3, 12, 20)
LABELS = torch.tensor([0, 2, 1, 2])


def drawn(encoding, pool, depth, **fields):
    """A model in float64 with large random weights, so that nothing is equal because it is zero."""
    spec = ViT(embed_dim=16, depth=depth, num_heads=2, patch_size=4, pool=pool, **fields)
    model = PositionedViT(spec, SIZE, 3, encoding)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=torch_stream(0, "drawn", name))
    return model.double()


def answer(model, tokens):
    """The loss, and the gradient of every parameter that has one."""
    model.zero_grad()
    loss = sum(cross_entropy(said, LABELS) for said in model.predictions(tokens))
    loss.backward()
    return loss.detach(), {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


def test_losses_and_gradients_are_those_of_all_tokens(encoding, images):
    later = any(0 in getattr(part, "places", ()) for part in parts_of(encoding))
    for depth in (2,) if later else (1, 2):  # a PEG after the first block needs a second one
        for pool in ("token", "distilled"):
            model = drawn(encoding, pool, depth)
            expected, gradients = answer(model, model.features(images))
            loss, mine = answer(model, model.head_tokens(images))
            assert abs(loss - expected) <= 1e-12 * max(1, abs(expected)), (pool, depth)
            assert mine.keys() == gradients.keys(), (pool, depth)
            for name, gradient in gradients.items():
                assert torch.allclose(mine[name], gradient, rtol=1e-12, atol=1e-12), (pool, depth, name)


@pytest.mark.parametrize(("pool", "read"), [("token", 1), ("distilled", 2), ("avg", 15), ("gap", 15)])
def test_the_last_block_computes_what_is_read(images, pool, read):
    model, seen = drawn(NoEncoding(), pool, 2), []
    for block in model.blocks:
        block.mlp.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[1]))
    model(images)
    assert seen == [15 + model.num_prefix_tokens, read]
    assert model.head_tokens(images).x.shape[1] == read
    assert model.features(images).x.shape[1] == 15 + model.num_prefix_tokens


def test_registers_are_prefix_tokens_that_no_head_reads(examples, images):
    """With a class token the last block computes both; without one it computes all tokens, for patches are read."""
    fields = ({"registers": 3}, {"registers": 1, "qk_norm": True, "layer_scale": 0.7})
    for number, spec in enumerate(spec for some in examples.values() for spec in some):
        pool, some = ("token", "token", "gap")[number % 3], fields[number % 2]
        model = drawn(spec, pool, 2, **some).eval()
        with torch.no_grad():
            expected, tokens = model.features(images), model.head_tokens(images)
            torch.testing.assert_close(model.output(tokens), model.output(expected), rtol=1e-12, atol=1e-12)
        assert spec.shrinks or tokens.x.shape[1] == some["registers"] + (1 if pool == "token" else 15), spec


def test_a_mean_over_patches_reads_all(encoding, images):
    for pool in ("avg", "gap"):
        model = drawn(encoding, pool, 2)
        assert torch.equal(model.head_tokens(images).x, model.features(images).x), pool
