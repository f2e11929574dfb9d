"""The compositions that the papers name: they build, depend on position, learn, and equal their own JSON."""

import pytest
import torch

from trainables.backbones import ViT
from trainables.data import Digits
from trainables.encodings import (
    IRPE,
    PEG,
    Add,
    Composed,
    Concat,
    Extend,
    Gabor,
    Learnable,
    Parts,
    Relative,
    RelativeBias,
)
from trainables.encodings.relative import ClippedOffsets
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model

QUERY_KEY = Add(places=("query", "key"), shared=False)
EDGE_IN_VALUE = Gabor(form="edge", injection=Add(places=("value",), shared=False))

COMPOSITIONS = {
    "LE + PEG": Composed(parts=(Learnable(), PEG(places=(0,)))),
    "LE + RPE, shared": Composed(parts=(Learnable(), RelativeBias(shared=True))),
    "LE + RPE, Shaw": Composed(parts=(Learnable(), Relative(offsets=ClippedOffsets(reach=8)))),
    "4 PEG + LE": Composed(parts=(Learnable(), PEG(places=(0, 1, 2, 3)))),
    "separable PEGs": PEG(places=(0, 1, 2, 3, 4), form="separable"),
    "LE at six places": Learnable(injection=Add(blocks=6, shared=False)),
    "G+E in q, k, E in v": Composed(parts=(Gabor(injection=QUERY_KEY), EDGE_IN_VALUE)),
    "part 4, E in v": Composed(parts=(Gabor(injection=Parts(parts=(1, 4), shared=False)), EDGE_IN_VALUE)),
    "parts 2, 3": Gabor(injection=Parts(parts=(1, 2, 3), shared=False)),
    "m appended channels": Composed(parts=(Gabor(injection=Extend(channels=16, shared=False)), EDGE_IN_VALUE)),
    "LE in q, k": Learnable(injection=QUERY_KEY),
    "the first three blocks": Gabor(injection=Add(places=("query", "key"), blocks=3, shared=False)),
    "APE + iRPE": Composed(parts=(Learnable(), IRPE(on=("q", "k", "v")))),
    "concat": Learnable(injection=Concat()),
    "concat in q, k, v": Learnable(injection=Concat(places=("query", "key", "value"))),
    "PEG on q, k": PEG(places=(0,), into="query_key"),
    "appended channels and iRPE": Composed(parts=(Gabor(injection=Extend(channels=2)), IRPE(on=("q", "k")))),
}


@pytest.mark.parametrize("pool", ["token", "gap"])
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions(name, pool):
    model = ViT(embed_dim=24, num_heads=3, depth=7, patch_size=2, pool=pool)
    recipe = Recipe(data=Digits(), model=model, encoding=COMPOSITIONS[name])
    assert Recipe.read(recipe.plain()) == recipe
    built = build_model(recipe).double()
    for value in built.parameters():
        torch.nn.init.normal_(value, std=0.2)
    images = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    mirrored = images.unflatten(3, (4, 2)).flip(3).flatten(3)
    assert (built(images) - built(mirrored)).abs().max() > 1e-8
    built(images).square().sum().backward()
    assert all(value.grad.isfinite().all() for value in built.parameters())
