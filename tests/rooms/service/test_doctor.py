"""Room: what is found on a machine, and what to do about it."""

import shutil
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from service import doctor
from service.doctor import clocks_apart, examine, folders, gpus, gpus_of, memory_of, mlflow, packages, storage, token
from service.planning.run_options import RunOptions
from service.storage.home import Home


@pytest.fixture
def key(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "token"))
    return tmp_path / "token"


def test_a_sound_machine_is_ok(tmp_path, key):
    key.touch(mode=0o600)
    key.write_text("t" * 48)
    options = RunOptions(home=str(tmp_path / "home"), storage=f"file://{tmp_path}/there")
    found = {finding.name: finding.state for finding in examine(options, None)}
    assert [*found] == ["packages", "token", "MLflow", "home", "disk", "clock", "storage", "GPUs", "memory"]
    assert {name for name, state in found.items() if state != "ok"} <= {"disk"}, "of a machine with little room"
    assert not (tmp_path / "home").exists(), "who examines writes nothing"


def test_a_token_is_for_its_owner_alone(key):
    assert token().state == "look", "none is worth a look"
    for mode, text, words in ((0o644, "t", "others can read"), (0o640, "t", "others can read"), (0o600, " ", "empty")):
        key.write_text(text)
        key.chmod(mode)
        found = token()
        assert (found.state, words in found.detail) == ("wrong", True)
        assert str(key) in found.do or "token" in found.do


@pytest.mark.parametrize(
    ("address", "state", "words"),
    [
        *[
            (relative, "wrong", "is a relative path")
            for relative in (
                "mlruns",
                "./mlruns",
                "file:mlruns",
                "file:./mlruns",
                "sqlite:///m.db",
                "sqlite:///./a/m.db",
            )
        ],
        ("sqlite:///HOME/mlflow.db", "ok", "mlflow.db"),
        ("sqlite:///HOME/a b/mlflow.db", "ok", "mlflow.db"),
        ("http://127.0.0.1:9", "wrong", "127.0.0.1:9"),
        ("postgresql://me:word@host/db", "ok", "host/db"),
    ],
)
def test_the_address_of_mlflow_is_absolute_and_answers_and_its_password_is_not_shown(tmp_path, address, state, words):
    found = mlflow(Home(tmp_path), address.replace("HOME", str(tmp_path)))
    assert (found.state, words in found.detail, ":word@" in found.detail) == (state, True, False), found.detail


def test_a_home_is_for_those_who_may_write_there(tmp_path):
    home = Home(tmp_path / "home")
    home.root.mkdir()
    for mode, state in {0o700: "ok", 0o770: "ok", 0o1777: "ok", 0o777: "wrong"}.items():
        home.root.chmod(mode)
        assert next(folders(home)).state == state
    (tmp_path / "file").touch()
    (found,) = folders(Home(tmp_path / "file" / "home"))
    assert found.state == "wrong"


@pytest.mark.parametrize(("free", "state"), [(0.5, "wrong"), (5.0, "look"), (50.0, "ok")])
def test_little_room_is_told(tmp_path, monkeypatch, free, state):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=int(free * 2**30)))
    found = {finding.name: finding for finding in folders(Home(tmp_path))}
    assert found["disk"].state == state


def test_clocks_may_differ_by_seconds() -> None:
    for apart, state in [(0.0, "ok"), (4.0, "ok"), (-4.0, "ok"), (60.0, "look"), (-60.0, "look")]:
        found = clocks_apart(Path("home"), apart)
        assert found.state == state
        assert ("ahead" in found.detail, "behind" in found.detail) == (apart > 5, apart < -5)


def test_packages_are_compared_with_what_is_asked_for(monkeypatch):
    assert packages().state == "ok"
    monkeypatch.setattr(doctor, "requires", lambda _: ["ray>=99", "no-such-package>=1", "torch>=2; extra == 'dev'"])
    found = packages()
    assert found.state == "wrong"
    assert "no-such-package is missing" in found.detail
    assert "asked for is >=99" in found.detail
    assert "torch" not in found.detail

    def no_package(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", no_package)
    assert packages().state == "look", "a checkout that is not installed"


def test_a_storage_that_cannot_be_written_is_wrong(tmp_path):
    (tmp_path / "file").touch()
    assert storage(f"file://{tmp_path}/file/there").state == "wrong"
    assert storage(f"file://{tmp_path}/there").state == "ok"
    assert not [path for path in Path(tmp_path / "there").glob("*") if path.is_file()]


def test_memory_and_gpus_of_a_machine(monkeypatch):
    assert memory_of(4, 16.0).state == "ok"
    few = memory_of(64, 16.0)
    assert (few.state, "only 20 of the smallest runs fit" in few.detail) == ("look", True)
    assert gpus_of(2, 2).state == gpus_of(0, 0).state == "ok"
    assert gpus_of(2, 0).state == "wrong"
    others = gpus_of(0, 1)
    assert (others.state, "train on the CPU" in others.detail) == ("look", True), "AMD's, which NVIDIA's driver lacks"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert gpus().state == "ok"
    assert gpus().detail.endswith("studies train on the CPU, not on Apple's GPU")
