"""The time of an epoch comes from the same work; how much is done and how long the rest takes, against sums by hand."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Search, Study
from service.analysis.study_status import one_status
from service.planning.estimate import estimate_work, work_rows
from service.planning.forecast import (
    TIMELESS,
    EpochTimes,
    Forecast,
    Left,
    RunTime,
    run_peaks,
    run_time,
    side_by_side,
    unproposed,
)
from service.planning.placement import Placement, fused_gib
from service.storage.facts import Counts, Ended, Measured, Started
from service.storage.history import History
from service.storage.outcomes import Outcomes
from tests.rooms.by_hand import ByHand
from tests.rooms.service.execution.studies import search
from tests.rooms.toy import Toy, conduct, driving
from trainables.encodings import Fourier
from trainables.recipe import Recipe
from trainables.recipe.cost import PROCESS_BYTES
from trainables.recipe.optimizer import SGD, AdamW, Muon

NEAR = Recipe(encoding=Fourier(gamma=1.0))
FAR = NEAR.put({"encoding.gamma": 5.0})


def of_epochs(recipe, *seconds):
    return run_time(recipe, [{"time/epoch_s": one} for one in seconds])


def test_an_epoch_takes_as_long_as_in_runs_of_the_same_work() -> None:
    times = EpochTimes([of_epochs(NEAR, 1.0), of_epochs(NEAR, 2.0), of_epochs(NEAR, 3.0), of_epochs(FAR, 10.0)])
    assert (times(NEAR), times(FAR)) == (2.0, 10.0)
    assert times(NEAR.put({"optimizer.lr": 0.1, "optimizer.epochs": 99})) == 2.0, "a rate changes no time"
    assert times(NEAR.put({"optimizer.batch_size": 7})) == times.usual == 6.0, "smaller batches do"
    assert times(NEAR.put({"encoding.kind": "none"})) == 6.0
    for path, value in {"precision": "float64", "accumulate": 4, "ema_decay": 0.9}.items():
        assert times(NEAR.put({f"optimizer.{path}": value})) == 6.0, "so does what is computed in a step"
    assert "optimizer" in NEAR.put({"optimizer.lr": 0.1}).identity(), "what decides a key is not changed"


def test_values_without_time_are_values_of_an_optimizer() -> None:
    assert {*TIMELESS} < {name for kind in (AdamW, SGD, Muon) for name in kind.model_fields}


SHORT, LONG = NEAR.put({"optimizer.epochs": 1}), FAR.put({"optimizer.epochs": 20})


@pytest.mark.parametrize(
    ("times", "seconds"),
    [
        ([None], None),
        ([of_epochs(NEAR)], None),
        # 12 epochs of 2.5 s with tests of 4 s at the end: an epoch takes 2.5 s, and not 2.83 or 6.5.
        ([of_epochs(NEAR, *[2.5] * 11, 6.5)], 2.5),
        # After 60 s of preparation and nine epochs of 1 s a run that goes on has epochs of 1 s, and not of 6.9 s.
        ([of_epochs(NEAR, 60.0, *[1.0] * 9)], 1.0),
        # One epoch with its tests takes 5 s, each of 20 epochs of another run 1 s: an epoch of a third one 25 / 21 s.
        ([of_epochs(SHORT, 5.0), *[of_epochs(LONG, *[1.0] * 19, 3.0)] * 2], 25 / 21),
    ],
    ids=["none", "no epochs", "tests at the end", "a slow first epoch", "by their epochs"],
)
def test_the_usual_epoch(times, seconds) -> None:
    assert EpochTimes(times)(NEAR.put({"encoding.kind": "none"})) == (seconds and pytest.approx(seconds))


@given(st.lists(st.floats(0.1, 100), min_size=1, max_size=20), st.integers(1, 8))
def test_runs_side_by_side_take_no_less_than_the_longest_and_than_their_share(seconds, slots) -> None:
    found = side_by_side(seconds, slots)
    assert found >= max(seconds)
    assert found >= sum(seconds) / slots - 1e-9
    assert found <= sum(seconds) + 1e-9
    assert found <= sum(seconds) / slots + max(seconds) + 1e-9
    assert side_by_side(seconds, 1) == pytest.approx(sum(seconds))
    assert side_by_side([], slots) == 0.0
    assert side_by_side([10.0] * len(seconds), slots) == pytest.approx(10 * -(-len(seconds) // slots))


BASE = Recipe(encoding=Fourier()).put({"optimizer.epochs": 6})


def arms(seeds=2):
    plan = Ablation({"near": {}, "long": {"optimizer.epochs": 9, "encoding.gamma": 5.0}}, "near")
    return Study(name="arms", question="?", base=BASE, plan=plan, seeds=seeds).at()


NONE = EpochTimes([])
"""Other studies have measured nothing; with them a time is said before two runs have ended."""


def timed(history, seconds):
    """Every measured epoch takes so long, by the arm's name."""
    for trial in history.trials:
        for run in history.runs(trial).values():
            for fact in history.state(run).curve.values():
                fact.values["time/epoch_s"] = seconds[trial.name]


