"""Codes are computed in float32 whatever precision the backbone has, and once in a forward pass."""

import pytest
import torch

from trainables.backbones import Swin, ViT
from trainables.encodings import (
    Add,
    ALiBi,
    Composed,
    Fourier,
    Gabor,
    Learnable,
    LearnableSinusoidal,
    OwnEncoding,
    Parts,
    Rotary,
    Sinusoidal,
    Widths,
)
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads, Tokens
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.training.init import init_weights
from trainables.training.parameters import no_decay

GRID, WIDTHS = Grid(14, 11, prefix=1), Widths(16, 2, 8)
CODES = [
    *(Fourier(gamma=gamma) for gamma in (0.1, 0.3, 2.5, 40.0)),
    Fourier(gamma=0.1, coordinates="unit"),
    Sinusoidal(),
    LearnableSinusoidal(),
    Gabor(),
    Learnable(),
]


def code_and_gradients(spec, half, made=None):
    """The code, and the gradients of a random sum of it, with or without bfloat16 around."""
    made = build(spec, WIDTHS, GRID, 2)
    init_weights(made, 0)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        code = made.tokens(Tokens(torch.zeros(2, GRID.tokens, 16), GRID), 0).x[0]
    weight = torch.randn(code.shape, generator=torch.Generator().manual_seed(1))
    learned = list(made.parameters())
    return code, torch.autograd.grad((code * weight).sum(), learned) if learned else ()


@pytest.mark.parametrize("spec", CODES, ids=str)
def test_a_code_under_bfloat16_is_the_code(spec):
    (plain, right), (half, left) = (code_and_gradients(spec, enabled) for enabled in (False, True))
    assert half.dtype == torch.float32
    assert torch.allclose(half, plain, rtol=0, atol=1e-6)
    for mine, theirs in zip(left, right, strict=True):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-6 * float(theirs.abs().max()))


@pytest.mark.parametrize("gamma", [0.1, 40.0])
def test_a_code_in_float32_is_that_in_float64(gamma):
    """What bfloat16 did to phases was an error of up to 26 % of the code at gamma 0.1."""
    made = build(Fourier(gamma=gamma), WIDTHS, GRID, 2)
    init_weights(made, 0)
    with torch.autocast("cpu", torch.bfloat16):
        half = made.tokens(Tokens(torch.zeros(2, GRID.tokens, 16), GRID), 0).x
    exact = made.double().tokens(Tokens(torch.zeros(2, GRID.tokens, 16).double(), GRID), 0).x
    assert exact.dtype == torch.float64
    assert torch.allclose(half.double(), exact, rtol=0, atol=1e-4 * float(exact.detach().abs().max()))


def test_learned_sines_start_as_the_fixed_ones_under_bfloat16():
    (fixed, _), (learned, _) = (code_and_gradients(spec, True) for spec in (Sinusoidal(), LearnableSinusoidal()))
    rounded = 4 * GRID.tokens * torch.finfo(torch.float32).eps  # of phases up to so many radians; bfloat16: 2**16 times
    assert torch.allclose(learned, fixed, rtol=0, atol=rounded)


def test_the_fixed_sines_are_exact_in_a_model_in_float64():
    made = build(Sinusoidal(), WIDTHS, GRID, 2).double()
    x = made.tokens(Tokens(torch.zeros(2, GRID.tokens, 16).double(), GRID), 0).x
    at = torch.arange(11, dtype=torch.float64)
    assert torch.allclose(x[0, 1:12, 2], (at * 10000.0**-0.25).sin(), rtol=0, atol=1e-15)


