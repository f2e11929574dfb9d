"""How many parameters learn, by arithmetic alone, against the model that is built to be trained."""

from itertools import product

import pytest

from trainables.backbones import ViT
from trainables.backbones.vit import DEIT_TINY
from trainables.data import RedGreen
from trainables.encodings import PEG, Add, Composed, Gabor, Learnable
from trainables.recipe import FromFile, NoTeacher, Recipe, TaughtByTrial
from trainables.recipe.cost import estimate_cost
from trainables.training.loop import build_model_with_weights

UNCOUNTED = ("toys.py:Spiral", "toys.py:Beside", "toys.py:Marker")
"""Encodings of one's own that do not say how many parameters they have."""


SIZE = (3, 12, 20)
TEACHERS = {"distilled": TaughtByTrial(values={})}


def test_what_learns_is_counted(encoding, monkeypatch):
    monkeypatch.setattr(RedGreen, "size", property(lambda self: SIZE))
    if encoding.kind in UNCOUNTED:
        pytest.skip("it does not count")
    model = ViT(embed_dim=16, num_heads=2, depth=2)
    parts = ("all", "position+head") if encoding.trainable_parameters(model.shapes(SIZE)[0]) else ("all",)
    for pool, learns in product(("token", "avg", "distilled"), parts):
        model = ViT(embed_dim=16, num_heads=2, depth=2, pool=pool)
        recipe = Recipe(model=model, encoding=encoding, trainable=learns, teacher=TEACHERS.get(pool, NoTeacher()))
        built = [(value.numel(), value.requires_grad) for value in build_model_with_weights(recipe, 0).parameters()]
        weight = estimate_cost(recipe)
        assert weight.parameters == sum(count for count, _ in built)
        assert weight.learnt == sum(count for count, learning in built if learning)


def own(form, *places):
    return Gabor(form=form, injection=Add(places=places, shared=False))


IN_QK, IN_V = own("gabor+edge", "query", "key"), own("edge", "value")


@pytest.mark.parametrize(("spec", "count"), [
    (IN_QK, 64_512),
    (Composed(parts=(IN_QK, IN_V)), 78_336),
    (Composed(parts=(IN_QK, IN_V, PEG(frozen=True))), 78_336),
    (Learnable(injection=Add(places=("query", "key"), shared=False)), 907_776),
])  # fmt: skip
def test_published_counts_of_what_learns(spec, count, monkeypatch):
    """Gabor paper, table 3: DeiT-Ti frozen, position alone learns."""
    monkeypatch.setattr(RedGreen, "size", property(lambda self: (3, 224, 224)))
    recipe = Recipe(model=DEIT_TINY, encoding=spec, init=FromFile("w.pt", "0" * 64, "backbone"))
    assert estimate_cost(recipe.put({"trainable": "position"})).learnt == count
    frozen = 192 * 10 if isinstance(spec, Composed) and len(spec.parts) == 3 else 0
    assert estimate_cost(recipe).learnt == estimate_cost(recipe).parameters - frozen
