"""Training time in MLflow: what an answer costs, apart from when it was scheduled; and what two rows cost to say."""

from __future__ import annotations

import sys

from mlflow.tracking import MlflowClient

from service.analysis.best import find_best
from service.storage.facts import StoppedAt
from service.storage.history import History
from service.tracking.rows import run_row, trial_content, trial_row
from tests.rooms.service.tracking.facts import Facts, points, runs, search, show

MOST_CALLS, MOST_FILES = 150, 6
"""The most calls of Python functions, and files that they lie in, for the two rows that an epoch changes."""


def test_runs_and_trials_have_the_time_that_training_took(home) -> None:
    facts = Facts(search(), epoch_s=8.0)
    trial = facts.plan(0, encoding__gamma=2.5)
    facts.complete(trial, 0, 0.75)
    for _ in range(1000):
        next(facts.clock)  # the second seed waits for a worker
    facts.epoch_s = 4.0
    facts.complete(trial, 1, 0.875)
    run = facts.start(facts.plan(1, encoding__gamma=31.0), 0)
    facts.measure(run, 0.5)
    facts.add(StoppedAt(**run, epoch=1, cutoff=0.625))
    show(home, facts)
    shown = runs(home)
    assert points(home, shown["#00 seed 0"], "time/train_s") == [(1, 8.0), (2, 16.0), (3, 24.0)]
    assert points(home, shown["#00 seed 1"], "time/train_s") == [(1, 4.0), (2, 8.0), (3, 12.0)]
    assert points(home, shown["#00 gamma=2.5"], "time/train_s") == [(2, 36.0)]
    assert shown["#01 gamma=31"].data.metrics["time/train_s"] == 4.0
    note = MlflowClient(home.tracking).get_run(shown["reach@base"].info.run_id).data.tags["mlflow.note.content"]
    assert "| #00 gamma=2.5 | point | 0.8125 ± 0.0884 (n 2) |  | 36 s | best |" in note


def test_the_two_rows_of_an_epoch_say_again_only_what_is_new() -> None:
    facts = Facts(search(), epoch_s=8.0)
    facts.complete(facts.plan(0, encoding__gamma=2.5), 0, 0.75)
    facts.measure(facts.start(facts.plan(1, encoding__gamma=3.0), 0), 0.5, 0.625)
    history = History(facts.edition, lambda recipe: facts.code, facts.facts)
    content, best = trial_content(facts.edition, history.trials[-1]), find_best(history)
    run, calls = history.runs(content.trial)[0], []

    def rows():
        return trial_row(history, content, best), run_row(history, content, run)

    first = rows()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_filename) if event == "call" else None)
    again = trial_row(history, content, best), run_row(history, content, run)
    sys.setprofile(None)
    files = {file for file in calls if file != "<string>"}  # what dataclasses generate lies in none
    print(f"{len(calls)} calls in {len(files)} files")
    assert first == again == rows()
    assert 50 < len(calls) <= MOST_CALLS
    assert len(files) <= MOST_FILES
