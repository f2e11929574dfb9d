"""Trainings that begin with the weights of another run, or of a file."""

import hashlib

import pytest
import torch

from tests.rooms.trainables.training.small_runs import folder, small
from trainables.recipe import FromFile, FromTrial, Run
from trainables.spec import SpecError
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.loop import build_model_with_weights, train


@pytest.mark.parametrize("trainable", ["position", "position+head"])
def test_a_child_begins_with_its_parents_weights_and_only_what_is_trainable_learns(tmp_path, trainable):
    task = "absolute" if trainable == "position" else "direction4"
    child = small(init=FromTrial(values={"data.task": task}, part="backbone"), trainable=trainable)
    (parent,) = child.needs()
    assert parent.recipe.trainable == "all"
    list(train(parent, folder(tmp_path, "parent")))
    list(train(child, folder(tmp_path, "child"), parents={"init": tmp_path / "parent" / WEIGHTS}))
    before, drawn = read(tmp_path / "parent" / WEIGHTS), build_model_with_weights(small().recipe, 0).state_dict()
    learning = ("encoding.", "head.") if trainable == "position+head" else ("encoding.",)
    for name, value in read(tmp_path / "child" / WEIGHTS).items():
        if name.startswith(learning):
            assert not torch.equal(value, drawn[name]), name
        else:
            assert torch.equal(value, before[name]), name


def test_a_head_that_neither_fits_nor_learns_is_refused(tmp_path):
    """A frozen head that was drawn at random: the parent's has four outputs."""
    with pytest.raises(SpecError, match=r"or 'position\+head' where the parent's head has 4 outputs, not 2, got"):
        small(init=FromTrial(values={"data.task": "direction4"}, part="backbone"), trainable="position")
    torch.save(build_model_with_weights(small(data__task="direction4").recipe, 0).state_dict(), tmp_path / "w.pt")
    sha256 = hashlib.sha256((tmp_path / "w.pt").read_bytes()).hexdigest()
    run = small(init=FromFile(str(tmp_path / "w.pt"), sha256, "backbone"), trainable="position")
    said = "trainable must be 'position\\+head' or 'all' where the weights have no head.bias that fits, got 'position'"
    with pytest.raises(SpecError, match=said):
        next(train(run, tmp_path))
    assert list(train(Run(run.recipe.put({"trainable": "position+head"}), 0), tmp_path))


def test_a_parent_that_does_not_fit_is_refused(tmp_path):
    child = small(init=FromTrial(values={"model.embed_dim": 12}))
    list(train(child.needs()[0], folder(tmp_path, "parent")))
    with pytest.raises(SpecError, match=r"init.values must give a parent with cls_token of shape \(1, 1, 8\)"):
        next(train(child, tmp_path, parents={"init": tmp_path / "parent" / WEIGHTS}))
