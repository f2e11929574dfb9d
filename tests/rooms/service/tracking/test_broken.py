"""A store that is broken for good, or is no MLflow: it is said at once, in a sentence, with what to do."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from service import api
from service.storage import editions
from service.storage.home import Home
from service.storage.journal import Journal
from service.tracking.databases import MlflowError
from service.tracking.server import reachable_links, serve
from service.tracking.store import look_up
from service.tracking.sync import MlflowSync, check
from service.tracking.views import leave
from tests.rooms.service.tracking.facts import Facts, show
from trainables.spec import LocusError


def statement(text: str):
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path)) as base, base:
            base.execute(text)

    return change


def replacing(old: bytes, new: bytes):
    """Changes the first place in the file that has some bytes."""
    return lambda path: path.write_bytes(path.read_bytes().replace(old, new, 1))


BROKEN = {
    "garbage": (
        lambda path: path.write_bytes(b"garbage" * 1000),
        r"cannot be read \(file is not a database\): move it",
    ),
    "another version": (
        statement("UPDATE alembic_version SET version_num = 'f00d'"),
        r"must have the schema \w+ of MLflow [\d.]+, got f00d: use the MLflow that wrote it, or .*, or move it away",
    ),
    "no version": (statement("DELETE FROM alembic_version"), "must have the schema .* got none: use the MLflow"),
    "a table is missing": (statement("DROP TABLE tags"), r"cannot be read \(it lacks the table tags\): move it away"),
    "a schema that cannot be read": (
        replacing(b"CREATE INDEX index_tags", b"CREATE INDEX (ndex_tags"),
        r"cannot be read \(malformed database schema\): move it away",
    ),
    "a name that is no text": (
        replacing(b"indexindex_tags_run_uuid", b"index\xffndex_tags_run_uuid"),
        r"cannot be read \('utf-8' codec can't decode\): move it away",
    ),
    "an index of other lines": (
        replacing(b"optimizer.batch_size", b"optimizer.batch_sizf"),
        r"cannot be read \(row \d+ missing from index \w+\): move it away",
    ),
    "no version's table": (
        statement("DROP TABLE alembic_version"),
        r"cannot be read \(no such table: alembic_version\)",
    ),
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_store_that_is_broken_for_good_is_said_before_and_after_training(home: Home, small: Facts, how: str) -> None:
    spoil, words = BROKEN[how]
    shown = MlflowSync(small.edition, home, lambda recipe: small.code)
    show(home, small)
    spoil(home.database)
    spoilt = home.database.read_bytes()
    for look in (lambda: check(home, None), lambda: look_up(home, small.edition)):
        with pytest.raises(MlflowError, match=rf"^MLflow's database sqlite:///\S+mlflow.db {words}"):
            look()
    shown.open()
    shown.add(small.facts[1])
    said: list[str] = []
    assert "MLflow lacks a part: MLflow's database" in shown.close("FINISHED", note=said.append)
    assert said == [], "nothing waits"
    assert home.database.read_bytes() == spoilt, "what is there is left as it is"


def test_letters_that_are_none_are_a_sentence_without_a_wait(home: Home, small: Facts) -> None:
    show(home, small)
    statement("UPDATE tags SET value = CAST(x'c328' AS TEXT) WHERE key = 'locus.rank'")(home.database)
    with pytest.raises(MlflowError, match=r"cannot be read \(Could not decode to UTF-8\): move it away"):
        look_up(home, small.edition)
    shown = MlflowSync(small.edition, home, lambda recipe: small.code)
    shown.open()
    shown.add(small.facts[1])
    said: list[str] = []
    assert "cannot be read (Could not decode to UTF-8): move it" in shown.close("FINISHED", note=said.append)
    assert said == []


def test_a_store_that_breaks_while_a_study_runs_ends_the_wait(home: Home, small: Facts) -> None:
    shown = MlflowSync(small.edition, home, lambda recipe: small.code)
    shown.open()
    shown.add(small.facts[1])
    assert shown._made.wait(60)
    statement("DROP TABLE tags")(home.database)
    for fact in small.facts[2:]:
        shown.add(fact)
    said: list[str] = []
    warning = shown.close("FINISHED", note=said.append)
    assert "cannot be read (no such table: tags): move it away" in warning
    assert said == []


def test_a_run_with_tags_that_are_none_can_be_looked_at_and_forgotten(home: Home, small: Facts) -> None:
    show(home, small)
    statement("UPDATE tags SET value = 'one' WHERE key = 'locus.seed'")(home.database)
    statement("DELETE FROM tags WHERE key = 'locus.level' AND value = 'study'")(home.database)
    found = look_up(home, small.edition)
    assert (len(found.shown), len(found.others)) == (3, 6)
    found.delete(home.artifacts)
    leave(found)
    assert look_up(home, small.edition) is None


@contextmanager
def answering(code: int, body: bytes, kind: str, health: int = 200) -> Iterator[str]:
    """A server that gives one answer to everything, and another code to `/health`; its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(health if self.path == "/health" else code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_POST = do_GET  # noqa: N815 (the name that http.server calls)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


PAGE = b"<html><title>Sign in</title></html>"
ANSWERS = {
    "a login page": (200, PAGE, "text/html", "answers with a page, which is no MLflow (a login?); correct its address"),
    "a list": (200, b"[]", "application/json", "answers with a page, which is no MLflow (a login?)"),
    "an error": (500, PAGE, "text/html", "answers with the error 500; correct its address"),
    "an error in words": (
        403,
        b"Invalid Host header",
        "text/plain",
        "answers with the error 403 (Invalid Host header)",
    ),
    "a password": (401, b"", "text/plain", "asks who you are (error 401); set MLFLOW_TRACKING_USERNAME"),
}


@pytest.mark.parametrize("what", ANSWERS)
def test_what_is_no_mlflow_is_named_before_training_though_it_says_that_it_is_healthy(what, home, small) -> None:
    *answer, words = ANSWERS[what]
    with answering(*answer) as address:
        with pytest.raises(MlflowError) as refused:
            check(home, address)
        assert str(refused.value).startswith(f"MLflow at {address} {words}")
        home.named()
        assert reachable_links(home, small.edition, address) is None


def everything(root: Path) -> list[Path]:
    return sorted(root.rglob("*"))


def test_who_only_looks_makes_nothing(tmp_path: Path, small: Facts, monkeypatch) -> None:
    home, here = Home(tmp_path / "home"), tmp_path / "here"
    folder = home.study(small.edition.id)
    here.mkdir()
    editions.save_edition(small.edition, home)
    with Journal(folder.journal, folder.lock) as journal:
        for fact in small.facts:
            journal.write(fact)
    monkeypatch.chdir(here)
    before, id, at = everything(tmp_path), small.edition.id, str(home.root)
    for tracking in (None, f"sqlite:///{tmp_path}/other/mlflow.db", "sqlite:///mlflow.db"):
        check(home, tracking)
        api.verify(id, home=at)
        api.forgettable(id, home=at, tracking=tracking)
        api.result(id, home=at, tracking=tracking)
        with pytest.raises(LocusError, match="has no MLflow runs yet"):
            serve(home, None, 1, tracking)
    api.status(home=at)
    assert everything(tmp_path) == before
