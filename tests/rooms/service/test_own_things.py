"""What is a person's own: classes, files of studies, pictures and folders are those that she means."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from search_spaces.study import Ablation, Score, Study
from service import api
from service.own_images import _arrays, image_values
from service.storage import editions
from service.storage.history import History
from service.storage.home import Home
from tests.rooms.toy import conduct
from tests.rooms.trainables.launch.test_trial_step import SCALE, own
from trainables.backbones import ViT
from trainables.data import Folder
from trainables.data.arrays import checked
from trainables.launch.trial_step import TrialStepError, try_step
from trainables.recipe import Recipe
from trainables.spec import LocusError, SpecError

RAMP = """
from pydantic import Field
from service import Ablation, Fourier, Recipe, Study
from trainables.encodings import CodeSpec, Param, normal


class Ramp(CodeSpec):
    kind: str = Field(default="mine.py:Ramp", init=False)
    std: float = Field(default=0.02, gt=0)

    def params(self, dim, grid):
        return {"slope": Param((dim,), normal(self.std))}

    def code(self, p, at):
        return at.prefixed(at.y[:, None] * p("slope"))
"""
STUDY = """

plan = Ablation(arms={"none": {}, "own": {"encoding": OWN}}, baseline="none")
study = Study(name="mine", question="?", base=Recipe(), plan=plan, seeds=1)
"""


def pets(root: Path, seed: int = 0, count: int = 12) -> Path:
    chance = np.random.default_rng(seed)
    for name in ("cat", "dog"):
        (root / name).mkdir(parents=True, exist_ok=True)
        for number in range(count):
            Image.fromarray(chance.integers(0, 255, (16, 16, 3), np.uint8)).save(root / name / f"{number}.png")
    return root


SUBCLASSES = """

class Columns(Ramp):
    def code(self, p, at):
        return at.prefixed(at.x[:, None] * p("slope"))


class Halved(Fourier):
    def code(self, p, at):
        return 0.5 * super().code(p, at)
"""


@pytest.mark.parametrize("own", ["Columns(std=0.5)", "Halved(gamma=2.0)"])
def test_a_class_that_its_kind_does_not_name_is_refused(tmp_path, monkeypatch, own):
    """The class that the kind names (Ramp, Fourier) was trained in its place."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RAMP + SUBCLASSES + STUDY.replace("OWN", own))
    with pytest.raises(LocusError, match=f"kind.*{own.partition('(')[0]}"):
        api.resolve("./mine.py", home="home")


