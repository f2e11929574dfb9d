"""Training time in MLflow: what an answer costs, apart from when it was scheduled."""

from __future__ import annotations

import sys

import pytest
from mlflow.tracking import MlflowClient

from service.analysis.best import find_best
from service.storage.facts import Counts, StoppedAt
from service.storage.history import History
from service.tracking.row_contents import TrialWords
from service.tracking.rows import run_row, trial_row
from tests.rooms.service.tracking.facts import Facts, points, runs, search, show


@pytest.fixture
def timed() -> Facts:
    """A point of two seeds with epochs of 8 s and of 4 s, and one that was stopped."""
    facts = Facts(search(), epoch_s=8.0)
    facts.add(Counts(seeds=2, trials=4))
    trial = facts.plan(0, encoding__gamma=2.5)
    facts.complete(trial, 0, 0.75)
    for _ in range(1000):
        next(facts.clock)  # the second seed waits for a worker
    facts.epoch_s = 4.0
    facts.complete(trial, 1, 0.875)
    known = facts.start(facts.plan(1, encoding__gamma=31.0), 0)
    facts.measure(known, 0.5)
    facts.add(StoppedAt(**known, epoch=1, cutoff=0.625))
    return facts


def test_runs_and_trials_have_the_time_that_training_took(home, timed):
    show(home, timed)
    shown = runs(home)
    assert points(home, shown["#00 seed 0"], "time/train_s") == [(1, 8.0), (2, 16.0), (3, 24.0)]
    assert points(home, shown["#00 seed 1"], "time/train_s") == [(1, 4.0), (2, 8.0), (3, 12.0)]
    assert points(home, shown["#00 gamma=2.5"], "time/train_s") == [(2, 36.0)]
    assert shown["#01 gamma=31"].data.metrics["time/train_s"] == 4.0
    note = MlflowClient(home.tracking).get_run(shown["reach@base"].info.run_id).data.tags["mlflow.note.content"]
    assert "| #00 gamma=2.5 | point | 0.8125 ± 0.0884 (n 2) |  | 36 s | best |" in note


def test_means_have_six_digits(home):
    facts = Facts(search(seeds=3))
    trial = facts.plan(0, encoding__gamma=2.5)
    for seed, final in enumerate((0.97, 0.98, 0.98)):
        facts.complete(trial, seed, final)
    show(home, facts)
    found = runs(home)["#00 gamma=2.5"]
    assert found.data.metrics["val/accuracy_mean"] == 0.976667
    assert found.data.metrics["val/accuracy_std"] == 0.0057735
    assert found.data.tags["locus.score"] == "0.9767 ± 0.0058 (n 3)"


def test_the_two_rows_of_an_epoch_say_again_only_what_is_new(timed):
    known = timed.start(timed.plan(2, encoding__gamma=3.0), 0)
    timed.measure(known, 0.5, 0.625)
    history = History(timed.edition, lambda recipe: timed.code, timed.facts)
    words, calls = TrialWords(timed.edition, history.trials[-1]), []
    best, runs = find_best(history), history.runs(words.trial)

    def made():
        return [trial_row(history, words, best), run_row(history, words, runs[0])]

    first = made()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_filename) if event == "call" else None)
    try:
        again = made()
    finally:
        sys.setprofile(None)
    assert first == again == made()
    assert 100 < len(calls) < 300
