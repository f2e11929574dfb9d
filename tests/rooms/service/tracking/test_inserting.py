"""Runs that are inserted into MLflow's database are those that MLflow's own calls write, line by line."""

from __future__ import annotations

import math
import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest
from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from service.storage.history import History
from service.storage.home import Home
from service.tracking.databases import insert_runs
from service.tracking.row_contents import Point
from service.tracking.rows import Row, rows
from service.tracking.shown import Shown
from service.tracking.store import look_up
from tests.rooms.service.tracking.facts import Facts, everything, search, show

TABLES = ("runs", "params", "tags", "metrics", "latest_metrics")


def all_points(row: Row) -> list[Point]:
    return [*row.points, *filter(None, [row.values])]


def drafted(row: Row, tags: dict[str, str], place) -> tuple[Shown, Row, list[Point]]:
    return Shown.draft(row, {name: value for name, value in tags.items() if value}, place), row, all_points(row)


def by_calls(client: MlflowClient, experiment: str, row: Row, tags: dict[str, str]) -> str:
    """Writes a row by MLflow's own calls; the id of its run."""
    id = client.create_run(experiment, round(row.begun * 1000), tags, row.name).info.run_id
    for point in all_points(row):
        metrics = [Metric(name, value, round(point.time * 1000), point.step) for name, value in point.values.items()]
        client.log_batch(id, metrics)
    client.log_batch(id, params=[Param(name, value) for name, value in row.params.items()])
    if row.status == "SCHEDULED":
        client.update_run(id, row.status)
    elif row.status != "RUNNING":
        client.set_terminated(id, row.status, round(row.last * 1000))
    return id


def lines(home: Home, id: str) -> dict[str, list[tuple]]:
    """A run's lines in each table, without its id."""
    with closing(sqlite3.connect(home.database)) as base:
        found = {}
        for table in TABLES:
            cursor = base.execute(f"SELECT * FROM {table} WHERE run_uuid = ?", (id,))
            names = [column[0] for column in cursor.description]
            some = [dict(zip(names, line, strict=True)) for line in cursor]
            plain = [sorted((name, str(value).replace(id, "ID")) for name, value in one.items()) for one in some]
            found[table] = sorted(map(tuple, plain))
    return found


def test_each_table_has_the_lines_of_mlflow_s_calls(home: Home, small: Facts) -> None:
    client = MlflowClient(home.tracking)
    place = client.get_experiment(client.create_experiment("lines", (home.artifacts / "x").as_uri()))
    history = History(small.edition, lambda recipe: small.code, small.facts)
    some = [*rows(history, "FINISHED")]
    odd = replace(some[-1].points[0], values={"a": math.nan, "b": math.inf, "c": -math.inf, "d": 3, "e": 0.1})
    some += [
        replace(some[-1], status="RUNNING", points=(odd,)),
        replace(some[-1], status="SCHEDULED", points=(), params={}),
    ]
    new = [drafted(row, row.tags | {"mlflow.user": "somebody"}, place) for row in some]
    insert_runs(client._tracking_client.store, place.experiment_id, new)
    for run, row, _ in new:
        tags = {name: value for name, value in run.tags.items() if name != "mlflow.runName"}
        called = by_calls(client, place.experiment_id, row, tags)
        assert lines(home, run.id) == lines(home, called), row.name
        assert client.get_run(run.id).data.tags == run.tags
        assert client.get_run(run.id).info.artifact_uri == run.files


def test_what_mlflow_refuses_is_refused_and_none_of_the_transaction_is_there(home: Home, small: Facts) -> None:
    client = MlflowClient(home.tracking)
    place = client.get_experiment(client.create_experiment("refused", (home.artifacts / "x").as_uri()))
    history = History(small.edition, lambda recipe: small.code, small.facts)
    good, bad = [*rows(history, "FINISHED")][:2]
    bad = replace(bad, params=bad.params | {"no such\nname": "1"})
    store = client._tracking_client.store
    with pytest.raises(MlflowException, match="Invalid value"):
        insert_runs(store, place.experiment_id, [drafted(row, row.tags, place) for row in (good, bad)])
    assert not client.search_runs([place.experiment_id])
    client.delete_experiment(place.experiment_id)
    with pytest.raises(MlflowException, match="must be in the 'active' state"):
        insert_runs(store, place.experiment_id, [drafted(good, good.tags, place)])


def test_a_trial_and_its_runs_are_one_transaction_and_nothing_is_sent_after_it(home: Home, monkeypatch) -> None:
    facts = Facts(search(seeds=3))
    trials = [facts.plan(number, encoding__gamma=0.5 + number) for number in range(2)]
    for trial in trials:
        for seed in range(3):
            facts.complete(trial, seed, 0.75)
    made = []
    inserted = insert_runs
    monkeypatch.setattr("service.tracking.store.insert_runs", lambda *some: made.append(0) or inserted(*some))
    show(home, facts)
    store = look_up(home, facts.edition)
    assert store is not None
    assert len(store.shown) == 1 + 2 + 6
    assert len(made) == 1
    before = everything(home)
    show(home, facts)
    assert everything(home) == before
