"""Room: a folder whose sockets have paths short enough for the system."""

import os
from pathlib import Path

import pytest

from service.execution import machine as room
from service.execution.machine import socket_folder
from trainables.spec import LocusError


@pytest.fixture
def short(tmp_path_factory, monkeypatch):
    """A folder below which a short one may be made, and no variable that names another."""
    base = tmp_path_factory.mktemp("s")
    monkeypatch.setattr(room, "LONGEST", len(os.fsencode(base / "locus-ray-1234567" / "ray" / room.BELOW)))
    monkeypatch.setattr(room, "SHORT", (base,))
    for name in ("TMPDIR", "RAY_TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    return base


def test_rays_own_choice_stays_where_it_is_short(monkeypatch):
    monkeypatch.delenv("RAY_TMPDIR", raising=False)
    monkeypatch.setenv("TMPDIR", "/var/tmp")
    assert socket_folder() == Path("/var/tmp/ray")
    monkeypatch.setenv("RAY_TMPDIR", "/tmp")
    assert socket_folder() == Path("/tmp/ray")


@pytest.mark.parametrize("name", ["TMPDIR", "RAY_TMPDIR"])
@pytest.mark.parametrize("long", ["x" * 90, "ä" * 45], ids=["letters", "bytes"])
def test_a_long_one_is_replaced_by_a_short_one_of_the_users_own(short, tmp_path, monkeypatch, name, long):
    (tmp_path / long).mkdir()
    monkeypatch.setenv(name, str(tmp_path / long))
    found = socket_folder()
    assert found == short / f"locus-ray-{os.getuid()}" / "ray"
    assert found.parent.stat().st_mode & 0o777 == 0o700
    assert len(os.fsencode(found / room.BELOW)) <= room.LONGEST
    found.mkdir()
    found.chmod(0o777)  # as Ray does
    assert socket_folder() == found, "the next study uses it as well"


def test_one_that_does_not_exist_is_replaced(short, monkeypatch):
    monkeypatch.setenv("TMPDIR", "/no")
    assert socket_folder().parent.parent == short


def test_a_folder_that_another_may_write_or_a_link_is_not_used(short, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / ("x" * 90)))
    place = short / f"locus-ray-{os.getuid()}"
    place.symlink_to(tmp_path)
    said = r"TMPDIR must be a folder that can be written, with a path of at most \d+ bytes.*got .*x{90}"
    with pytest.raises(LocusError, match=said):
        socket_folder()
    place.unlink()
    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(LocusError, match=said):
        socket_folder()
