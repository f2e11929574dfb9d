"""An encoding of one's own beside those of a named study, on one's own images: typed, trained, and added to."""

import json
from pathlib import Path

import pytest

from service.storage.editions import stored
from service.storage.home import Home
from tests.journeys.terminal import Terminal
from tests.rooms.search_spaces.test_own_arms import RAMP
from tests.rooms.trainables.data.pictures import image_folder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
SIZE = ("--data", "./pets", "--budget", "smoke", "--set", "optimizer.epochs=1", "--seeds", "2")


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(RAMP)
    image_folder(tmp_path / "pets", {"train": 30, "val": 10, "test": 10})
    with Terminal(tmp_path) as terminal:
        yield terminal


def started(terminal, id):
    """The labels of the trials whose runs were trained."""
    return {fact.label for fact in terminal.facts(id, "started")}


def test_it_is_tuned_and_trained_as_the_others_and_one_more_trains_alone(mine):
    run = ("run", "encodings", *SIZE, "--arms")
    first = mine.type(*run, "rotary,./mine.py:Ramp")
    assert (first.code, first.err) == (0, "")
    (id,) = Home(mine.home).ids()
    assert f"plan: {id}: at most 12 runs to train, 0 done" in first.out
    _, rotary, ramp = stored(Home(mine.home), id).arms()
    assert ramp.recipe.put({"encoding.kind": "rotary"}) == rotary.recipe
    tuned = {fact.arm for fact in mine.facts(id, "tuned")}
    assert tuned == {"learnable", "rotary", "Ramp"}
    assert "Ramp" in Path(Home(mine.home).study(id).report / "results.csv").read_text()

    before = started(mine, id)
    more = mine.do(*run, "rotary,./mine.py:Ramp,sinusoidal")
    assert f"plan: {id}: at most 4 runs to train, 12 done" in more.out
    assert started(mine, id) - before == {"t3.0", "t3.1", "3"}

    told = mine.python(
        f"""
import service
from mine import Ramp
arms = ["rotary", "./mine.py:Ramp", "sinusoidal", Ramp(std=0.5)]
own = dict(data="./pets", budget="smoke", set={{"optimizer.epochs": 1}}, seeds=2)
result = service.run("encodings", arms=arms, **own)
assert result.edition.id == {id!r}, result.edition.id
assert [row.trial.name for row in result.of("trial")] == ["learnable", "rotary", "Ramp", "sinusoidal", "Ramp std=0.5"]
assert all(row.test.complete for row in result.of("trial"))
"""
    )
    assert told.code == 0, told.err
    assert started(mine, id) - before == {"t3.0", "t3.1", "3", "t4.0", "t4.1", "4"}
    assert len(Home(mine.home).ids()) == 1

    away = mine.folder / "away"
    away.mkdir()
    (mine.folder / "mine.py").rename(away / "gone.txt")
    status = json.loads(mine.type("status", "encodings", "--json").out)[0]
    assert (status["id"], status["state"], status["done"]) == (id, "done", 20)
    mine.do("report", "encodings")
    mine.do("verify", "encodings")
    again = mine.do("run", id)
    assert f"plan: {id}: 0 runs to train, 20 done" in again.out


def test_one_more_arm_of_a_call_continues_its_study(mine):
    told = mine.python(
        """
import service
from mine import Ramp

def asked(*names, **more):
    arms = {"none": {}, "peg": {"encoding.kind": "peg"}, "ramp": {"encoding": Ramp()}}
    base = {"optimizer.epochs": more.get("epochs", 1), "data.train_size": 60, "data.val_size": 20, "data.test_size": 20}
    return service.ablate({name: arms[name] for name in names}, baseline="none", base=base, seeds=1, name="notebook")

first = asked("none", "peg")
more = asked("none", "ramp", "peg")
assert first.edition.id == more.edition.id
assert [row.trial.name for row in more.of("trial")] == ["none", "peg", "ramp"]
try:
    asked("none", "ramp", "peg", epochs=2)
except service.LocusError as error:
    print(error)
"""
    )
    assert told.code == 0, told.err
    assert len(mine.facts("notebook@base", "started")) == 3
    assert 'was 1, is 2. version="WORD" starts another version' in " ".join(told.out.split())


def test_check_finds_what_no_study_should_train(mine):
    check = ("check", "encodings", "--budget", "smoke", "--arms")
    right = mine.type(*check, "./mine.py:Ramp")
    assert (right.code, right.err) == (0, "")
    idle = RAMP.replace('{"slope": ', '{"idle": Param((3,), normal(0.1)), "slope": ').replace("mine.py", "idle.py")
    (mine.folder / "idle.py").write_text(idle)
    wrong = mine.type(*check, "./idle.py:Ramp")
    assert (wrong.code, wrong.out) == (1, "arm 'Ramp': encoding.Ramp.idle gets no gradient: nothing reads it\n")
    (mine.folder / "idle.py").write_text(idle.replace("return at.prefixed", "at.prefixed"))
    nothing = mine.type(*check, "./idle.py:Ramp")
    assert nothing.code == 2
    assert "got NoneType; did code() return?" in " ".join(nothing.err.split())
