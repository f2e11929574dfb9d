"""A store that is broken for good, or is no MLflow: it is said at once, in a sentence, with what to do.

If a byte of the database changes, the next run is shown there, or ends with a sentence.
"""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from service import api
from service.storage import editions
from service.storage.home import Home
from service.storage.journal import Journal, read_on
from service.tracking import sync
from service.tracking.databases import MlflowError
from service.tracking.server import reachable_links, serve
from service.tracking.store import look_up
from service.tracking.sync import MlflowSync, check
from service.tracking.views import leave
from tests.rooms.service.execution.studies import arms
from tests.rooms.service.tracking.facts import Facts, answering, show, told
from tests.rooms.toy import conduct
from trainables.spec import LocusError


def statement(text: str):
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as base, base:
            base.execute(text)

    return change


def replacing(old: bytes, new: bytes):
    """Changes the first place in the file that has some bytes."""
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new, 1))


LETTERS = "letters that are none"
BROKEN = {
    "garbage": (lambda path: path.write_bytes(b"garbage" * 1000), r"cannot be read \(file is not a database\): move"),
    "another version": (statement("UPDATE alembic_version SET version_num = 'f00d'"),
        r"must have the schema \w+ of MLflow [\d.]+, got f00d: use the MLflow that wrote it, or .*, or move it away"),
    "no version": (statement("DELETE FROM alembic_version"), "must have the schema .* got none: use the MLflow"),
    "no version's table": (statement("DROP TABLE alembic_version"),
        r"cannot be read \(no such table: alembic_version\)"),
    "a table is missing": (statement("DROP TABLE tags"), r"cannot be read \(it lacks the table tags\): move it away"),
    "a schema that cannot be read": (replacing(b"CREATE INDEX index_tags", b"CREATE INDEX (ndex_tags"),
        r"cannot be read \(malformed database schema\): move it away"),
    "a name that is no text": (replacing(b"indexindex_tags_run_uuid", b"index\xffndex_tags_run_uuid"),
        r"cannot be read \('utf-8' codec can't decode\): move it away"),
    "an index of other lines": (replacing(b"optimizer.batch_size", b"optimizer.batch_sizf"),
        r"cannot be read \(row \d+ missing from index \w+\): move it away"),
    LETTERS: (statement("UPDATE tags SET value = CAST(x'c328' AS TEXT) WHERE key = 'locus.rank'"),
        r"cannot be read \(Could not decode to UTF-8\): move it away"),
}  # fmt: skip
"""What spoils a database, and what is said then. Letters are found where they are read, not before."""


@pytest.mark.parametrize("how", BROKEN)
def test_a_store_that_is_broken_for_good_is_said_before_and_after_training(home: Home, small: Facts, how: str) -> None:
    spoil, words = BROKEN[how]
    show(home, small)
    spoil(home.database)
    spoilt = home.database.read_bytes()
    looks = [lambda: look_up(home, small.edition)] + [lambda: check(home, None)] * (how != LETTERS)
    for look in looks:
        with pytest.raises(MlflowError, match=rf"^MLflow's database sqlite:///\S+mlflow.db {words}"):
            look()
    notes: list[str] = []
    assert "MLflow lacks a part: MLflow's database" in told(home, small, first=2).close("FINISHED", note=notes.append)
    assert notes == [], "nothing waits"
    assert home.database.read_bytes() == spoilt, "what is there is left as it is"


def test_a_store_that_breaks_while_a_study_runs_ends_the_wait(home: Home, small: Facts) -> None:
    shown = told(home, small, first=2)
    assert shown._made.wait(60)
    statement("DROP TABLE tags")(home.database)
    for fact in small.facts[2:]:
        shown.add(fact)
    notes: list[str] = []
    assert "cannot be read (no such table: tags): move it" in shown.close("FINISHED", note=notes.append)
    assert notes == []


