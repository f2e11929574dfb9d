"""Values of the user's own on an ablation: those that leave each arm what its name says, and those that do not."""

import pytest

from search_spaces.library import find
from search_spaces.study import Ablation, Study
from trainables.encodings import Fourier
from trainables.recipe import Recipe
from trainables.spec import SpecError


def test_a_value_that_makes_an_arm_other_than_its_name_is_refused(subtests):
    for name, path, value in [
    ("direction", "encoding.kind", "rotary"),
    ("direction", "encoding", {"kind": "rotary"}),
    ("peg-kernel", "encoding.kernel", 5),
    ("concat-vs-add", "model.kind", "swin"),
    ("atlas", "data.kind", "digits"),
    ("concat-vs-add", "encoding.injection.kind", "extend"),
]:  # fmt: skip
        with subtests.test(f"{name}, {path}, {value}"):
            said = rf"{path} is what arms of {name} differ in: “.*” sets it, and “.*” would no longer be what its name"
            with pytest.raises(SpecError, match=f"{said} says"):
                find(name).at(set={path: value})


def test_values_that_no_arm_is_known_by_may_be_set(subtests):
    for name, path, value in [
    ("direction", "model.embed_dim", 32),
    ("gabor-depth", "optimizer.lr", 0.01),
    ("cpvt-encodings", "encoding.kernel", 5),
    ("cifar-baselines", "data.kind", "digits"),
    ("atlas", "model.depth", 3),
]:  # fmt: skip
        with subtests.test(f"{name}, {path}, {value}"):
            assert find(name).at(set={path: value}).own_paths == (path,)


def test_arms_that_are_one_recipe_are_refused():
    arms = {"none": {}, "fourier": {"encoding.kind": "fourier", "encoding.gamma": 2.5}}
    with pytest.raises(SpecError, match="arms must be different recipes, got 'none' and 'fourier' alike"):
        Study(name="same", question="?", base=Recipe(encoding=Fourier(gamma=2.5)), plan=Ablation(arms, "none"))
