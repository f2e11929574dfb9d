"""The parameters of trials and runs."""

from __future__ import annotations

from search_spaces import library
from search_spaces.study import Ablation, Study
from service.tracking.rows import LONGEST, trial_content
from tests.rooms.service.tracking.facts import BASE
from trainables.recipe import FromTrial, Recipe

ALWAYS = {"trial", "role", "budget", "data.task", "parameters", "parameters.learnt", "encoding.kind"}


def arm(base: Recipe, values: dict) -> dict[str, str]:
    study = Study(name="arms", question="Which?", base=base, plan=Ablation({"a": {}, "b": values}, "a"), seeds=2)
    edition = study.at(set={"optimizer.weight_decay": 0.25}, name="mine")
    return trial_content(edition, edition.arms()[1]).params


def test_a_trial_shows_what_its_recipe_sets_and_little_else():
    found = arm(BASE, {"encoding.kind": "peg", "encoding.places": [0, 1], "model.depth": 3})
    assert found.pop("budget") == "base~mine"
    changed = {path: value for path, value in found.items() if path not in ALWAYS}
    assert changed == {
        "data.kind": "red_green",
        "model.kind": "vit",
        "model.depth": "3",
        "encoding.places": "0, 1",
        "optimizer.lr": str(BASE.optimizer.lr),
        "optimizer.epochs": "3",
        "optimizer.batch_size": str(BASE.optimizer.batch_size),
        "optimizer.weight_decay": "0.25",
        "test_sizes": "48",
    }


def test_a_parent_is_shown_as_it_was_written():
    found = arm(BASE, {"init": FromTrial(values={"encoding.kind": "none", "optimizer.epochs": 7})})
    assert found["init.values"] == "encoding.kind = none, optimizer.epochs = 7"
    assert found["init.kind"] == "from_trial"


def test_parts_of_an_encoding_are_numbered():
    found = arm(BASE, {"encoding": {"kind": "composed", "parts": [{"kind": "learnable"}, {"kind": "peg"}]}})
    assert found["encoding.kind"] == "learnable+peg"
    assert (found["encoding.parts.0.kind"], found["encoding.parts.1.kind"]) == ("learnable", "peg")


def test_no_study_shows_many_parameters_long_ones_or_folders():
    for study in library.names():
        edition = library.find(study).at()
        plan = edition.study.plan
        for trial in edition.arms() if isinstance(plan, Ablation) else [edition.trial(0, dict(plan.first[0]))]:
            found = trial_content(edition, trial).params
            assert len(found) < 40, study
            assert max(map(len, found.values())) <= LONGEST + len(" ..."), study
            assert not [path for path in found if path.endswith(("source", "folder"))], study
