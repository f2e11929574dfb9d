"""Functional interpolation of relative positions against a loop over pairs, and its 1-D form against the paper's."""

import math

import torch

from tests.anchors.pairs import GRIDS, SCALE, content, fast, module, place, same, slow
from trainables.encodings import FIRE, Shape, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.training.init import init_weights


def check(spec, grid):
    """Compares outputs and gradients of block 1 with those of a loop, all parameters random."""
    made = module(spec, grid)
    network = 0 if spec.shared else 1
    names = ("c", "multiplier", "mlp.0.weight", "mlp.0.bias", "mlp.2.weight")
    c, multiplier, first, bias, second = (made.fire.get_parameter(name)[network] for name in names)
    q, k, v = qkv = content(grid)

    def psi(x):
        return (c[0, 0].abs() * x + 1).log()

    def near(offset, side):
        """Of an offset along a side of so many patches."""
        longest = torch.maximum(spec.threshold * multiplier[0, 0].abs(), torch.tensor(side - 1.0, dtype=torch.float64))
        return math.copysign(1, offset) * psi(abs(offset)) / (psi(longest) + 1e-6)

    def logit(b, h, i, j):
        one, other = place(i, grid), place(j, grid)
        term = 0.0
        if one and other:
            seen = torch.stack([near(one[0] - other[0], grid.rows), near(one[1] - other[1], grid.columns)])
            term = second[h] @ (first @ seen + bias[0]).clamp(min=0)
        return SCALE * q[b, h, i] @ k[b, h, j] + term

    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)


def test_logits_are_those_of_a_loop_over_pairs():
    """With L below and above the sides."""
    check(FIRE(hidden=5, threshold=1.5), GRIDS[0])
    check(FIRE(hidden=3, shared=True), GRIDS[1])


def test_on_one_line_it_is_the_papers_for_the_query_that_sees_all():
    """The last query of a sequence of 7, with the published code's form of eq. 5 and L above and below the length."""
    for threshold in (3.0, 16.0):
        made = build(FIRE(hidden=8, threshold=threshold), Widths(8, 2, 4), Grid(1, 7), 1).double()
        init_weights(made, 0)
        c, first, second = (made.fire.get_parameter(name)[0] for name in ("c", "mlp.0.weight", "mlp.2.weight"))
        some = torch.zeros(1, 2, 7, 4, dtype=torch.float64)
        bias = made.heads(Heads(some, some, some, None, Grid(1, 7)), 0).bias[0, :, -1]
        distance = torch.arange(6, -1, -1, dtype=torch.float64)
        scaled = torch.log(torch.abs(c * distance) + 1) / (torch.log(torch.abs(c * max(6.0, threshold)) + 1) + 1e-6)
        expected = (scaled.T @ first[:, 1:].T).relu() @ second.T
        torch.testing.assert_close(bias, expected.T, rtol=0, atol=1e-12)


def test_it_is_counted_and_begins_as_the_paper_says():
    shape = Shape(Widths(32, 4, 8), 3, 4, 6, 1)
    for spec, networks in ((FIRE(), 3), (FIRE(shared=True, hidden=9), 1)):
        made = build(spec, shape.widths, Grid.of(shape), 3)
        init_weights(made, 0)
        counted = sum(value.numel() for value in made.parameters())
        assert spec.parameters(shape) == counted == networks * (2 + 7 * spec.hidden)
        assert (made.fire.get_parameter("c") == 0.1).all()
        assert (made.fire.get_parameter("multiplier") == 1).all()
        assert not made.fire.get_parameter("mlp.0.bias").any()
        for name, bound in (("mlp.0.weight", 2**-0.5), ("mlp.2.weight", spec.hidden**-0.5)):
            assert 0.8 * bound < made.fire.get_parameter(name).abs().max() <= bound


def test_on_a_larger_grid_offsets_stay_within_what_was_seen():
    """The longest offset of a side of at least L patches is 1 in the network's scale, whatever the side."""
    terms = []
    for side in (9, 17):
        made = build(FIRE(threshold=4.0), Widths(8, 2, 4), Grid(side, side), 1).double()
        init_weights(made, 0)
        some = torch.zeros(1, 2, side**2, 4, dtype=torch.float64)
        terms.append(made.heads(Heads(some, some, some, None, Grid(side, side)), 0).bias[0, :, 0, -1])
    torch.testing.assert_close(*terms, rtol=0, atol=1e-5)