def test_a_run_with_tags_that_are_none_can_be_looked_at_and_forgotten(home: Home, small: Facts) -> None:
    show(home, small)
    statement("UPDATE tags SET value = 'one' WHERE key = 'locus.seed'")(home.database)
    statement("DELETE FROM tags WHERE key = 'locus.level' AND value = 'study'")(home.database)
    found = look_up(home, small.edition)
    assert (len(found.shown), len(found.others)) == (3, 6)
    found.delete(home.artifacts)
    leave(found)
    assert look_up(home, small.edition) is None


PAGE = b"<html><title>Sign in</title></html>"
ANSWERS = {
    "a login page": (200, PAGE, "text/html", "answers with a page, which is no MLflow (a login?); correct its address"),
    "a list": (200, b"[]", "application/json", "answers with a page, which is no MLflow (a login?)"),
    "an error": (500, PAGE, "text/html", "answers with the error 500; correct its address"),
    "words": (403, b"Invalid Host header", "text/plain", "answers with the error 403 (Invalid Host header)"),
    "a password": (401, b"", "text/plain", "asks who you are (error 401); set MLFLOW_TRACKING_USERNAME"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_what_is_no_mlflow_is_named_before_training_though_it_says_that_it_is_healthy(what, home, small) -> None:
    *answer, words = ANSWERS[what]
    code, body, kind = answer
    with answering(lambda request: (200 if request.path == "/health" else code, body, kind)) as address:
        with pytest.raises(MlflowError) as refused:
            check(home, address)
        assert str(refused.value).startswith(f"MLflow at {address} {words}")
        home.named()
        assert reachable_links(home, small.edition, address) is None


def test_who_only_looks_makes_nothing(tmp_path: Path, small: Facts, monkeypatch) -> None:
    home, here = Home(tmp_path / "home"), tmp_path / "here"
    folder = home.study(small.edition.id)
    here.mkdir()
    editions.save_edition(small.edition, home)
    with Journal(folder.journal, folder.lock) as journal:
        for fact in small.facts:
            journal.write(fact)
    monkeypatch.chdir(here)
    before, id, at = sorted(tmp_path.rglob("*")), small.edition.id, str(home.root)
    for tracking in (None, f"sqlite:///{tmp_path}/other/mlflow.db", "sqlite:///mlflow.db"):
        check(home, tracking)
        api.verify(id, home=at)
        api.forgettable(id, home=at, tracking=tracking)
        api.result(id, home=at, tracking=tracking)
        with pytest.raises(LocusError, match="has no MLflow runs yet"):
            serve(home, None, 1, tracking)
    api.status(home=at)
    assert sorted(tmp_path.rglob("*")) == before


def run_again(home: Home) -> str | None:
    """Shows the study of a home; what is said where MLflow lacks a part, or is refused. No second try may be needed."""
    shown = MlflowSync(arms(), home)
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
        assert [line for line in waits if line.startswith("waiting for MLflow (")] == []  # why a try failed


@pytest.mark.parametrize("count", [6, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(600)])])
def test_a_byte_that_changed_is_shown_or_refused(home: Home, monkeypatch, count: int) -> None:
    """Of the first byte, without which it is no database, and of some by chance."""
    chance, refused = random.Random(count), 0
    conduct(home, arms())
    assert run_again(home) is None
    content = home.database.read_bytes()
    monkeypatch.setattr(sync, "SOON_S", sync.AGAIN_S)
    for number in range(count):
        position = chance.randrange(len(content)) if number else 0
        changed = bytearray(content)
        changed[position] ^= 1 << chance.randrange(8)
        for engine in SqlAlchemyStore._engine_map.values():  # they know the file as it was
            engine.dispose()
        home.database.write_bytes(changed)
        warning = run_again(home)
        assert warning is None or "move it away, and run each of its studies again" in warning, (number, position)
        refused += warning is not None
    assert 1 <= refused < max(count, 7)
