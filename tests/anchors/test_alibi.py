"""Linear biases against a loop over pairs of tokens, forward and backward, in float64."""

import math

import pytest
import torch

from tests.anchors.pairs import GRIDS, SCALE, content, fast, module, place, same, slow
from trainables.backbones import CaiT, Swin
from trainables.encodings import ALiBi, Rotary, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.recipe import Recipe
from trainables.recipe.cost import estimate_cost
from trainables.spec import SpecError


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
def test_logits_fall_with_the_distance(grid, distance):
    made = module(ALiBi(distance=distance), grid)
    slopes = [2**-4, 2**-8]

    def logit(b, h, i, j):
        one, other = place(i, grid), place(j, grid)
        term = 0.0
        if one and other:
            rows, columns = one[0] - other[0], one[1] - other[1]
            far = math.hypot(rows, columns) if distance == "euclidean" else abs(rows) + abs(columns)
            term = -slopes[h] * far
        return SCALE * q[b, h, i] @ k[b, h, j] + term

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)


def test_slopes_of_the_paper():
    """Press et al., section 3: eight heads have 1/2, 1/4 ... 1/256."""
    grid = Grid(1, 2)
    made = build(ALiBi(), Widths(32, 8, 4), grid, 1)
    zeros = torch.zeros(1, 8, 2, 4)
    bias = made.heads(Heads(zeros, zeros, zeros, None, grid), 0).bias
    assert bias[0, :, 0, 1].tolist() == [-(2.0**-i) for i in range(1, 9)]
    assert not bias[0, :, 0, 0].any()


@pytest.mark.parametrize("spec", [ALiBi(), Rotary(), Rotary(form="mixed")], ids=["alibi", "axial", "mixed"])
def test_they_stand_in_the_vit_and_are_refused_elsewhere(spec):
    recipe = Recipe(encoding=spec)
    learned = {"form": 2 * 4 * 8} if getattr(spec, "form", "") == "mixed" else {}
    assert estimate_cost(recipe).parameters - estimate_cost(Recipe()).parameters == sum(learned.values())
    for model in (CaiT(), Swin()):
        with pytest.raises(SpecError, match="its attention"):
            Recipe(encoding=spec, model=model)
