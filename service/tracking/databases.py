"""Checks whether MLflow's database can be used, and says in a sentence if not. The check changes nothing in it."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from functools import cache
from pathlib import Path
from urllib.parse import quote

import mlflow
from mlflow.store.db.base_sql_model import Base
from mlflow.store.db.utils import _get_latest_schema_revision
from sqlalchemy.engine import make_url

from service.storage.home import without_secrets
from trainables.spec import LocusError

DAMAGE = re.compile(
    r"file is not a database|unsupported file format|database disk image is malformed|malformed database schema"
    r"|'utf-8' codec can't decode|Could not decode to UTF-8|no such (?:table|column): [\w.]+"
)
"""The texts of a database's errors after which no further try helps."""
VERSIONS = re.compile(r"found version (\S+), but expected (\w+)")
"""The text of MLflow's error for a database that another version of MLflow wrote."""
AGAIN = "move it away, and run each of its studies again, which sends it anew"

latest_schema = cache(_get_latest_schema_revision)
"""Returns the id of this MLflow's schema. The id is cached, as MLflow reads all files of its migrations for it."""


class MlflowError(LocusError):
    """The error for an MLflow that cannot be used."""


def lasting(error: BaseException, uri: str) -> MlflowError | None:
    """Returns an error that says what is broken for good, and what to do; None for an error that may pass."""
    if isinstance(error, MlflowError):
        return error
    if damage := DAMAGE.search(str(error)):
        return _damaged(uri, damage.group())
    if match := VERSIONS.search(str(error)):
        return _of_other_version(uri, *match.groups())
    return None


def in_a_sentence(error: Exception, uri: str) -> MlflowError:
    """Returns an error that says in one sentence what MLflow or its database answered."""
    text = without_secrets(str(error).partition("\n")[0])[:200]
    return lasting(error, uri) or MlflowError(f"MLflow at {without_secrets(uri)} answers with an error ({text})")


def file_of(uri: str) -> Path | None:
    """Returns the path of the file of an SQLite store; None for another kind of store."""
    name = make_url(uri).database if uri.startswith("sqlite") else None
    return Path(name) if name else None


def is_there(uri: str) -> bool:
    """Returns whether the file of an SQLite store exists and is not empty; True for another kind of store."""
    path = file_of(uri)
    return path is None or (path.is_file() and path.stat().st_size > 0)


def check_file(uri: str) -> None:
    """Checks the file of an SQLite store, if it exists. Nothing is written.

    Cost: reads all of it, 0.1 s for 900 runs.
    Raises: MlflowError if it is damaged, lacks a table, or was written by another version of MLflow.
    """
    path = file_of(uri)
    if path is None or not is_there(uri):
        return
    needed = str(latest_schema())
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, timeout=5.0)) as base:
            tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            versions = base.execute("SELECT version_num FROM alembic_version").fetchall() if tables else [(needed,)]
            damage = base.execute("PRAGMA integrity_check(1)").fetchone()[0]
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if broken := lasting(error, uri):
            raise broken from None
        return  # it is locked, or a driver was killed while it wrote: MLflow can still use it
    version = versions[0][0] if versions else "none"
    if version != needed:
        raise _of_other_version(uri, version, needed)
    if tables and (missing := sorted(Base.metadata.tables.keys() - tables)):
        raise _damaged(uri, f"it lacks the table {missing[0]}")
    if damage != "ok":
        raise _damaged(uri, damage.splitlines()[-1])


def _damaged(uri: str, why: str) -> MlflowError:
    return MlflowError(f"MLflow's database {without_secrets(uri)} cannot be read ({why}): {AGAIN}")


def _of_other_version(uri: str, schema: str, needed: str) -> MlflowError:
    return MlflowError(
        f"MLflow's database {without_secrets(uri)} must have the schema {needed} of MLflow {mlflow.__version__}, got "
        f"{schema}: use the MLflow that wrote it, or bring an older one up to date with `mlflow db upgrade`, or {AGAIN}"
    )
