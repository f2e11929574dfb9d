"""A home with an empty MLflow database, and a small study's journal."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from service.storage.facts import Counts, Ended, StoppedAt
from service.storage.home import Home
from tests.rooms.service.tracking.facts import Facts, search


@pytest.fixture(scope="session")
def database(tmp_path_factory) -> Path:
    """An empty MLflow database: its migrations take seconds, a copy none."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def home(tmp_path, database) -> Home:
    shutil.copy(database, tmp_path / "mlflow.db")
    return Home(tmp_path)


@pytest.fixture
def small() -> Facts:
    """Three trials: one completed with two seeds, one stopped, one diverged in its second seed."""
    facts = Facts(search())
    facts.add(Counts(seeds=2, trials=4))
    good, stopped, uneven = (facts.plan(number, encoding__gamma=gamma) for number, gamma in enumerate((2.5, 31.0, 1.5)))
    facts.complete(good, 0, 0.75)
    known = facts.start(stopped, 0)
    facts.measure(known, 0.5)
    facts.add(StoppedAt(**known, epoch=1, cutoff=0.625))
    facts.complete(uneven, 0, 1.0)
    known = facts.start(uneven, 1)
    facts.measure(known, 0.5)
    facts.add(Ended(**known, outcome="diverged", epoch=2))
    facts.complete(good, 1, 0.875)
    return facts
