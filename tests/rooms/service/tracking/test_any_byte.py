"""A byte of MLflow's database changes: the next run is shown there, or ends with a sentence."""

from __future__ import annotations

import random

import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from service.storage.home import Home
from service.storage.journal import read_on
from service.tracking import sync
from service.tracking.sync import MlflowSync, check
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import LocusError


def run_again(home: Home, codes: CodeDigests) -> str | None:
    """Shows the study of a home; what is said where MLflow lacks a part, or is refused. No second try may be needed."""
    shown = MlflowSync(arms(), home, lambda recipe: codes(recipe).digest)
    waits: list[str] = []
    try:
        check(home, None)
        shown.open()
        for fact in read_on(home.study(arms().id).journal)[0]:
            shown.add(fact)
        return shown.close("FINISHED", note=waits.append)
    except LocusError as error:
        return str(error)
    finally:
        assert [one for one in waits if one.startswith("waiting for MLflow (")] == []  # with the reason of a failed try


def changed_one_by_one(home: Home, count: int, monkeypatch) -> int:
    """How many changes the next run refuses: the first byte, without which it is no database, and some by chance."""
    codes, chance = CodeDigests(), random.Random(count)
    conduct(home, arms())
    assert run_again(home, codes) is None
    content = home.database.read_bytes()
    monkeypatch.setattr(sync, "SOON_S", sync.AGAIN_S)
    refused = 0
    for number in range(count):
        at = chance.randrange(len(content)) if number else 0
        changed = bytearray(content)
        changed[at] ^= 1 << chance.randrange(8)
        for engine in SqlAlchemyStore._engine_map.values():  # they know the file as it was
            engine.dispose()
        home.database.write_bytes(changed)
        said = run_again(home, codes)
        assert said is None or "move it away, and run each of its studies again" in said, (number, at)
        refused += said is not None
    return refused


def test_some_bytes(home: Home, monkeypatch) -> None:
    assert changed_one_by_one(home, 6, monkeypatch) >= 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_bytes(home: Home, monkeypatch) -> None:
    assert 1 < changed_one_by_one(home, 200, monkeypatch) < 200
