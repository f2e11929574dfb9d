"""The symmetries each kind declares: what stays the same when everything moves by one patch."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.catalog import (
    IRPE, KINDS, PEG, EncodingSpec, Fourier, LearnableSinusoidal, Relative, RelativeBias, Sinusoidal
)  # fmt: skip
from trainables.encoding import Grid, Heads, Tokens, Widths
from trainables.encodings import build
from trainables.encodings.fourier import fourier_features, scaled_coordinates
from trainables.initial import draw


def module(spec: EncodingSpec, grid: Grid):
    made = build(spec, Widths(dim=8, heads=2, head_dim=4), grid, depth=2)
    draw(made, 0)
    for name, parameter in made.named_parameters():
        if "table" in name or "keys" in name:
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    return made.double()


def depends_on_the_offset_only(matrix: torch.Tensor, grid: Grid) -> bool:
    """Whether entry (i, j) of a P x P matrix is the same for all pairs of one offset."""
    x, y = grid.coordinates().unbind(1)
    seen: dict[tuple[int, int], torch.Tensor] = {}
    for i in range(grid.patches):
        for j in range(grid.patches):
            offset = (int(x[i] - x[j]), int(y[i] - y[j]))
            if not torch.allclose(seen.setdefault(offset, matrix[..., i, j]), matrix[..., i, j], atol=1e-6):
                return False
    return True


def code_products(spec: EncodingSpec, grid: Grid) -> bool:
    code = module(spec, grid).tokens(Tokens(torch.zeros(2, grid.patches, 8, dtype=torch.float64), grid), 0).x[1]
    return depends_on_the_offset_only(code @ code.T, grid)


def feature_products(spec: Fourier, grid: Grid) -> bool:
    made = module(spec, grid).part("fourier")
    features = fourier_features(scaled_coordinates(grid, spec.coordinates), made.frequencies.weight)
    return depends_on_the_offset_only(features @ features.T, grid)


def logit_terms(spec: EncodingSpec, grid: Grid) -> bool:
    some = torch.arange(1.0, 5.0, dtype=torch.float64).expand(2, 2, grid.patches, 4)
    return depends_on_the_offset_only(module(spec, grid).heads(Heads(some, some, some, None, grid), 1).bias[0], grid)


def convolved_interior(spec: PEG, grid: Grid) -> bool:
    """A pattern far from the border gives the same response wherever it stands."""
    wide = Grid(grid.rows + 6, grid.columns + 6)
    made = module(spec, wide)
    pattern = torch.randn(2, 8, grid.rows, grid.columns, dtype=torch.float64)

    def response(row: int, column: int) -> torch.Tensor:
        image = torch.zeros(2, 8, wide.rows, wide.columns, dtype=torch.float64)
        image[:, :, row : row + grid.rows, column : column + grid.columns] = pattern
        out = made.tokens(Tokens(image.flatten(2).mT, wide), 0).x.mT.reshape(image.shape)
        return out[:, :, row : row + grid.rows, column : column + grid.columns]

    return torch.allclose(response(2, 2), response(4, 3))


SYMMETRIES: dict[str, tuple[EncodingSpec, Callable[..., bool]] | None] = {
    "none": None,
    "learnable": None,
    "sinusoidal": (Sinusoidal(), code_products),
    "learnable_sinusoidal": (LearnableSinusoidal(), code_products),
    "fourier": (Fourier(gamma=1.5), feature_products),
    "gabor": None,
    "relative": (Relative(), logit_terms),
    "relative_bias": (RelativeBias(), logit_terms),
    "irpe": (IRPE(on=("q", "k")), logit_terms),
    "peg": (PEG(), convolved_interior),
    "composed": None,
}


def test_every_kind_declares_its_symmetry():
    assert {*SYMMETRIES} == {*KINDS}


@pytest.mark.parametrize("kind", [kind for kind, declared in SYMMETRIES.items() if declared])
@settings(max_examples=8, deadline=None)
@given(rows=st.integers(1, 4), extra=st.integers(1, 3))
def test_moving_everything_changes_nothing(kind, rows, extra):
    spec, holds = SYMMETRIES[kind]
    assert holds(spec, Grid(rows, rows + extra))


def test_a_free_table_has_no_such_symmetry():
    grid = Grid(3, 4)
    assert not depends_on_the_offset_only(torch.randn(2, 12, 12), grid)


def test_a_constant_map_shows_the_convolution_its_border():
    grid = Grid(4, 6)
    out = module(PEG(), grid).tokens(Tokens(torch.ones(2, 24, 8, dtype=torch.float64), grid), 0).x.unflatten(1, (4, 6))
    inside = out[:, 1:-1, 1:-1]
    assert torch.allclose(inside, inside[:, :1, :1].expand_as(inside))
    assert not torch.isclose(out[:, 0, 2], inside[:, 0, 1]).any()
