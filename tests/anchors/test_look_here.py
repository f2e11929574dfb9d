"""Directed attention against a loop over pairs of patches, with angles for inequalities."""

import math

import pytest
import torch

from tests.anchors.pairs import GRIDS, SCALE, content, fast, module, place, same, slow
from trainables.encodings import LookHere, Shape, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads

LOOKS = {180: (0, 180, 90, 270, 45, 225, 135, 315), 90: (0, 180, 90, 270, 45, 225, 135, 315)}
LOOKS[45] = tuple(direction + 22.5 for direction in LOOKS[90])


def biases(spec, grid, heads, depth, block):
    """The bias of a block. Shapes: (H, P, P)."""
    made = build(spec, Widths(4 * heads, heads, 4), grid, depth).double()
    some = torch.zeros(1, heads, grid.tokens, 4, dtype=torch.float64)
    bias = made.heads(Heads(some, some, some, None, grid), block).bias[0]
    assert not bias[:, : grid.prefix].any()
    assert not bias[:, :, : grid.prefix].any()
    return bias[:, grid.prefix :, grid.prefix :]


def sees(view, look, across, up):
    """Whether a key so many patches to the right and up is in view."""
    if (across, up) == (0, 0):
        return True
    apart = (math.degrees(math.atan2(up, across)) - look + 180) % 360 - 180
    return abs(apart) <= view / 2 + 1e-6


@pytest.mark.parametrize("view", [180, 90, 45])
def test_a_head_sees_what_is_in_its_field_of_view(view):
    """12 heads in 3 blocks: eight that look, with slope 1/2, then four that see all."""
    grid = Grid(3, 4, prefix=1)
    for block, factor in enumerate((1.5, 1.0, 0.5)):
        bias = biases(LookHere(field_of_view=view, slope=0.8), grid, 12, 3, block)
        for head in range(12):
            slope = 0.5 if head < 8 else 4.0 ** -(head - 7)
            for i in range(grid.patches):
                for j in range(grid.patches):
                    across, up = j % 4 - i % 4, i // 4 - j // 4
                    if head < 8 and not sees(view, LOOKS[view][head], across, up):
                        assert bias[head, i, j] <= -5000
                    else:
                        expected = -0.8 * factor * slope * math.hypot(across, up)
                        assert float(bias[head, i, j]) == pytest.approx(expected, abs=1e-12)


def test_outputs_and_gradients_are_those_of_a_loop():
    """Two heads: the first looks right, the second left."""
    for grid in GRIDS:
        made = module(LookHere(), grid)
        q, k, v = qkv = content(grid)

        def logit(b, h, i, j, grid=grid, q=q, k=k):
            one, other = place(i, grid), place(j, grid)
            term = 0.0
            if one and other:
                rows, columns = other[0] - one[0], other[1] - one[1]
                seen = columns >= 0 if h == 0 else columns <= 0
                term = -0.5 * 0.5 * math.hypot(rows, columns) if seen else -math.inf
            return SCALE * q[b, h, i] @ k[b, h, j] + term

        same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j, v=v: v[b, h, j]), qkv)


def test_any_number_of_heads_has_its_directions():
    """One block; six heads are the code's: four along the axes, two that see all."""
    grid = Grid(3, 3)
    for heads, last in ((1, 0), (4, 0), (6, 2), (8, 2), (12, 4), (16, 4), (24, 8)):
        bias = biases(LookHere(), grid, heads, 1, 0)
        assert [bool((one > -1000).all()) for one in bias] == [False] * (heads - last) + [True] * last
    assert float(biases(LookHere(), grid, 24, 1, 0)[9, 4, 3]) == pytest.approx(-1.5 * 0.25)  # the tenth looks left
    assert LookHere().parameters(Shape(Widths(8, 2, 4), 2, 3, 3, 0)) == 0


def test_eight_heads_look_into_all_directions_alike():
    """The opposite head of a pair sees the mirrored pair."""
    for view in (180, 90, 45):
        bias = biases(LookHere(field_of_view=view), Grid(4, 4), 12, 2, 1)
        for one in range(0, 8, 2):
            assert torch.equal(bias[one], bias[one + 1].T)
