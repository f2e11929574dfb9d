"""A byte of MLflow's database changes: `verify` and the next run end with an answer or a sentence, never wrong."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

import service
from service.storage.home import Home
from service.storage.journal import read_on
from service.tracking import sync
from service.tracking.store import look_up
from service.tracking.sync import MlflowSync, check
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import conduct
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import LocusError

NOT_COMPARED = {"mlflow.note.content", "locus.headline", "locus.claims", "mlflow.parentRunId"}


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


def agrees(home: Home) -> bool:
    """Whether `verify` finds nothing wrong and nothing behind."""
    try:
        return all(one.ok and "behind" not in one.detail for one in service.verify(arms().id, home=str(home.root)))
    except LocusError:
        return False


def numbers(home: Home) -> dict:
    """All that MLflow shows of the study, without descriptions and ids."""
    store = look_up(home, arms())
    assert store is not None
    found = {}
    for place, run in store.shown.items():
        curves = {name: str(store.client.get_metric_history(run.id, name)) for name in run.latest}
        tags = {name: value for name, value in run.tags.items() if name not in NOT_COMPARED}
        found[place] = run.status, run.params, tags, run.latest, curves if place[0] != "study" else {}
    return found


def changed_one_by_one(home: Home, whole: Path, count: int, monkeypatch) -> int:
    """How many changes the next run refuses: the first byte, without which it is no database, and some by chance."""
    codes, chance = CodeDigests(), random.Random(count)
    conduct(home, arms())
    assert run_again(home, codes) is None
    shutil.copy(home.database, whole)
    sound, content = numbers(home), whole.read_bytes()
    assert agrees(home)
    monkeypatch.setattr(sync, "SOON_S", sync.AGAIN_S)
    refused = 0
    for number in range(count):
        at = chance.randrange(len(content)) if number else 0
        changed = bytearray(content)
        changed[at] ^= 1 << chance.randrange(8)
        for engine in SqlAlchemyStore._engine_map.values():  # they know the file as it was
            engine.dispose()
        home.database.write_bytes(changed)
        assert not agrees(home) or numbers(home) == sound, (number, at)
        said = run_again(home, codes)
        assert said is None or "move it away, and run each of its studies again" in said, (number, at)
        refused += said is not None
        assert said is not None or (agrees(home) and numbers(home) == sound), (number, at)
    return refused


def test_some_bytes(home: Home, tmp_path_factory, monkeypatch) -> None:
    assert changed_one_by_one(home, tmp_path_factory.mktemp("whole") / "mlflow.db", 6, monkeypatch) >= 1


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_hundred_bytes(home: Home, tmp_path_factory, monkeypatch) -> None:
    assert 1 < changed_one_by_one(home, tmp_path_factory.mktemp("whole") / "mlflow.db", 200, monkeypatch) < 200