@pytest.mark.parametrize("spec", [Rotary(), Rotary(form="mixed"), ALiBi()], ids=str)
def test_angles_and_biases_are_in_float32_under_bfloat16(spec):
    made = build(spec, WIDTHS, GRID, 2)
    init_weights(made, 0)
    q = torch.randn(2, 2, 2, GRID.tokens, 8, generator=torch.Generator().manual_seed(1))
    plain = made.heads(Heads(q[0], q[1], q[1], None, GRID), 1)
    with torch.autocast("cpu", torch.bfloat16):
        half = made.heads(Heads(q[0], q[1], q[1], None, GRID), 1)
    assert torch.allclose(half.q, plain.q, rtol=0, atol=1e-6)
    assert plain.bias is None or torch.equal(half.bias, plain.bias)
    low = made.heads(Heads(*(part.bfloat16() for part in (q[0], q[1], q[1])), None, GRID), 1)
    assert low.q.dtype == torch.bfloat16
    assert torch.allclose(low.q.float(), plain.q, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(("spec", "method", "calls"), [
    (Fourier(injection=Add(places=("query", "key", "value"))), "code", 1),
    (Gabor(injection=Parts(parts=(1, 4))), "code", 1),
    (Gabor(injection=Parts(parts=(1, 4), shared=False)), "code", 8),
    (Composed(parts=(Fourier(injection=Add(blocks=4)), Fourier())), "code", 2),
    (Rotary(form="mixed"), "terms", 1),
    (Rotary(), "terms", 0),
    (Sinusoidal(injection=Add(places=("query", "key"))), "code", 0),
], ids=str)  # fmt: skip
def test_what_blocks_share_is_computed_once_a_forward(spec, method, calls, monkeypatch):
    """In four blocks. What depends on no parameter is computed when the model is built."""
    model = build_model(Recipe(model=ViT(depth=4, embed_dim=16, num_heads=2), encoding=spec))
    counted = count(type(spec.parts[0] if isinstance(spec, Composed) else spec), method, monkeypatch)
    images = torch.randn(2, 3, 32, 32)
    model(images)
    assert len(counted) == calls
    model(images)
    assert len(counted) == 2 * calls, "the next forward computes it again"


def test_stages_share_a_code_among_their_blocks(monkeypatch):
    spec = Fourier(injection=Add(blocks=2))
    model = build_model(Recipe(model=Swin(), encoding=spec))
    counted = count(Fourier, "code", monkeypatch)
    model(torch.randn(2, 3, 32, 32))
    assert len(counted) == 2, "one for each of two stages"


def count(cls, method, monkeypatch):
    counted, whole = [], getattr(cls, method)

    def counting(self, *args):
        counted.append(self)
        return whole(self, *args)

    monkeypatch.setattr(cls, method, counting)
    return counted


def test_a_shared_code_learns_from_all_its_places():
    """The gradient is the sum of those of separate codes with the same values."""
    shared, separate = (
        build_model(Recipe(model=ViT(depth=3), encoding=Gabor(injection=Add(places=("query", "key"), shared=flag))))
        for flag in (True, False)
    )
    for model in (shared, separate):
        init_weights(model, 0)
        model.double()
    codes = list(separate.encoding.gabor.children())
    assert len(codes) == 6
    for code in codes:
        code.load_state_dict(shared.encoding.gabor.state_dict())
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    one, other = shared(images), separate(images)
    assert torch.equal(one, other)
    for out in (one, other):
        out.square().sum().backward()
    for name, value in shared.encoding.gabor.named_parameters():
        total = sum(code.get_parameter(name).grad for code in codes)
        assert torch.allclose(value.grad, total, rtol=1e-10, atol=1e-14), name


OWN = """
from torch import nn
import torch
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import PositionEncoding

class Table(EncodingSpec):
    kind: str = "own.py:Table"
    def build(self, widths, grid, depth):
        return Module(widths, grid)

class Module(PositionEncoding):
    decay = ("mix.weight",)
    def __init__(self, widths, grid):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(grid.tokens, widths.dim))
        self.mix = nn.Linear(widths.dim, widths.dim)
    def init_parameter(self, name, value, stream):
        value.normal_(generator=stream)
"""


def test_tables_of_own_encodings_do_not_decay_unless_declared():
    own = OwnEncoding(kind="own.py:Table", source=OWN)
    model = build_model(Recipe(encoding=Composed(parts=(own, Fourier()))))
    decaying = {name for name, _ in model.encoding.named_parameters(prefix="encoding")} - no_decay(model)
    assert decaying == {
        "encoding.Table.mix.weight",
        "encoding.fourier.mlp.0.weight",
        "encoding.fourier.mlp.2.weight",
    }
