"""What is kept is as it was, or is not there: under another mark, with a changed byte, in a folder for reading only."""

import os
from pathlib import Path

import pytest

from trainables.kept import cache_folder, keep, kept, seen

VALUE = [{"name": "peg", "numbers": [1, 2.5, None]}]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "locus"


def test_a_value_is_kept_under_its_mark_alone(cache: Path) -> None:
    assert kept("one.json", "mark") is None
    keep("one.json", "mark", VALUE)
    assert kept("one.json", "mark") == VALUE
    assert kept("one.json", "another") is None
    keep("one.json", "another", [])
    assert (kept("one.json", "mark"), kept("one.json", "another")) == (None, [])
    assert [path.name for path in cache.iterdir()] == ["one.json"]


def test_a_changed_byte_is_seen(cache: Path) -> None:
    keep("one.json", "mark", VALUE)
    whole = (cache / "one.json").read_bytes()
    for place in range(len(whole)):
        (cache / "one.json").write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert kept("one.json", "mark") is None, place
    for left in range(len(whole)):
        (cache / "one.json").write_bytes(whole[:left])
        assert kept("one.json", "mark") is None, left


def test_what_nobody_used_for_long_goes_and_files_of_others_stay(cache: Path) -> None:
    for name in ("old.json", "read.json", "new.json", "folders/old.json"):
        keep(name, "mark", VALUE)
    (cache / "notes.json").write_text("a list of mine\n")
    (cache / "elsewhere.json").symlink_to(cache.parent / "mine.json")
    (cache.parent / "mine.json").write_bytes((cache / "old.json").read_bytes())
    for path in (*cache.rglob("*.json"), cache.parent / "mine.json"):
        if path.name != "new.json":
            os.utime(path, (0, 0))
    assert kept("read.json", "mark") == VALUE
    keep("another.json", "mark", VALUE)
    left = {str(path.relative_to(cache)) for path in cache.rglob("*.json")}
    assert left == {"another.json", "read.json", "new.json", "notes.json", "elsewhere.json", "folders/old.json"}
    keep("folders/another.json", "mark", VALUE)
    assert [path.name for path in (cache / "folders").iterdir()] == ["another.json"]
    assert (cache.parent / "mine.json").exists()


@pytest.mark.parametrize("place", ["a file", "/proc/none"])
def test_a_folder_that_cannot_be_written_keeps_nothing(tmp_path: Path, monkeypatch, place: str) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / place))
    keep("one.json", "mark", VALUE)
    assert kept("one.json", "mark") is None


def test_an_edited_a_new_and_a_lost_file_are_seen(tmp_path: Path) -> None:
    (tmp_path / "room").mkdir()
    for name in ("a.py", "room/b.py", "c.txt"):
        (tmp_path / name).write_text("1\n")
    marks = [seen(tmp_path)]
    (tmp_path / "room" / "b.py").write_text("22\n")
    marks.append(seen(tmp_path))
    (tmp_path / "room" / "d.py").write_text("")
    marks.append(seen(tmp_path))
    (tmp_path / "a.py").unlink()
    marks.append(seen(tmp_path))
    assert len({*marks}) == 4
    (tmp_path / "c.txt").write_text("333\n")
    assert seen(tmp_path) == marks[-1]


def test_tests_keep_nothing_for_the_user_who_runs_them(monkeypatch):
    monkeypatch.undo()
    assert "locus-user-" in str(cache_folder())