def test_an_ablation_counts_all_its_runs_before_the_first_and_has_none_left_at_the_end(home):
    history = History.open(home, arms())
    assert Forecast(history)(2) == Left(0, 4, None)
    assert Forecast(history, EpochTimes([RunTime("other", 5, 3.0)]))(2) == Left(0, 4, 2 * (6 + 9) * 3.0 / 2)
    conduct(home, arms())
    history = History.open(home, arms())
    timed(history, {"near": 2.0, "long": 4.0})
    assert Forecast(history)(2) == Left(4, 4, 0.0)


def test_epochs_of_running_runs_count(home):
    with driving(home, arms()) as driver:
        toy = Toy(driver, random.Random(0))
        toy._fill()
        for _ in range(5):
            toy._advance(next(iter(toy.workers)))
        history = driver.history
        timed(history, {"near": 2.0, "long": 10.0})
        long = 10.0 if any(history.state(run).curve for run in history.runs(history.trials[1]).values()) else 2.0
        left = sum(
            (run.recipe.optimizer.epochs - history.state(run).epoch) * {"near": 2.0, "long": long}[trial.name]
            for trial in history.trials
            for run in history.runs(trial).values()
        )
        assert history.state(next(iter(history.runs(history.trials[0]).values()))).epoch > 0
        both = Forecast(history, NONE)(2).seconds
        assert max(left / 2, 9 * long) <= both + 1e-9
        assert both <= left / 2 + 9 * long, "one process may be idle while the last run ends"
        assert Forecast(history, NONE)(1).seconds == pytest.approx(left)
        assert Forecast(history, NONE)(100).seconds == pytest.approx(9 * long), "no run is shared between two processes"


def test_a_run_that_trained_as_one_with_others_has_its_part_of_the_memory(home):
    """The peak is that of all four; it was taken for that of each, and multiplied by four again."""
    history = conduct(home, arms()).driver.history
    process = PROCESS_BYTES / 2**30
    for state in history.states.values():
        for epoch in state.curve.values():
            epoch.values.update({"memory/peak_gib": fused_gib(process + 0.25, 4), "time/runs": 4.0})
    assert run_peaks(history) == pytest.approx([process + 0.25] * len(run_peaks(history)))
    assert run_peaks(history)


def test_the_points_of_a_search_that_nobody_proposed_count(home):
    plan = Search(space=Space({"encoding.gamma": Real(low=0.5, high=9)}), trials=5)
    edition = Study(name="reach", question="?", base=BASE, plan=plan, seeds=2).at()
    history = History.open(home, edition)
    assert Forecast(history, EpochTimes([RunTime("other", 5, 1.0)]))(4) == Left(0, (5 + 5) * 2, (5 + 5) * 2 * 6 / 4)


def test_the_plan_names_arms_and_parents(home):
    child = BASE.put({"init": {"kind": "from_trial", "values": {"data.task": "distance"}}})
    plan = Ablation({"from scratch": {"init.kind": "fresh"}, "pretrained": {}}, "from scratch")
    edition = Study(name="more", question="?", base=child, plan=plan, seeds=2).at()
    history = History.open(home, edition)
    runs = [run for arm in edition.arms() for run in arm.runs(2)]
    parents = [parent for run in runs for parent in run.needs()]
    rows = work_rows(history, {run.key: "missing" for run in [*runs, *parents]}, unproposed(history))
    assert [(row.name, row.missing) for row in rows] == [
        ("from scratch", 2),
        ("pretrained", 2),
        ("fourier on distance", 2),
    ]
    assert rows[-1].label == "p"


