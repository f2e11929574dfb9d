"""Every encoding stands on a grid that it was not trained for: tables resampled, functions computed anew."""

import pytest
import torch
from torch import nn

from tests.laws.conftest import toy
from trainables.backbones import ViT
from trainables.backbones.backbone_torch import Host
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import PEG, Composed, Fourier, Learnable, Shape, Widths
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
