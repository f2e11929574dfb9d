"""A home that was moved or copied is a home of its own: nothing is written where it comes from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import service
from service.storage.home import Home
from service.tracking.store import look_up
from tests.rooms.service.execution.studies import arms
from tests.rooms.service.tracking.facts import Facts, runs, show, told
from tests.rooms.toy import conduct


def files(root: Path) -> dict[str, bytes]:
    """Every file below a folder, with what it holds."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def report(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "report.html").write_text(text)
    return folder


@pytest.mark.parametrize("moved", [False, True])
def test_a_database_that_came_along_is_written_anew(home: Home, small: Facts, tmp_path_factory, moved: bool) -> None:
    place = tmp_path_factory.mktemp("copies")
    show(home, small, report=report(place / "r", "the first"))
    copy = Home(place / "copy")
    shutil.copytree(home.root, copy.root)
    before = files(home.root)
    if moved:
        shutil.rmtree(home.root)
    for text in ("the second", "the third"):
        show(copy, small, report=report(place / "r", text))
        assert len(runs(copy)) == len(look_up(copy, small.edition).shown) == 9
        study = runs(copy)["reach@base"].info.run_id
        assert (copy.artifacts / study / "artifacts" / "report" / "report.html").read_text() == text
    look_up(copy, small.edition).delete(copy.artifacts)
    assert (files(home.root) if home.root.exists() else {}) == ({} if moved else before)


def test_a_database_that_both_reach_by_a_link_is_refused(home: Home, small: Facts, tmp_path_factory) -> None:
    place = tmp_path_factory.mktemp("copies")
    show(home, small)
    home.database.rename(place / "mlflow.db")
    home.database.symlink_to(place / "mlflow.db")
    copy = Home(place / "copy")
    shutil.copytree(home.root, copy.root, symlinks=True)
    before = files(home.root), (place / "mlflow.db").read_bytes()
    said = told(copy, small).close("FINISHED")
    assert f"must keep its files in {copy.artifacts}, got {home.artifacts.as_uri()}" in said
    assert (files(home.root), (place / "mlflow.db").read_bytes()) == before


def test_on_a_shared_store_the_rows_of_where_it_comes_from_stay(home: Home, small: Facts, tmp_path_factory) -> None:
    shared = f"sqlite:///{home.database}"
    show(home, small, tracking=shared)
    copy = Home(tmp_path_factory.mktemp("shared") / "copy")
    copy.root.mkdir()
    shutil.copy(home.root / "id", copy.root / "id")
    assert look_up(copy, small.edition, shared) is None
    show(copy, small, tracking=shared)
    assert copy.id == copy.named() != home.id
    assert len(look_up(home, small.edition, shared).shown) == len(look_up(copy, small.edition, shared).shown) == 9
    look_up(copy, small.edition, shared).delete(copy.artifacts)
    assert len(look_up(home, small.edition, shared).shown) == 9


def test_a_moved_home_goes_on(tmp_path: Path) -> None:
    old, moved, edition = Home(tmp_path / "old"), Home(tmp_path / "moved"), arms()
    conduct(old, edition)
    table = service.result(edition.id, home=str(old.root)).table().to_csv()
    old.root.rename(moved.root)
    assert conduct(moved, edition).trained == {}
    assert service.result(edition.id, home=str(moved.root)).table().to_csv() == table
    assert all(check.ok for check in service.verify(edition.id, home=str(moved.root)))
    assert not old.root.exists()


def test_the_database_lies_in_a_home_with_any_letters_in_its_path(tmp_path: Path, small: Facts) -> None:
    home = Home(tmp_path / "homes" / "a?b=1&c%20d#e%f")
    home.root.mkdir(parents=True)
    for _ in range(2):
        show(home, small)
        assert len(runs(home)) == 9
    assert {path.name for path in home.root.iterdir()} == {"mlflow.db", "mlflow.lock", "artifacts", "id", "studies"}
    assert [path.name for path in home.root.parent.iterdir()] == [home.root.name], "nothing is made beside it"