def test_the_time_between_runs_counts_as_it_was(home):
    """Runs begin 30 s before their first epoch, 5 s after the run before; a night between two of them is none of it.
    The last epoch has tests of 6 s; a longer run has them once, too, and not a sixth of them with each epoch."""
    values = {f"arm {number}": {"encoding.gamma": 1.0 + number} for number in range(6)}
    values["arm 5"]["optimizer.epochs"] = 12
    plan = Ablation(values, "arm 0")
    edition = Study(name="arms", question="?", base=BASE, plan=plan, seeds=1).at()
    hand, moment = ByHand(home.root, edition), 0.0
    with hand.journal:
        hand.journal.write(Counts(seeds=1))
        trials = [hand.plan("trial", number, values, name) for number, (name, values) in enumerate(plan.arms.items())]
    history = History.open(home, edition)
    for ended, (trial, night) in enumerate(zip(trials[:4], (0, 0, 8 * 3600, 0), strict=True)):
        assert (Forecast(history)(1).seconds is not None) == (ended > 1), "one run says little of the others"
        run = trial.run(0)
        known = {"run": run.key, "code": history.code(run)}
        begun = moment + 5 + night
        history.add(Started(**known, attempt=1, seed=0, label=trial.label, time=begun))
        for epoch in range(1, 7):
            moment = begun + 30 + epoch + 6 * (epoch == 6)
            seconds = {"time/epoch_s": 7.0 if epoch == 6 else 1.0}
            history.add(Measured(**known, epoch=epoch, values=seconds, time=moment))
        history.add(Ended(**known, outcome="completed", epoch=6, time=moment))
    short, long = 5 + 30 + 6 + 6, 5 + 30 + 12 + 6
    assert Forecast(history)(1) == Left(4, 6, pytest.approx(short + long))
    assert Forecast(history)(2) == Left(4, 6, pytest.approx(long))
    started = trials[4].run(0)
    known = {"run": started.key, "code": history.code(started)}
    history.add(Started(**known, attempt=1, seed=0, label=trials[4].label, time=moment + 5))
    assert Forecast(history)(1).seconds == pytest.approx(short + long - 5), "its place is taken"
    history.add(Measured(**known, epoch=1, values={"time/epoch_s": 1.0}, time=moment + 36))
    assert Forecast(history)(1).seconds == pytest.approx(short + long - 36), "its tests are still to come"
    for epoch, seconds in ((2, 2.0), (3, 60.0)):
        history.add(Measured(**known, epoch=epoch, values={"time/epoch_s": seconds}, time=moment + 98))
    usual = (4 * 1.0 + 2.0) / 5  # of five kinds of work; one slow epoch of 60 s is not usual
    assert Forecast(history)(1).seconds == pytest.approx(long + 12 * (usual - 1.0) + 3 * 2.0)


def test_plan_status_and_the_live_table_count_the_same_runs(home):
    """At each moment of a search that stops points early, and of an ablation with parents."""
    child = BASE.put({"init": {"kind": "from_trial", "values": {"data.task": "distance"}}})
    plan = Ablation({"from scratch": {"init.kind": "fresh"}, "pretrained": {}}, "from scratch")
    for edition in (Study(name="more", question="?", base=child, plan=plan, seeds=2).at(), search(trials=5)):
        for cut in (1, 4, 9, None):
            conduct(home, edition, cut=cut)
            history = History.open(home, edition)
            left, status = Forecast(history)(2), one_status(home, edition.id)
            work = estimate_work(history, Outcomes(home), Placement(max_concurrent=2))
            assert (status.done, status.asked) == (left.done, left.total), (edition.id, cut)
            assert work.done == left.done
            assert work.done + work.reused + work.to_train == left.total, (edition.id, cut)
        assert left.done == left.total
