"""A home that was copied leaves its original alone; one that was moved takes its files along."""

from __future__ import annotations

import shutil
from pathlib import Path

from mlflow.tracking import MlflowClient

from service.storage.home import Home
from service.tracking.store import NOTE, look_up
from service.tracking.views import PREFIX, settle, unpacked
from tests.rooms.service.tracking.facts import Facts, runs, show


def files(root: Path) -> dict[str, bytes]:
    """Every file below a folder, with what it holds."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def report(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "report.html").write_text(text)
    return folder


def grown(facts: Facts) -> Facts:
    """The study goes on with another point."""
    more = Facts(facts.edition, [*facts.facts], facts.clock, facts.code)
    more.complete(more.plan(3, encoding__gamma=9.0), 0, 0.75)
    return more


def test_a_copy_goes_on_alone(home: Home, small: Facts, tmp_path_factory) -> None:
    place = tmp_path_factory.mktemp("copies")
    show(home, small, report=report(place / "r", "the original's"))
    copy = Home(place / "copy")
    shutil.copytree(home.root, copy.root)
    before = files(home.root)
    assert copy.original == home.root
    assert copy.id is None, "on a shared server nothing is the copy's"
    assert files(copy.root) == before, "who looks changes nothing"
    assert settle(copy).startswith(f"this home is a copy of {home.root}: it has an id of its own now")
    assert settle(copy) == ""
    assert copy.id not in (None, home.id)
    more = grown(small)
    show(copy, more, report=report(place / "r", "the copy's"))
    assert files(home.root) == before
    study = runs(copy)["reach@base"].info.run_id
    assert (copy.artifacts / study / "artifacts" / "report" / "report.html").read_text() == "the copy's"
    tags = MlflowClient(copy.tracking).get_experiment_by_name("locus/reach").tags
    assert home.id not in str(tags)
    views = [value for tag, value in tags.items() if tag.startswith(f"{PREFIX}{copy.id}.")]
    assert len(views) == 3
    assert all(copy.id in unpacked(view)["searchFilter"] for view in views)
    assert copy.id in tags[NOTE]


def test_a_copy_forgets_nothing_of_its_original_on_a_shared_store(home: Home, small: Facts, tmp_path_factory) -> None:
    place = tmp_path_factory.mktemp("shared")
    shared = f"sqlite:///{home.database}"
    copy = Home(place / "copy")
    home.named()
    show(home, small, tracking=shared)
    copy.root.mkdir()
    shutil.copy(home.root / "id", copy.root / "id")
    assert look_up(copy, small.edition, shared) is None
    settle(copy)
    show(copy, small, tracking=shared)
    assert len(look_up(home, small.edition, shared).shown) == len(look_up(copy, small.edition, shared).shown) == 9
    look_up(copy, small.edition, shared).delete(copy.artifacts)
    assert len(look_up(home, small.edition, shared).shown) == 9


def test_a_copy_leaves_alone_a_database_that_both_reach_by_a_link(home: Home, small: Facts, tmp_path_factory) -> None:
    place = tmp_path_factory.mktemp("linked")
    show(home, small)
    home.database.rename(place / "mlflow.db")
    home.database.symlink_to(place / "mlflow.db")
    copy, before = Home(place / "copy"), (place / "mlflow.db").read_bytes()
    shutil.copytree(home.root, copy.root, symlinks=True)
    assert look_up(copy, small.edition) is None, "its rows are those of the original"
    assert "nothing of it is written there" in settle(copy)
    assert (place / "mlflow.db").read_bytes() == before
    assert copy.id not in (None, home.id)
    assert look_up(copy, small.edition) is None
    show(copy, small)
    assert len(look_up(home, small.edition).shown) == len(look_up(copy, small.edition).shown) == 9


def test_a_moved_home_takes_its_files_along(home: Home, small: Facts, tmp_path_factory) -> None:
    place = tmp_path_factory.mktemp("moves")
    old = Home(place / "a?b 100%")
    shutil.move(home.root, old.root)
    show(old, small, report=report(place / "r", "one"))
    moved = Home(place / "moved")
    old.root.rename(moved.root)
    id = moved.id
    assert (moved.original, moved.moved_from) == (None, old.root)
    assert settle(moved) == f"this home was moved here from {old.root}: MLflow's files are those that lie here now"
    assert (settle(moved), moved.id) == ("", id)
    more = grown(small)
    show(moved, more, report=report(place / "r", "two"))
    assert not old.root.exists()
    study = runs(moved)["reach@base"].info.run_id
    assert (moved.artifacts / study / "artifacts" / "report" / "report.html").read_text() == "two"


def test_the_database_lies_in_a_home_with_any_letters_in_its_path(tmp_path: Path, small: Facts) -> None:
    home = Home(tmp_path / "homes" / "a?b=1&c%20d#e%f")
    home.root.mkdir(parents=True)
    show(home, small)
    assert len(runs(home)) == 9
    assert {path.name for path in home.root.iterdir()} == {"mlflow.db", "mlflow.lock", "artifacts", "id"}
    assert [path.name for path in home.root.parent.iterdir()] == [home.root.name], "nothing is made beside it"
