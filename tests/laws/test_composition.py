"""Encodings compose by doing one after another; the empty composition is the unit."""

import pytest
import torch

from trainables.encodings import PEG, Composed, Fourier, Learnable, RelativeBias, ReservedChannels, Sinusoidal, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Composition, Grid, Heads, PositionEncoding, Tokens
from trainables.spec import SpecError
from trainables.training.init import init_weights

GRID = Grid(3, 5, prefix=1)
WIDTHS = Widths(dim=16, heads=2, head_dim=8)


def module(spec, seed=0):
    made = build(spec, WIDTHS, GRID, depth=2)
    init_weights(made, seed)
    return made


def acts(encoding, block):
    """What an encoding does with the tokens and heads of a block, as tensors."""
    stream = torch.Generator().manual_seed(7)
    content = 16 - encoding.reserved.tokens * (block == 0)
    t = encoding.tokens(Tokens(torch.randn(3, 16, content, generator=stream), GRID), block)
    q, k, v = torch.randn(3, 3, 2, 16, 8, generator=stream)
    h = encoding.heads(Heads(q, k, v, None, GRID), block)
    o = encoding.outputs(v, torch.rand(3, 2, 16, 16, generator=stream), GRID, block)
    terms = (h.bias, encoding.value_terms(h, block))
    return [t.x, h.q, h.k, h.v, o, *(term for term in terms if term is not None)]


def same(one, other):
    left, right = ([*acts(one, 0), *acts(one, 1)], [*acts(other, 0), *acts(other, 1)])
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def test_the_empty_composition_is_the_unit(encoding):
    part, empty = module(encoding), Composition({})
    assert same(Composition({"a": empty, "b": part}), part)
    assert same(Composition({"a": part, "b": empty}), part)


def test_composition_is_associative(encoding):
    if encoding.shrinks:
        pytest.skip("nothing that is bound to a grid may follow")
    first, second, third = module(encoding), module(PEG()), module(Composed(parts=(Sinusoidal(), RelativeBias())))
    left = Composition({"x": Composition({"a": first, "b": second}), "c": third})
    right = Composition({"a": first, "x": Composition({"b": second, "c": third})})
    assert same(left, right)


def test_the_order_is_checked_through_nested_compositions():
    reserved, whole = Toy(reserved=ReservedChannels(tokens=3)), Toy()
    with pytest.raises(SpecError, match="got add before concat"):
        Composition({"x": Composition({"first": reserved, "add": whole}), "concat": reserved})


def test_order_matters():
    add, convolve = module(Sinusoidal()), module(PEG())
    assert not same(Composition({"a": add, "b": convolve}), Composition({"a": convolve, "b": add}))


def test_biases_add_up():
    both = module(Composed(parts=(RelativeBias(), RelativeBias(shared=True))))
    for parameter in both.parameters():
        torch.nn.init.normal_(parameter)
    *_, bias = acts(both, 1)
    own, shared = (acts(both.part(name), 1)[-1] for name in ("relative_bias", "relative_bias_2"))
    assert torch.equal(bias, own + shared)


def test_second_parts_of_a_kind_are_numbered():
    assert module(Composed(parts=(Fourier(), Learnable(), Fourier()))).parts == ("fourier", "learnable", "fourier_2")


class Toy(PositionEncoding):
    def __init__(self, reserved=ReservedChannels(), modifies_qk=False, reads_qk=False):  # noqa: B008
        super().__init__()
        self.reserved, self.modifies_qk, self.reads_qk = reserved, modifies_qk, reads_qk


def test_parts_that_modify_q_and_k_come_before_those_that_read_them():
    modifies_qk, reads_qk = Toy(modifies_qk=True), Toy(reads_qk=True)
    Composition({"turn": modifies_qk, "term": reads_qk})
    with pytest.raises(SpecError, match=r"q and k change before they are read, got term before turn"):
        Composition({"term": reads_qk, "turn": modifies_qk})


def test_parts_that_reserve_channels_of_the_tokens_come_first():
    reserved, whole = Toy(reserved=ReservedChannels(tokens=3)), Toy()
    assert Composition({"concat": reserved, "other": reserved, "add": whole}).reserved == ReservedChannels(tokens=6)
    with pytest.raises(SpecError, match="got add before concat"):
        Composition({"add": whole, "concat": reserved})
