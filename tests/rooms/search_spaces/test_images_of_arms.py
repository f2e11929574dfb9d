"""Arms that name images: a study keeps what they were, however often it is asked, stored and read."""

import shutil

import pytest

from search_spaces.study import Ablation, Study
from search_spaces.words import setting_words
from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.data import folder
from trainables.recipe import Recipe, Run

SMALL = {"data.kind": "folder", "data.image_size": 8, "model.patch_size": 4}


def study_of(root, **axes):
    arms = {
        "mine": {"data.path": str(root / "mine")},
        "theirs": {"data.path": "theirs"},
        "pretrained": {"init": {"kind": "from_trial", "values": {"data.path": "theirs"}}},
    }
    plan = Ablation(axes={"set": arms, **axes}, baseline="mine") if axes else Ablation(arms=arms, baseline="mine")
    return Study(name="sets", question="Which?", base=Recipe().put({**SMALL, "data.path": "mine"}), plan=plan)


@pytest.fixture
def root(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, count in (("mine", 10), ("theirs", 20)):
        image_folder(tmp_path / name, {"train": count})
    return tmp_path


@pytest.mark.parametrize("axes", [{}, {"rate": {"slow": {"optimizer.lr": 1e-4}, "fast": {}}}])
def test_arms_stay_what_they_are_when_their_images_change(root, axes, monkeypatch):
    def keys(study):
        return [Run(recipe=study.recipe(values), seed=0).key for values in study.plan.arms.values()]

    study = study_of(root, **axes)
    recipe = study.recipe(study.plan.arms["theirs" + ", slow" * bool(axes)])
    assert (sum(recipe.data.images), recipe.data.path) == (60, str(root / "theirs"))
    text, known = study.model_dump_json(), keys(study)
    picture(250).save(root / "theirs" / "train" / "class_0" / "0000.png")
    changed = study_of(root, **axes)
    assert changed.at().definition != study.at().definition
    assert [new == old for new, old in zip(keys(changed), known, strict=True)] == [
        name.startswith("mine") for name in study.plan.arms
    ]
    shutil.rmtree(root / "theirs")
    monkeypatch.setattr(folder, "scan", None)
    monkeypatch.chdir("/")
    back = Study.read_text(text)
    assert back == study
    assert keys(back) == known
    assert back.at(seeds=2).study.recipe(study.plan.arms["theirs" + ", slow" * bool(axes)]) == recipe


def test_what_was_read_is_not_shown_as_what_was_written(root):
    study = study_of(root)
    assert study.paths() == ["data.path", "init"]
    assert setting_words(study.plan.arms["mine"]) == [f"data.path = {root / 'mine'}"]
    (shown,) = setting_words(study.plan.arms["pretrained"])
    assert shown.startswith("init = from_trial values=(data.path=")
    assert "digest" not in shown
