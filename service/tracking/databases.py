"""Reads and writes MLflow's database where it is a file: many runs in one transaction.

MLflow's own functions need eight transactions to write a run, and one to read a curve. A database is examined before
it is used, and the examination changes nothing in it.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import mlflow
from mlflow.entities import LifecycleStage, Metric, Param, RunTag, SourceType, ViewType
from mlflow.store.db.base_sql_model import Base
from mlflow.store.db.utils import _get_latest_schema_revision
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.utils.mlflow_tags import MLFLOW_USER
from mlflow.utils.validation import _validate_batch_log_data
from sqlalchemy import insert
from sqlalchemy.engine import make_url

from service.storage.home import without_secrets
from service.tracking.row_contents import Point
from service.tracking.rows import Row
from service.tracking.shown import Shown
from trainables.spec import LocusError

DAMAGE = re.compile(
    r"file is not a database|unsupported file format|database disk image is malformed|malformed database schema"
    r"|'utf-8' codec can't decode|Could not decode to UTF-8|no such (?:table|column): [\w.]+"
)
"""What a database says that no further try can mend."""
VERSIONS = re.compile(r"found version (\S+), but expected (\w+)")
"""What MLflow says of a database that another version of it wrote."""
AGAIN = "move it away, and run each of its studies again, which sends it anew"
SHORT_S = 5.0
"""How long a database that another process has locked is waited for."""


class MlflowError(LocusError):
    """An MLflow that cannot be used."""


def lasting(error: BaseException, uri: str) -> MlflowError | None:
    """Returns what is broken for good, and what to do; None for trouble that may pass."""
    if isinstance(error, MlflowError):
        return error
    if damage := DAMAGE.search(str(error)):
        return _damaged(uri, damage.group())
    if match := VERSIONS.search(str(error)):
        return _of_other_version(uri, *match.groups())
    return None


def in_a_sentence(error: Exception, uri: str) -> MlflowError:
    """Returns an error of MLflow or of its database as one sentence."""
    text = without_secrets(str(error).partition("\n")[0])[:200]
    return lasting(error, uri) or MlflowError(f"MLflow at {without_secrets(uri)} answers with an error ({text})")


def file_of(uri: str) -> Path | None:
    """Returns the file of an SQLite store; None for another kind of store."""
    if not uri.startswith("sqlite"):
        return None
    name = make_url(uri).database
    return Path(name) if name else None


def is_there(uri: str) -> bool:
    """Returns whether a store has tables: a reader makes none. Of a server nothing is known here."""
    path = file_of(uri)
    return path is None or (path.is_file() and path.stat().st_size > 0)


def check_file(uri: str) -> None:
    """Looks at the file of an SQLite store, if it is one that is there. Nothing is written.

    Cost: reads all of it, 0.1 s for 900 runs.
    Raises: MlflowError if it is damaged, lacks a table, or was written by another version of MLflow.
    """
    path = file_of(uri)
    if path is None or not is_there(uri):
        return
    needed = _schema()
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=SHORT_S)) as base:
            tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            rows = base.execute("SELECT version_num FROM alembic_version").fetchall() if tables else [(needed,)]
            damage = base.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if broken := lasting(error, uri):
            raise broken from None
        return  # it is locked, or a driver was killed while it wrote: MLflow can still use it
    version = rows[0][0] if rows else "none"
    if version != needed:
        raise _of_other_version(uri, version, needed)
    if tables and (missing := sorted(Base.metadata.tables.keys() - tables)):
        raise _damaged(uri, f"it lacks the table {missing[0]}")
    if damage != "ok":
        raise _damaged(uri, damage.splitlines()[-1])


@cache
def _schema() -> str:
    """Returns the schema of this MLflow. It is asked once: each time, MLflow reads all files of its migrations."""
    return str(_get_latest_schema_revision())


def _damaged(uri: str, why: str) -> MlflowError:
    return MlflowError(f"MLflow's database {without_secrets(uri)} cannot be read ({why}): {AGAIN}")


def _of_other_version(uri: str, schema: str, needed: str) -> MlflowError:
    return MlflowError(
        f"MLflow's database {without_secrets(uri)} must have the schema {needed} of MLflow {mlflow.__version__}, got "
        f"{schema}: use the MLflow that wrote it, or bring an older one up to date with `mlflow db upgrade`, or {AGAIN}"
    )


def insert_runs(store: SqlAlchemyStore, place: str, new: Iterable[tuple[Shown, Row, Sequence[Point]]]) -> None:
    """Writes rows that MLflow does not have as its own calls would, in one transaction.

    `place`: the experiment's id; `new`: what MLflow will have of each row, the row, and its points.
    Raises: MlflowException if MLflow's calls would refuse one, or the database cannot be written.
    """
    lines: dict[type, list[dict[str, Any]]] = {}
    for run, row, points in new:
        for table, some in _lines(store, run, row, points).items():
            lines.setdefault(table, []).extend(some)
    with store.ManagedSessionMaker(read_only=False) as session:
        store._check_experiment_is_active(store._get_experiment(session, place, ViewType.ALL))
        for table, some in lines.items():
            if some:
                session.execute(insert(table), some)


def _lines(store: SqlAlchemyStore, run: Shown, row: Row, points: Sequence[Point]) -> dict[type, list[dict[str, Any]]]:
    """Returns the lines of a run in each of MLflow's tables."""
    measured, params, tags = _validate_batch_log_data(
        [Metric(k, v, round(p.time * 1000), p.step) for p in points for k, v in p.values.items()],
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
        "end_time": None if row.status in ("RUNNING", "SCHEDULED") else round(row.last * 1000),
        "source_version": "",
        "lifecycle_stage": LifecycleStage.ACTIVE,
        "artifact_uri": run.files,
        "experiment_id": int(run.experiment),
    }
    metrics = [_metric(store, run.id, metric) for metric in measured]
    latest = {metric["key"]: metric for metric in metrics}  # the points lie in the order of their steps
    return {
        SqlRun: [itself],
        SqlParam: [{"run_uuid": run.id, "key": param.key, "value": param.value} for param in params],
        SqlTag: [{"run_uuid": run.id, "key": tag.key, "value": tag.value} for tag in tags],
        SqlMetric: metrics,
        SqlLatestMetric: [*latest.values()],
    }


def _metric(store: SqlAlchemyStore, id: str, metric: Metric) -> dict[str, Any]:
    is_nan, value = store.sanitize_metric_value(metric.value)
    known = {"run_uuid": id, "key": metric.key, "timestamp": metric.timestamp, "step": metric.step}
    return known | {"value": value, "is_nan": is_nan}
