"""A study file with an encoding of one's own, end to end: typed in, trained, found in MLflow, and read back equal."""

import json
import re
import shlex
from pathlib import Path

import pytest

from service.storage.editions import stored
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from service.tracking.store import look_up
from tests.journeys.files import SPIRAL
from tests.journeys.terminal import Terminal
from trainables.recipe import Recipe

ID = "mine@base"
RUN = ("run", "./mine.py")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def mine(tmp_path_factory):
    """A terminal in which the study was run once; every test leaves it as it was."""
    with Terminal(tmp_path_factory.mktemp("mine")) as terminal:
        (terminal.folder / "mine.py").write_text(SPIRAL)
        terminal.first = terminal.type(*RUN)
        yield terminal


def codes(terminal, id=ID):
    return {fact.code for fact in terminal.facts(id, "ended")}


@pytest.mark.gate
def test_it_runs_to_its_report_and_says_how_each_run_ends(mine):
    done = mine.first
    assert (done.code, done.err) == (0, "")
    assert "plan: mine@base: 4 runs to train, 0 done, 0 reused; time unknown until the first epoch" in done.lines
    assert len([line for line in done.lines if " completed" in line]) == 4
    said = "the typical seed of “wave” reaches at least 0.999 (a claim that so short a training refutes). "
    assert f"INCONCLUSIVE: {said}" in done.out
    assert "“wave” has 2 seeds: " in done.out
    report = re.search(r"^report +(.*)$", done.out, re.MULTILINE)[1]
    assert "spiral" in Path(report).read_text()
    assert "next       locus run ./mine.py --seeds 3   (a test needs 3 seeds)" in done.out
    assert len(mine.facts(ID, "started")) == 4
    events = [line[7:] for line in mine.first.lines if re.match(r"\d\d:\d\d  ", line)]
    ended = sorted(event.partition("  ")[0] for event in events if " completed" in event)
    assert ended == ["#0 seed 0 completed", "#0 seed 1 completed", "#1 seed 0 completed", "#1 seed 1 completed"]
    assert events[-1].endswith("(4 of 4 runs)")
    assert {event for event in events if event.endswith("planned")} == {"#0 wave planned", "#1 spiral planned"}


@pytest.mark.gate
def test_mlflow_gives_the_equal_recipe_back(mine, tmp_path):
    edition = stored(Home(mine.home), "mine@base")
    store = look_up(Home(mine.home), edition)
    levels = sorted(place[0] for place in store.shown)
    assert levels == ["run"] * 4 + ["study"] + ["trial"] * 2
    assert {shown.status for shown in store.shown.values()} == {"FINISHED"}
    study = store.shown["study", "", None]
    text = Path(store.client.download_artifacts(study.id, "recipes.json", str(tmp_path))).read_text()
    trial = edition.arms()[1]
    assert Recipe.read(json.loads(text)["1"]) == trial.recipe
    ended = {fact.run: fact for fact in mine.facts(ID, "ended")}
    for run in trial.runs(2):
        answered = Outcomes(Home(mine.home)).get(run.key, ended[run.key].code)
        shown = store.shown["run", "1", run.seed]
        last = answered.outcome.curve[-1].values
        assert {name: shown.latest[name] for name in last} == last
        assert answered.run == run
        assert answered.run.recipe == trial.recipe


@pytest.mark.gate
def test_typed_again_nothing_runs_and_neither_ray_nor_torch_is_imported(mine):
    before = mine.facts(ID)
    again = mine.do(*RUN, PYTHONPROFILEIMPORTTIME="1")
    assert "plan: mine@base: 0 runs to train, 4 done, 0 reused; nothing to wait for" in again.lines
    assert mine.facts(ID) == before
    imported = set(re.findall(r"\| +(\w+)$", again.err, re.MULTILINE))
    assert not imported & {"ray", "torch", "timm"}
    assert "service" in imported
    assert again.out.split("\n\n")[1:] == mine.first.out.split("\n\n")[1:]


@pytest.mark.gate
def test_verify_is_green_two_seeds_refute_nothing_and_status_knows_it(mine):
    mine.do("verify", "mine")
    mine.do("report", "mine")
    mine.do("report", "mine", "--check")


@pytest.mark.gate
def test_rerun_is_equal_bit_for_bit(mine):
    key = next(fact.run for fact in mine.facts(ID, "ended"))
    again = mine.do("rerun", key[:10])
    assert re.search(rf"{key}: (\d+) numbers compared, 0 differ", again.out)

    status = json.loads(mine.type("status", "mine", "--json").out)[0]
    assert (status["id"], status["state"], status["done"], status["asked"]) == ("mine@base", "done", 4, 4)


def test_more_seeds_run_only_what_is_missing_and_less_runs_nothing(mine):
    before = mine.facts(ID, "started")
    more = mine.type(*RUN, "--seeds", "3")
    assert "plan: mine@base: 2 runs to train, 4 done, 0 reused" in more.out
    assert [fact.seed for fact in mine.facts(ID, "started")[len(before) :]] == [2, 2]
    assert mine.type("report", "mine", "--check").code == 1, "three seeds refute that so short a training is enough"
    mine.do(*RUN, "--seeds", "1")
    assert len(mine.facts(ID, "started")) == len(before) + 2
    mine.do("verify", "mine")


def test_another_study_reuses_the_answers(mine):
    text = SPIRAL.replace('name="mine"', 'name="other"').replace('"wave": {}', '"plain": {}').replace("wave", "plain")
    (mine.folder / "mine.py").write_text(text.replace("seeds=2", "seeds=1"))
    try:
        done = mine.type("run", "mine.py")
    finally:
        (mine.folder / "mine.py").write_text(SPIRAL)
    assert done.code == 0, done.err
    assert "plan: other@base: 0 runs to train, 0 done, 2 reused" in done.out
    assert not mine.facts("other@base", "started")
    mine.do("verify", "other")


def test_hours_that_are_over_have_an_exit_code_and_the_command_that_goes_on(mine):
    over = mine.type(*RUN, "--seeds", "4", "--hours", "0.000001")
    assert over.code == 3
    words = shlex.join(["locus", *RUN, "--seeds", "4", "--hours", "0.000001"])
    assert f"stopped after 1e-06 hours; what is finished is kept\ncontinue   {words}\n" in over.out
    mine.do(*RUN, "--seeds", "4")


def test_an_edited_encoding_trains_again_and_another_edition_stays_beside(terminals):
    mine = terminals("edited")
    file = mine.folder / "mine.py"
    file.write_text(SPIRAL)
    mine.do(*RUN)
    file.write_text(SPIRAL.replace("turns * radius", "turns * radius + 0.1"))
    plan = mine.type("plan", "./mine.py")
    assert "not counted: 2 answers of other code: mine.py changed\n" in plan.out, plan.out + plan.err
    assert "plan: mine@base: 2 runs to train, 2 done" in plan.out
    anew = mine.do(*RUN, "--as", "edited")
    assert "plan: mine@base~edited: 2 runs to train, 0 done, 2 reused" in anew.out
    assert len(codes(mine, "mine@base~edited") - codes(mine)) == 1
    assert len(mine.facts(ID, "started")) == 4, "the study of before stays as it was"
    again = mine.type(*RUN)
    assert "plan: mine@base: 0 runs to train, 2 done, 2 reused" in again.out
