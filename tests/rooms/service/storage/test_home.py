"""Where everything lies, and whole files."""

import os
import shutil
from pathlib import Path

import pytest

from service.storage.facts import Counts, line_of
from service.storage.home import Home
from trainables.whole_files import rename_durably, write_whole


def test_the_home_is_as_given_else_from_the_environment_else_in_the_users(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCUS_HOME", "env")
    assert Home.find("given").root == tmp_path / "given"
    assert Home.find().root == tmp_path / "env"
    monkeypatch.delenv("LOCUS_HOME")
    assert Home.find().root == Path("~/.locus").expanduser()
    assert Home.find("~/other").root == Path("~/other").expanduser()


def test_every_file_has_its_place(home: Home, tmp_path: Path) -> None:
    study = home.study("reach@cpu~3f9a")
    names = {study.study: "study.json", study.journal: "journal.jsonl", study.lock: "lock", study.report: "report"}
    for path, name in names.items():
        assert path == tmp_path / "studies" / "reach@cpu~3f9a" / name
    assert study.work("key", "code", 2) == study.root / "work" / "key" / "code" / "2"
    assert home.tracking == f"sqlite:///{tmp_path}/mlflow.db"
    assert home.artifacts == tmp_path / "artifacts"


def test_ids_are_in_the_order_of_their_last_touch(home: Home) -> None:
    assert home.ids() == []
    for place, id in enumerate(["b@cpu", "a@cpu", "c@smoke"]):
        write_whole(home.study(id).study, "{}")
        os.utime(home.study(id).study, (100 - place, 100 - place))
    home.study("no-study").root.mkdir()
    assert home.ids() == ["c@smoke", "a@cpu", "b@cpu"]


def test_a_copy_that_lost_the_times_of_files_keeps_the_order_in_which_studies_ran(tmp_path: Path) -> None:
    home, copy = Home(tmp_path / "home"), Home(tmp_path / "copy")
    for began, id in enumerate(["c@cpu", "b@cpu", "a@cpu"]):
        write_whole(home.study(id).study, "{}")
        os.utime(home.study(id).study, (began, began))
        facts = [Counts(seeds=1, time=time).plain() for time in (began, began + 0.5)]
        write_whole(home.study(id).journal, b"".join(map(line_of, facts)) + b'{"time": 9, "torn')
    assert home.ids() == ["c@cpu", "b@cpu", "a@cpu"]
    for id in ("a@cpu", "b@cpu", "c@cpu"):
        shutil.copytree(home.study(id).root, copy.study(id).root, copy_function=shutil.copyfile)
    assert copy.ids() == home.ids()
    with home.study("c@cpu").journal.open("wb") as journal:
        journal.write(line_of(Counts(seeds=2, time=99).plain()))
    assert home.ids() == ["c@cpu", "b@cpu", "a@cpu"], "of two that run now, the one that began last stays the latest"
    for damaged in (b"", b"garbage\n", b"[]\n", b'{"time":[]}\n', b"\n"):
        copy.study("c@cpu").journal.write_bytes(damaged)
        assert copy.ids() == ["b@cpu", "a@cpu", "c@cpu"]


def test_a_file_is_there_whole_or_not_at_all(tmp_path: Path, monkeypatch) -> None:
    path = tmp_path / "deep" / "file.json"
    write_whole(path, "first")
    assert path.read_text() == "first"

    def full(descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "second, longer")
    assert path.read_text() == "first"


def test_a_finished_file_is_moved_to_its_place(tmp_path: Path, monkeypatch) -> None:
    source, target, fsync = tmp_path / "weights.pt", tmp_path / "kept" / "w.pt", os.fsync
    source.write_bytes(b"123")
    order: list[tuple[bool, bool]] = []

    def noted(descriptor: int) -> None:
        order.append((os.path.samestat(os.fstat(descriptor), target.parent.stat()), target.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    rename_durably(source, target)
    assert target.read_bytes() == b"123"
    assert not source.exists()
    assert order == [(False, False), (True, True)], "its bytes before its name, and then the names of the folder"
