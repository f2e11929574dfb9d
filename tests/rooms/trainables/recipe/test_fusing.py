"""Which runs may be trained as one model."""

import pytest

from tests.laws.conftest import toy
from tests.rooms.trainables.training.small_runs import small
from trainables.encodings import Composed, Fourier, Learnable
from trainables.recipe.fusing import fuse

PLAIN = small()


@pytest.mark.parametrize(
    "other", [small(7), small(encoding=Fourier(hidden=6, gamma=9.0)), PLAIN], ids=["seed", "gamma", "itself"]
)
def test_seeds_and_numbers_of_an_encoding_may_differ(other):
    assert fuse(PLAIN, other)
    assert fuse(other, PLAIN)


@pytest.mark.parametrize(
    "values",
    [
        {"encoding": Learnable()},
        {"model__depth": 2},
        {"optimizer__lr": 0.02},
        {"optimizer__epochs": 5},
        {"data__train_size": 40},
        {"test_sizes": (24,)},
        {"auxiliary": {"kind": "drloc"}, "encoding": Learnable()},
    ],
    ids=lambda values: next(iter(values)),
)
def test_nothing_else_may(values):
    assert not fuse(PLAIN, small(**values))
    assert not fuse(small(**values), PLAIN)


@pytest.mark.parametrize(
    "values",
    [
        {"optimizer": {"kind": "lamb", "epochs": 4}},
        {"optimizer__ema_decay": 0.9},
        {"optimizer__precision": "float16"},
        {"encoding": toy("Spiral")},
        {"encoding": Composed(parts=(Learnable(), toy("Spiral")))},
        {"data": {"kind": "cifar10"}, "model__patch_size": 4, "augment": {"kind": "standard"}},
        {"init": {"kind": "from_trial", "values": {"encoding.kind": "learnable"}}},
        {"model__pool": "distilled", "teacher": {"kind": "from_trial", "values": {"encoding.kind": "peg"}}},
    ],
    ids=["lamb", "average", "float16", "own", "composed of own", "augmented", "from a parent", "taught"],
)
def test_what_is_not_computed_together_trains_alone(values):
    """With itself, too."""
    assert not fuse(small(**values), small(1, **values))
