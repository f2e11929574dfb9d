"""Runs that are inserted into MLflow's database are those that MLflow's own calls write, line by line."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from contextlib import closing
from dataclasses import replace

import pytest
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from service.storage.history import History
from service.storage.home import Home
from service.tracking import store as tracking_store
from service.tracking.rows import Row, rows
from service.tracking.store import Store, look_up
from tests.rooms.service.tracking.facts import Facts, everything, search, show


def made(home: Home) -> Store:
    store = Store(home.tracking, "h0me", "reach@base", "lines")
    store.make(home.artifacts, is_own=False)
    return store


def lines(home: Home, some_rows: list[Row]) -> list[tuple[str, str]]:
    """The lines that rows are in each table of MLflow, with each run's row in the place of its id."""
    store, found = made(home), []
    store.put(some_rows)
    ids = {shown.id: f"the run of {row}" for row, shown in store.shown.items()}
    with closing(sqlite3.connect(home.database)) as base:
        for table in ("runs", "params", "tags", "metrics", "latest_metrics"):
            for line in map(str, base.execute(f"SELECT * FROM {table} WHERE run_uuid IN {tuple(ids)}")):
                for id, row in ids.items():
                    line = line.replace(id, row)
                found.append((table, line))
    store.delete(None)
    return sorted(found)


def test_each_table_has_the_lines_of_mlflow_s_calls(home: Home, small: Facts, monkeypatch) -> None:
    history = History(small.edition, small.facts)
    some_rows = [*rows(history, "FINISHED")]
    odd = replace(some_rows[-1].points[0], values={"a": math.nan, "b": math.inf, "c": -math.inf, "d": 3, "e": 0.1})
    for seed, status in enumerate(("RUNNING", "SCHEDULED")):
        some_rows.append(replace(some_rows[-1], id=("run", "9", seed), status=status, points=(odd,)))
    inserted, calls = lines(home, some_rows), Counter[str]()
    assert len(inserted) > 300

    def counted(name: str):
        real = getattr(MlflowClient, name)
        return lambda *given, **more: calls.update([name]) or real(*given, **more)

    for name in ("create_run", "log_batch", "update_run", "set_terminated", "set_tag", "get_run"):
        monkeypatch.setattr(MlflowClient, name, counted(name))
    monkeypatch.setattr(Store, "database", None)  # as at a server, where a call is a request
    assert lines(home, some_rows) == inserted
    assert calls["create_run"] == calls["log_batch"] == len(some_rows)
    assert calls.total() <= 3 * len(some_rows)


def test_what_mlflow_refuses_is_refused_and_none_of_the_transaction_is_there(home: Home, small: Facts) -> None:
    good, bad = [*rows(History(small.edition, small.facts), "FINISHED")][:2]
    store = made(home)
    with pytest.raises(MlflowException, match="Invalid value"):
        store.put([good, replace(bad, params=bad.params | {"no such\nname": "1"})])
    assert not made(home).shown
    store.client.delete_experiment(store.experiment)
    store.shown = {}
    with pytest.raises(MlflowException, match="must be in the 'active' state"):
        store.put([good])


def test_a_trial_and_its_runs_are_one_transaction_and_nothing_is_sent_after_it(home: Home, monkeypatch) -> None:
    facts = Facts(search(seeds=3))
    for number in range(2):
        trial = facts.plan(number, encoding__gamma=0.5 + number)
        for seed in range(3):
            facts.complete(trial, seed, 0.75)
    transactions, insert_runs = [], tracking_store.insert_runs
    monkeypatch.setattr(tracking_store, "insert_runs", lambda *given: transactions.append(0) or insert_runs(*given))
    show(home, facts)
    assert len(look_up(home, facts.edition).shown) == 1 + 2 + 6
    assert len(transactions) == 1
    before = everything(home)
    show(home, facts)
    assert everything(home) == before
