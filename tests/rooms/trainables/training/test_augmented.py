"""Training on augmented images: it resumes bit for bit, and a teacher sees what the student sees."""

from itertools import islice

import pytest
import torch

from tests.rooms.trainables.data.pictures import image_folder
from tests.rooms.trainables.training.small_runs import numbers
from trainables.data.splits_torch import Reading
from trainables.recipe import Recipe, Run
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training, train

SMALL_STEPS = {"epochs": 4, "batch_size": 7}
SMALL = {
    "data.image_size": 8,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "model.depth": 2,
    **{f"optimizer.{name}": value for name, value in SMALL_STEPS.items()},
}


@pytest.fixture
def recipe(tmp_path):
    root = image_folder(tmp_path / "set", {"train": 10, "test": 4})
    return Recipe().put({"data.kind": "folder", "data.path": str(root), **SMALL})


AS_DEIT_3 = {
    "augment.kind": "three_augment",
    "loss": {"kind": "bce", "target_threshold": 0.0},
    "optimizer": {**SMALL_STEPS, "kind": "lamb"},
    "model.layer_scale": 1e-4,
}


@pytest.mark.parametrize(
    "values",
    [{}, {"augment.kind": "standard"}, {"augment.kind": "deit"}, AS_DEIT_3],
    ids=["none", "standard", "deit", "deit 3"],
)
def test_what_was_interrupted_goes_on_bit_for_bit(recipe, tmp_path, values):
    run = Run(recipe.put(values), 3)
    folders = [tmp_path / name for name in ("calm", "torn")]
    for folder in folders:
        folder.mkdir()
    calm = list(train(run, folders[0]))
    epochs = train(run, folders[1])
    assert len(list(islice(epochs, 2))) == 2
    epochs.close()
    torn = list(train(run, folders[1], loader_workers=2))
    assert numbers(torn) == numbers(calm)
    weights = [read(folder / WEIGHTS) for folder in folders]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_kinds_train_on_other_pixels(recipe, tmp_path):
    losses = set()
    for kind in ("none", "standard", "deit", "three_augment"):
        (tmp_path / kind).mkdir()
        run = Run(recipe.put({"augment.kind": kind, "optimizer.epochs": 1}), 3)
        losses.add(next(iter(train(run, tmp_path / kind))).values["train/loss"])
    assert len(losses) == 4


def test_a_teacher_sees_the_pixels_of_each_batch(recipe, tmp_path):
    taught = {"model.pool": "distilled", "teacher": {"kind": "from_trial", "values": {}}}
    pupil = recipe.put({"augment.kind": "standard", **taught})
    (tmp_path / "teacher").mkdir()
    list(train(Run(pupil.teacher_recipe, 0), tmp_path / "teacher"))
    parents = {"teacher": tmp_path / "teacher" / WEIGHTS}
    training = Training(Run(pupil, 0), "cpu", parents, SINGLE, Reading())
    assert training.objective.teacher_labels is None
    seen = []
    asked, learnt = training.teacher.__call__, training.normalize.forward
    training.teacher = lambda pixels: seen.append(("teacher", pixels.clone())) or asked(pixels)
    training.normalize.forward = lambda pixels: seen.append(("student", pixels.clone())) or learnt(pixels)
    training.learn(1)
    assert [who for who, _ in seen[:4]] == ["teacher", "student"] * 2
    for (_, one), (_, other) in zip(seen[::2], seen[1::2], strict=True):
        assert torch.equal(one, other)
