"""Room: temporary folders of processes, and those that killed processes have left."""

import os
import tempfile

import pytest
from filelock import FileLock

from trainables.launch.scratch import scratch


@pytest.fixture
def around(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_there_for_the_block_alone(around):
    with scratch("locus-run-") as one, scratch("locus-run-") as other:
        assert list(one.iterdir()) == list(other.iterdir()) == []
        (one / "file").touch()
        (one.parent / "lock").stat()
    assert list(around.iterdir()) == []


def test_only_folders_of_killed_processes_are_removed(around):
    folders = {name: around / f"locus-run-{name}" for name in ("killed", "at work", "begins")}
    folders["of another use"] = around / "locus-tune-killed"
    for folder in folders.values():
        (folder / "files").mkdir(parents=True)
        (folder / "files" / "checkpoint.pt").write_bytes(b"1")
    with FileLock(folders["at work"] / "lock"):
        for name in ("killed", "at work", "of another use"):
            os.utime(folders[name], (1, 1))
        with scratch("locus-run-"):
            assert not folders.pop("killed").exists()
    assert sorted(around.iterdir()) == sorted(folders.values())
    assert all((folder / "files" / "checkpoint.pt").exists() for folder in folders.values())
