"""What a study refuses before it writes anything, what it hears while it begins, and how it ends."""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from search_spaces.space import Choice, Space
from search_spaces.study import Ablation, Edition, Search, Study
from service import api, run_study
from service.execution import machine
from service.execution.signals import Control, ask_driver
from service.planning.placement import Machine
from service.planning.run_options import RunOptions
from service.storage.facts import Confirms
from service.storage.history import History
from service.storage.home import Home
from service.storage.leases import Session
from service.terminal.live import Progress
from service.tracking.rows import STUDY
from service.tracking.store import look_up
from service.tracking.sync import MlflowSync
from tests.rooms.by_hand import ByHand, search
from trainables.recipe import Recipe
from trainables.spec import LocusError, SpecError

STACK = {"encoding.kind": "peg", "encoding.form": "dense_stack"}
PLANS = [
    Ablation(arms={"none": {}, "stack": STACK}, baseline="none"),
    Search(space=Space({"encoding.kernel": Choice((1, 3))}), first=({"encoding.kernel": 3},), trials=2),
]


@pytest.mark.parametrize("plan", PLANS, ids=["ablation", "search"])
def test_workers_that_would_change_numbers_are_refused_before_anything_is_written(
    plan, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(machine, "machine", lambda options: Machine(cores=4))
    base = Recipe() if isinstance(plan, Ablation) else Recipe().put(STACK)
    edition = Study(name="norms", question="?", base=base, plan=plan).at()
    with pytest.raises(SpecError, match="workers must be 0 or 1 on CPUs where a model has batch norms"):
        run_study.run_study(edition, RunOptions(home=str(tmp_path / "home"), workers=2), Progress(edition))
    with pytest.raises(SpecError, match="workers must be 0 or 1 on CPUs where a model has batch norms"):
        api.plan(edition, RunOptions(home=str(tmp_path / "home"), workers=2))
    assert list(tmp_path.iterdir()) == []


def test_a_study_does_not_end_the_ray_session_of_a_notebook(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(machine, "machine", lambda options: Machine(cores=4))
    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(is_initialized=lambda: True))
    edition = Study(name="norms", question="?", base=Recipe(), plan=PLANS[0]).at()
    with pytest.raises(LocusError, match="this process must have no Ray session"):
        run_study.run_study(edition, RunOptions(home=str(tmp_path / "home")), Progress(edition))
    assert list(tmp_path.iterdir()) == []


def test_cores_are_counted_where_the_system_does_not_report_those_of_a_process(monkeypatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 3)
    assert machine.machine(RunOptions()).cores == 3


def answered(tmp_path: Path) -> Edition:
    """A whole search of answers that are there: nothing is trained."""
    edition = search().at()
    points = [{"encoding.gamma": gamma} for gamma in (2.5, 4.0)]
    with ByHand(tmp_path, edition, seeds=2, trials=2) as hand:
        for role in ("trial", "confirmation"):
            for number, values in enumerate(points):
                trial = hand.plan(role, number, values)
                for seed in trial.seeds(2):
                    hand.complete(trial, seed, 0.9 - number / 10, 0.9)
        hand.journal.write(Confirms(numbers=(0, 1)))
    return edition.model_copy(update={"study": edition.study.counted(seeds=2, trials=2)})


def test_a_study_is_closed_in_one_order_whatever_fails(tmp_path: Path, monkeypatch) -> None:
    """Other drivers get their share back first, the screen is free before lines are printed, the storage comes last."""
    edition, taken = answered(tmp_path), []

    def fail(owner: type, name: str) -> None:
        step = getattr(owner, name)

        def fails(itself, *args):
            step(itself, *args)
            taken.append(name)
            raise ZeroDivisionError(name)

        monkeypatch.setattr(owner, name, fails)

    steps = {"end": Progress} | dict.fromkeys(("close_mlflow", "close_storage", "name_failures"), run_study.StudyRun)
    for name, owner in steps.items():
        fail(owner, name)
    with pytest.raises(ZeroDivisionError, match="name_failures"):
        run_study.run_study(edition, RunOptions(home=str(tmp_path)), Progress(edition))
    assert taken == [*steps]
    assert look_up(Home(tmp_path), edition).shown[STUDY].status == "FINISHED"
    assert not Home(tmp_path).study(edition.id).driven


def test_a_stop_that_comes_while_the_journal_is_read_is_heard(tmp_path, monkeypatch) -> None:
    """The driver has the lock: locus stop takes the study for one that is run."""
    edition, begin = answered(tmp_path), Session.begin
    folder = Home(tmp_path).study(edition.id)

    def slowly(session, above=0):
        assert folder.driven
        ask_driver(folder, Control(stop="after the epoch"))
        begin(session, above)

    monkeypatch.setattr(Session, "begin", slowly)
    with pytest.raises(KeyboardInterrupt):
        run_study.run_study(edition, RunOptions(home=str(tmp_path)), Progress(edition))


def test_a_request_of_before_is_forgotten_and_one_that_comes_while_a_study_is_opened_is_heard(
    tmp_path: Path, monkeypatch
) -> None:
    """Opening takes seconds, in which the lock is held: another command is told that its request will be done."""
    edition, notes = answered(tmp_path), []
    progress, folder, open_mlflow = Progress(edition), Home(tmp_path).study(edition.id), MlflowSync.open

    def slowly(sync: MlflowSync) -> None:
        assert not folder.control.exists(), "what the driver before did not read is forgotten"
        ask_driver(folder, Control(stop="after the epoch"))
        open_mlflow(sync)

    monkeypatch.setattr(progress, "note", notes.append)
    monkeypatch.setattr(MlflowSync, "open", slowly)
    ask_driver(folder, Control(seeds=9))
    with pytest.raises(KeyboardInterrupt):
        run_study.run_study(edition, RunOptions(home=str(tmp_path)), progress)
    assert "asked by another command: stop after the epoch" in notes
    assert History.open(Home(tmp_path), edition).seeds == 2


def test_a_report_that_cannot_be_written_takes_no_answer_and_fails_no_study(tmp_path: Path, monkeypatch) -> None:
    asked = answered(tmp_path)
    notes: list[str] = []
    progress = Progress(asked)
    monkeypatch.setattr(progress, "note", notes.append)
    monkeypatch.setattr(run_study.Result, "report", lambda *given: 1 / 0)
    told: list[dict[str, object]] = []
    result = run_study.run_study(
        asked, RunOptions(home=str(tmp_path), experiment="mine"), progress, lambda **facts: told.append(facts)
    )
    known = {"study": asked.id, "home": str(tmp_path), "home_id": Home(tmp_path).id}
    assert told == [known, {"mlflow": ""}, {"ended": "finished"}]
    assert [line for line in notes if "the report cannot be written (ZeroDivisionError: division by zero" in line]
    assert "ZeroDivisionError" in Home(tmp_path).study(asked.id).log.read_text()
    assert result.headline
    shown = look_up(Home(tmp_path), asked)
    assert (shown.place.name, shown.shown[STUDY].status) == ("mine", "FINISHED")