def test_an_object_brings_the_text_of_its_own_class(tmp_path, monkeypatch):
    """A class of another file, or of a notebook's cell, was replaced by that of ./mine.py."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RAMP)
    cell: dict = {"__name__": "__main__"}  # as a notebook's cell defines it
    exec(RAMP.replace("at.y", "at.x"), cell)
    with pytest.raises(SpecError, match=r"mine\.py"):
        Recipe().put({"encoding": cell["Ramp"](std=0.5)})
    Path("exp").mkdir()
    Path("exp", "mine.py").write_text(RAMP.replace("at.y", "at.x"))
    monkeypatch.syspath_prepend(str(tmp_path))
    from exp.mine import Ramp

    assert "at.x" in Recipe().put({"encoding": Ramp(std=0.5)}).encoding.source


@pytest.mark.parametrize("coding", ["latin-1", "utf-8-sig"])
def test_a_file_is_read_in_the_encoding_that_it_names(tmp_path, monkeypatch, coding):
    monkeypatch.chdir(tmp_path)
    head = "# -*- coding: latin-1 -*-\n" if coding == "latin-1" else ""
    Path("mine.py").write_bytes((head + "# a k\xf6nig\n" + RAMP + STUDY.replace("OWN", "Ramp()")).encode(coding))
    assert api.resolve("./mine.py", home="home").study.name == "mine"
    Path("other.py").write_bytes(b"# a k\xf6nig\n")
    with pytest.raises(LocusError, match=r"other\.py must be text in UTF-8"):
        api.resolve("./other.py", home="home")


def test_a_study_file_that_is_named_again_is_read_again(tmp_path, monkeypatch):
    """In one session the images of before were meant, and with another working folder those of the other."""
    monkeypatch.chdir(tmp_path)
    values = {"data.kind": "folder", "data.path": "./pets", "data.image_size": 16, "model.patch_size": 4}
    arms = "Ablation(arms={'none': {}}, baseline='none')"
    text = f"study = Study(name='mine', question='?', base=Recipe().put({values}), plan={arms}, seeds=1)\n"
    text = f"from service import *\n{text}"
    Path("mine.py").write_text(text)
    pets(tmp_path / "pets", seed=1)
    before = api.resolve("./mine.py", home="home").study.base.data.digest
    pets(tmp_path / "pets", seed=2)
    assert api.resolve("./mine.py", home="home").study.base.data.digest != before


def test_other_images_are_scored_as_those_of_the_study(tmp_path):
    base = Recipe(data=Folder(path=str(pets(tmp_path / "a", 1)), image_size=16, balanced=True), model=ViT(patch_size=4))
    arms = Ablation({"none": {}, "sin": {"encoding.kind": "sinusoidal"}}, "none")
    study = Study(name="mine", question="?", base=base, plan=arms, score=Score("val/balanced_accuracy"))
    edition = api.resolve(study, data=str(pets(tmp_path / "b", 2)), home=str(tmp_path / "home"))
    assert edition.study.score.metric == "val/balanced_accuracy"


def test_pictures_in_a_list_are_those_of_a_dataset_and_stay_as_they_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pets(tmp_path / "digits")
    assert image_values(Path("./digits"), "home", {}, "set")["data.kind"] == "folder", "a path is no known set"
    path, turned = tmp_path / "a.jpg", Image.Exif()
    turned[0x0112] = 6
    Image.new("RGB", (8, 4)).save(path, exif=turned)
    pictures = [Image.open(path), *(Image.effect_noise((4, 8), 80).quantize(64) for _ in range(3))]
    images, labels = _arrays((pictures, [0, 1, 0, 1]))
    assert images.shape == (4, 8, 4, 3), "the first one is turned"
    assert (pictures[0].size, pictures[0].getexif()[0x0112]) == ((8, 4), 6)
    of_dataset = _arrays([*zip(pictures, [0, 1, 0, 1], strict=True)])
    assert np.array_equal(of_dataset[0], images)
    assert np.array_equal(of_dataset[1], labels)


@pytest.mark.parametrize(("kind", "mend"), [("uint16", "257"), ("bool", r"uint8.\) \* 255")])
def test_the_words_to_type_keep_what_is_white(kind, mend):
    with pytest.raises(SpecError, match=mend):
        checked(np.ones((4, 2, 2), kind), [0, 1, 0, 1])


def test_arms_in_another_order_are_the_same_study(tmp_path):
    arms = {"none": {}, "sin": {"encoding.kind": "sinusoidal"}, "peg": {"encoding.kind": "peg"}}
    base = Recipe().put({"optimizer.epochs": 1})

    def asked(names):
        plan = Ablation({name: arms[name] for name in names}, "none")
        return Study(name="x", question="?", base=base, plan=plan, seeds=1).at()

    home = Home(tmp_path / "home")
    conduct(home, asked(["none", "sin", "peg"]))
    again = editions.resolve_edition(asked(["none", "peg", "sin"]), home)
    assert [trial.name for trial in History.open(home, again).trials] == ["none", "sin", "peg"]


def test_what_is_read_from_a_folder_cannot_be_set_otherwise(tmp_path):
    with pytest.raises(SpecError, match=r"data\.classes"):
        api.resolve("encodings", data=str(pets(tmp_path / "a")), set={"data.classes": 3}, home=str(tmp_path / "home"))


def test_a_false_promise_is_found_also_where_parameters_begin_at_zero():
    """As tables of biases do: `check` compared two ways of computing nothing."""
    right = (
        SCALE.replace("normal(0.5)", "zeros()").replace("h.q * terms", "h.q * (1 + terms").replace("None])", "None]))")
    )
    assert try_step(own(right)) == []
    with pytest.raises(TrialStepError, match="the same for the rows that are read as for all rows"):
        try_step(own(right.replace("(1 + terms", "(1 + h.q.shape[2] * terms")))
