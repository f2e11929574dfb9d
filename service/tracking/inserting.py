"""Writes many new runs into MLflow's database in one transaction, and reads the points of many runs in one query.

MLflow's own functions need eight transactions to write a run, and one to read a curve.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any
from uuid import uuid4

from mlflow.entities import Experiment, LifecycleStage, Metric, Param, RunTag, SourceType, ViewType
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_USER
from mlflow.utils.uri import append_to_uri_path
from mlflow.utils.validation import _validate_batch_log_data
from sqlalchemy import insert, select

from service.tracking.rows import Row
from service.tracking.tracked_run import TrackedRun

RUNS = 1000
"""How many runs one query names. Databases limit the values in a query; SQL Server allows 2,100."""


def drafted(row: Row, tags: dict[str, str], place: Experiment) -> TrackedRun:
    """What MLflow will have of a row once it is inserted. `tags`: all that the run gets, those of the row included."""
    id, tags = uuid4().hex, tags | {MLFLOW_RUN_NAME: row.name}
    files = append_to_uri_path(place.artifact_location, id, SqlAlchemyStore.ARTIFACTS_FOLDER_NAME)
    latest = {name: value for point in row.points for name, value in point.values.items()}
    step = max((point.step for point in row.points), default=-1)
    return TrackedRun(id, row.status, {**row.params}, tags, latest, step, str(place.experiment_id), files)


def insert_runs(store: SqlAlchemyStore, place: str, new: Iterable[tuple[Row, TrackedRun]]) -> None:
    """Writes rows that MLflow does not have as its own calls would, in one transaction. `place`: the experiment's id.

    Raises: MlflowException if MLflow's calls would refuse one, or the database cannot be written.
    """
    lines: dict[type, list[dict[str, Any]]] = {}
    for row, run in new:
        for table, some in _lines(store, row, run).items():
            lines.setdefault(table, []).extend(some)
    with store.ManagedSessionMaker(read_only=False) as session:
        store._check_experiment_is_active(store._get_experiment(session, place, ViewType.ALL))
        for table, some in lines.items():
            if some:
                session.execute(insert(table), some)


def read_points(store: SqlAlchemyStore, runs: Sequence[str]) -> Iterator[tuple[str, str, int, float]]:
    """Every point of some runs, by step: the run, the metric, the step and the value.

    Raises: MlflowException if the database cannot be read.
    """
    columns = select(SqlMetric.run_uuid, SqlMetric.key, SqlMetric.step, SqlMetric.value, SqlMetric.is_nan)
    with store.ManagedSessionMaker() as session:
        for first in range(0, len(runs), RUNS):
            some = columns.where(SqlMetric.run_uuid.in_(runs[first : first + RUNS]))
            for run, key, step, value, is_nan in session.execute(some.order_by(SqlMetric.step, SqlMetric.value)):
                yield run, key, step, math.nan if is_nan else value


def _lines(store: SqlAlchemyStore, row: Row, run: TrackedRun) -> dict[type, list[dict[str, Any]]]:
    """The lines of a run in each of MLflow's tables."""
    points, params, tags = _validate_batch_log_data(
        [Metric(k, v, round(p.time * 1000), p.step) for p in row.points for k, v in p.values.items()],
        [Param(name, value) for name, value in run.params.items()],
        [RunTag(name, value) for name, value in run.tags.items()],
    )
    itself = {
        "run_uuid": run.id,
        "name": row.name,
        "source_type": SourceType.to_string(SourceType.UNKNOWN),
        "source_name": "",
        "entry_point_name": "",
        "user_id": run.tags.get(MLFLOW_USER, "unknown"),
        "status": row.status,
        "start_time": round(row.begun * 1000),
        "end_time": None if row.status == "RUNNING" else round(row.last * 1000),
        "source_version": "",
        "lifecycle_stage": LifecycleStage.ACTIVE,
        "artifact_uri": run.files,
        "experiment_id": int(run.experiment),
    }
    metrics = [_metric(store, run.id, one) for one in points]
    latest = {one["key"]: one for one in metrics}  # the points lie in the order of their steps
    return {
        SqlRun: [itself],
        SqlParam: [{"run_uuid": run.id, "key": one.key, "value": one.value} for one in params],
        SqlTag: [{"run_uuid": run.id, "key": one.key, "value": one.value} for one in tags],
        SqlMetric: metrics,
        SqlLatestMetric: [*latest.values()],
    }


def _metric(store: SqlAlchemyStore, id: str, metric: Metric) -> dict[str, Any]:
    is_nan, value = store.sanitize_metric_value(metric.value)
    known = {"run_uuid": id, "key": metric.key, "timestamp": metric.timestamp, "step": metric.step}
    return known | {"value": value, "is_nan": is_nan}
