"""The symmetries of some kinds: what stays the same when everything moves by one patch."""

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import (  # fmt: skip
    FIRE,
    IRPE,
    PEG,
    ALiBi,
    EncodingSpec,
    Fourier,
    LearnableSinusoidal,
    LogCPB,
    LookHere,
    NoEncoding,
    Relative,
    RelativeBias,
    Rotary,
    Sinusoidal,
    Widths,
)
from trainables.encodings.build_torch import build
from trainables.encodings.declared_torch import Positions
from trainables.encodings.encoding_torch import Grid, Heads, Tokens, coordinates
from trainables.encodings.irpe import Clip, Cross, Euclidean, Piecewise, Product, Quantization, buckets
from trainables.encodings.irpe_torch import bucket_ids
from trainables.training.init import init_weights


def module(spec: EncodingSpec, grid: Grid):
    made = build(spec, Widths(dim=8, heads=2, head_dim=4), grid, depth=2)
    init_weights(made, 0)
    for name, parameter in made.named_parameters():
        if "table" in name or "keys" in name:
            torch.nn.init.normal_(parameter, generator=torch.Generator().manual_seed(1))
    return made.double()


def depends_on_the_offset_only(matrix: torch.Tensor, grid: Grid) -> bool:
    """Whether entry (i, j) of a P x P matrix is the same for all pairs of one offset."""
    x, y = coordinates(grid).unbind(1)
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
    features = spec.fourier_features(Positions.of(grid, Widths(8, 2, 4)), made.frequencies.weight)
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


def rotated_products(spec: Rotary, grid: Grid) -> bool:
    """Products of queries and keys that are the same for all patches but for their rotation."""
    some = torch.arange(1.0, 5.0, dtype=torch.float64).expand(2, 2, grid.patches, 4)
    h = module(spec, grid).heads(Heads(some, some, some, None, grid), 1)
    return depends_on_the_offset_only((h.q @ h.k.mT)[1], grid)


SYMMETRIES: dict[str, tuple[EncodingSpec, Callable[..., bool]]] = {
    "sinusoidal": (Sinusoidal(), code_products),
    "learnable_sinusoidal": (LearnableSinusoidal(), code_products),
    "fourier": (Fourier(gamma=1.5), feature_products),
    "rotary": (Rotary(form="mixed"), rotated_products),
    "relative": (Relative(), logit_terms),
    "relative_bias": (RelativeBias(), logit_terms),
    "irpe": (IRPE(on=("q", "k")), logit_terms),
    "peg": (PEG(), convolved_interior),
    "alibi": (ALiBi(), logit_terms),
    "log_cpb": (LogCPB(hidden=5), logit_terms),
    "look_here": (LookHere(field_of_view=90), logit_terms),
    "fire": (FIRE(hidden=5), logit_terms),
}


@pytest.mark.parametrize("kind", SYMMETRIES)
@settings(max_examples=8)
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


MAPPINGS = st.sampled_from([Euclidean(), Quantization(), Quantization(of="rank"), Cross(), Product()])
RISING = st.tuples(st.floats(0.1, 5), st.floats(1.05, 4), st.floats(1.05, 9)).map(
    lambda some: Piecewise(alpha=some[0], beta=some[0] * some[1], gamma=some[0] * some[1] * some[2])
)
NUMBERINGS = RISING | st.floats(0.3, 9).map(lambda beta: Clip(beta=beta))


@settings(max_examples=40)
@given(mapping=MAPPINGS, index=NUMBERINGS, rows=st.integers(1, 5), columns=st.integers(1, 6), prefix=st.integers(0, 2))
def test_buckets_are_within_their_tables(mapping, index, rows, columns, prefix):
    ids = bucket_ids(mapping, index, Grid(rows, columns, prefix))
    assert ids.min() >= 0
    assert ids.max() < buckets(mapping, index, prefix)
    if prefix:
        assert (ids[:, :prefix] == buckets(mapping, index, prefix) - 1).all()
    assert all(depends_on_the_offset_only(some[prefix:, prefix:], Grid(rows, columns)) for some in ids)


@settings(max_examples=30)
@given(mapping=MAPPINGS, index=NUMBERINGS, rows=st.integers(2, 5), columns=st.integers(2, 6))
def test_undirected_buckets_are_symmetric_and_directed_ones_opposite(mapping, index, rows, columns):
    ids = bucket_ids(mapping, index, Grid(rows, columns))
    if isinstance(mapping, Euclidean | Quantization):
        assert torch.equal(ids, ids.mT)
    else:
        assert torch.equal(ids + ids.mT, torch.full_like(ids, buckets(mapping, index, 0) - 1))


@settings(max_examples=10)
@given(
    rows=st.integers(2, 5), columns=st.integers(2, 6), down=st.integers(-4, 4), right=st.integers(-4, 4),
    form=st.sampled_from(["depthwise", "dense", "separable", "depthwise_stack"]),
)  # fmt: skip
def test_a_circular_convolution_moves_with_the_image(rows, columns, down, right, form):
    grid = Grid(rows, columns)
    made = module(PEG(padding="circular", form=form), grid)
    x = torch.randn(2, grid.patches, 8, dtype=torch.float64)

    def moved(tokens):
        return tokens.unflatten(1, (rows, columns)).roll((down, right), (1, 2)).flatten(1, 2)

    one, other = (made.tokens(Tokens(some, grid), 0).x for some in (moved(x), x))
    assert torch.allclose(one, moved(other), atol=1e-12)


@settings(max_examples=10)
@given(seed=st.integers(0, 10_000), heads=st.sampled_from([1, 2, 4]), pool=st.sampled_from(["token", "avg", "gap"]))
def test_without_position_the_order_of_patches_is_nothing(seed, heads, pool):
    model = PositionedViT(
        ViT(embed_dim=8, depth=2, num_heads=heads, patch_size=2, pool=pool), (1, 4, 6), 3, NoEncoding()
    )
    init_weights(model, seed)
    model = model.double()
    order = torch.randperm(6, generator=torch.Generator().manual_seed(seed))
    patches = torch.randn(2, 1, 2, 3, 2, 2, dtype=torch.float64)
    mixed = patches.flatten(2, 3)[:, :, order].unflatten(2, (2, 3))
    one, other = (some.transpose(3, 4).flatten(4).flatten(2, 3) for some in (patches, mixed))
    assert torch.allclose(model(one), model(other), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mapping", [Euclidean(), Quantization(), Cross(), Product()], ids=str)
def test_undirected_terms_and_a_mean_do_not_tell_left_from_right(mapping):
    """With mean pooling a reflected image looks the same to undirected mappings, and only to them."""
    grid = (3, 4, 6)
    model = PositionedViT(
        ViT(embed_dim=16, depth=2, num_heads=2, patch_size=2, pool="avg"), grid, 3, IRPE(mapping=mapping)
    )
    for value in model.parameters():
        torch.nn.init.normal_(value, std=0.4)
    model = model.double()
    images = torch.randn(3, *grid, dtype=torch.float64)
    mirrored = images.unflatten(3, (3, 2)).flip(3).flatten(3)
    apart = (model(images) - model(mirrored)).abs().max()
    assert apart < 1e-12 if isinstance(mapping, Euclidean | Quantization) else apart > 1e-6
