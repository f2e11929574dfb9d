"""Encodings of a person's own as arms of named studies: their names, their values, and the studies that take none."""

import json
from pathlib import Path

import pytest

from search_spaces import library
from search_spaces.library import find
from search_spaces.study import Ablation, Edition
from service import api
from service.execution.submission import study_sent
from service.planning.run_options import RunOptions
from service.storage.editions import carried, resolve_edition, save_edition, stored
from service.storage.home import Home
from trainables.encodings import Rotary
from trainables.own import OwnSpec
from trainables.recipe import Recipe
from trainables.spec import LocusError, SpecError

RAMP = """
from pydantic import Field
from trainables.encodings import CodeSpec, Param, normal


class Ramp(CodeSpec):
    kind: str = Field(default="mine.py:Ramp", init=False)
    std: float = Field(default=0.02, gt=0)

    def params(self, dim, grid):
        return {"slope": Param((dim,), normal(self.std))}

    def code(self, p, at):
        return at.prefixed(at.y[:, None] * p("slope"))
"""
OTHER = RAMP.replace("mine.py", "other.py")


@pytest.fixture(autouse=True)
def mine(tmp_path, monkeypatch):
    """The working folder, with a file that has an encoding."""
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(RAMP)
    return tmp_path


def named() -> OwnSpec:
    """The encoding of the file as a recipe holds it."""
    return Recipe().put({"encoding.kind": "mine.py:Ramp", "encoding.source": RAMP}).encoding


def test_it_is_an_arm_like_the_others_but_for_its_encoding():
    edition = find("encodings").at("smoke", arms=["rotary", "./mine.py:Ramp"])
    assert [*edition.study.plan.arms] == ["learnable", "rotary", "Ramp"]
    _, rotary, ramp = edition.arms()
    assert ramp.recipe == rotary.recipe.model_copy(update={"encoding": named()})
    assert edition.study.plan.tune == find("encodings").at("smoke").study.plan.tune
    assert edition.study.plan.race


def test_a_file_a_class_and_an_object_are_the_same_arm(mine):
    ramp = named().spec
    arms = ("./mine.py:Ramp", f"{mine}/mine.py:Ramp", type(ramp), ramp)
    asked = [find("encodings").at("smoke", arms=[arm]) for arm in arms]
    assert {edition.id for edition in asked} == {asked[0].id}
    wide = find("encodings").at("smoke", arms=[ramp, type(ramp)(std=0.5), Rotary(temperature=30.0)])
    assert [*wide.study.plan.arms] == ["learnable", "Ramp", "Ramp std=0.5", "rotary temperature=30"]


def test_of_axes_it_stands_beside_the_baseline_with_every_other_value(subtests):
    for name in ("absolute", "data-efficiency"):
        with subtests.test(name):
            plan = find(name).at("smoke", arms=["./mine.py:Ramp"]).study.plan
            names = [plan.combination(arm)[plan.baseline_axis] for arm in plan.arms]
            assert {*names} == {plan.baseline, "Ramp"}
            assert names.count("Ramp") == names.count(plan.baseline)


def test_every_named_study_takes_it_or_says_why_not(subtests):
    takes, refused = set(), {}
    for name in library.names():
        try:
            edition = find(name).at(arms=["./mine.py:Ramp"])
        except SpecError as error:
            refused[name] = str(error)
        else:
            takes.add(name)
            assert any(isinstance(arm.recipe.encoding, OwnSpec) for arm in edition.arms()), name
    for name, said in refused.items():
        with subtests.test(name):
            assert said.startswith(
                (f"arms of {name} must be some of its own, because", "arms are those of an ablation")
            )
            assert said.endswith("got Ramp")
    assert {"encodings", "atlas", "absolute", "cifar-encodings", "rope-vit", "data-efficiency"} <= takes
    assert not takes & {"realistic", "gap", "concat-places", "attention-parts", "fourier-gamma"}


def test_two_of_one_name_are_refused(subtests):
    Path("other.py").write_text(OTHER)
    study = find("encodings")
    for arms, said in [
        (["./mine.py:Ramp", "other.py:Ramp"], "got two called 'Ramp': rename one of the classes"),
        (["rotary", Rotary()], "got 'rotary', which encodings has"),
        (["./mine.py"], r"arms must name a class of ./mine.py, as in ./mine.py:Ramp"),
        (["./mime.py:Ramp"], r"no file mime.py; did you mean mine.py\?"),
        (["./mine.py:Rmap"], r"must name an EncodingSpec in mine.py, got 'Rmap'; did you mean Ramp\?"),
        ([3], "arms must be names, classes of files .*, got 3"),
    ]:
        with subtests.test(said), pytest.raises(LocusError, match=said):
            study.at("smoke", arms=arms)


def test_the_home_and_a_job_keep_its_text(mine, monkeypatch):
    """Another folder has no such file: the study is read, and goes on, with the text that its definition holds."""
    edition = api.resolve("encodings", budget="smoke", arms=["./mine.py:Ramp"], home="home")
    home = Home(mine / "home")
    save_edition(edition, home)
    sent = json.dumps(study_sent(edition, RunOptions()))
    monkeypatch.chdir(mine / "home")
    assert Edition.read(json.loads(sent)["edition"]) == edition
    assert [*carried(home, edition.id)] == [("mine.py", RAMP)]
    assert stored(home, edition.id).arms()[1].recipe == edition.arms()[1].recipe
    assert resolve_edition(api.resolve(edition.id, home=str(home.root)), home).id == edition.id


def test_the_same_command_with_one_more_arm_goes_on_with_the_edition(mine):
    home = Home(mine / "home")

    def asked(*arms, **more):
        found = resolve_edition(api.resolve("encodings", budget="smoke", arms=arms, home=str(home.root), **more), home)
        save_edition(found, home)
        return found.id, [*found.study.plan.arms]

    first, arms = asked("rotary")
    assert asked("./mine.py:Ramp", "rotary") == (first, [*arms, "Ramp"])
    assert asked("rotary") == (first, [*arms, "Ramp"]), "arms become no fewer, as seeds do not"
    assert asked("peg", "rotary", "./mine.py:Ramp") == (first, [*arms, "Ramp", "peg"])
    assert asked("rotary", version="alone")[0] == "encodings@smoke~alone"
    assert asked("rotary", "fire", version="alone") == ("encodings@smoke~alone", [*arms, "fire"])
    for other in ({"set": {"optimizer.epochs": 7}}, {"arms": ["fire", "peg"]}):
        given = {"arms": ["rotary", "./mine.py:Ramp", "peg", "fire"]} | other
        assert asked(*given.pop("arms"), **given)[0] not in (first, "encodings@smoke~alone"), other


def test_axes_grow_too_and_keep_what_they_leave_out():
    """New arms come behind all of before, by which a journal numbers them."""
    axes = {"task": {"a": {"data.task": "absolute"}, "d": {"data.task": "direction"}}}
    kinds = {name: {"encoding.kind": name} for name in ("none", "rotary", "peg")}
    whole = Ablation(axes=axes | {"encoding": kinds}, baseline="none", without=({"task": "d", "encoding": "rotary"},))
    before, now = whole.only(["rotary"]), whole.only(["peg"])
    assert [*now.following(before, keep=True).arms] == ["a, none", "a, rotary", "d, none", "a, peg", "d, peg"]
    assert now.following(before, keep=True).without == whole.without
    assert [*now.following(before, keep=False).arms] == ["a, none", "d, none", "a, peg", "d, peg"]
