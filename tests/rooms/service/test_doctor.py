"""Room: what is found on a machine, and what to do about it."""

import shutil
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from service import doctor
from service.doctor import (
    clocks_apart,
    examine,
    folders,
    gpus,
    gpus_of,
    memory_of,
    mlflow,
    packages,
    storage,
    token,
)
from service.planning.run_options import RunOptions
from service.storage.home import Home


def test_a_sound_machine_is_ok(tmp_path, monkeypatch):
    key = tmp_path / "token"
    key.touch(mode=0o600)
    key.write_text("t" * 48)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(key))
    options = RunOptions(home=str(tmp_path / "home"), storage=f"file://{tmp_path}/there")
    found = {one.name: one for one in examine(options, None)}
    assert [*found] == ["packages", "token", "MLflow", "home", "disk", "clock", "storage", "GPUs", "memory"]
    assert {name for name, one in found.items() if one.state != "ok"} <= {"disk"}, "of a machine with little room"
    assert not (tmp_path / "home").exists(), "who examines writes nothing"


@pytest.mark.parametrize(
    ("mode", "text", "words"),
    [(0o644, "t", "others can read it"), (0o640, "t", "others can read it"), (0o600, " \n", "is empty")],
)
def test_a_token_is_for_its_owner_alone(tmp_path, monkeypatch, mode, text, words):
    key = tmp_path / "token"
    key.write_text(text)
    key.chmod(mode)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(key))
    found = token()
    assert found.state == "wrong"
    assert words in found.detail
    assert str(key) in found.do or "token" in found.do


def test_a_missing_token_is_worth_a_look(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    assert token().state == "look"


def test_a_relative_address_of_mlflow_is_wrong(tmp_path) -> None:
    for relative in [
        "mlruns",
        "./mlruns",
        "file:mlruns",
        "file:./mlruns",
        "sqlite:///mlflow.db",
        "sqlite:///./a/mlflow.db",
    ]:
        found = mlflow(Home(tmp_path), relative)
        assert found.state == "wrong"
        assert "relative" in found.detail


@pytest.mark.parametrize("name", ["mlflow.db", "a b/mlflow.db"])
def test_an_absolute_one_is_right(tmp_path, name):
    assert mlflow(Home(tmp_path), f"sqlite:///{tmp_path}/{name}").state == "ok"


def test_a_server_that_does_not_answer_is_wrong_and_its_password_is_not_shown(tmp_path):
    assert mlflow(Home(tmp_path), "http://127.0.0.1:9").state == "wrong"
    assert "word" not in mlflow(Home(tmp_path), "postgresql://me:word@host/db").detail


def test_a_home_is_for_those_who_may_write_there(tmp_path):
    home = Home(tmp_path / "home")
    home.root.mkdir()
    states = {}
    for mode in (0o700, 0o770, 0o1777, 0o777):
        home.root.chmod(mode)
        states[mode] = next(folders(home)).state
    assert states == {0o700: "ok", 0o770: "ok", 0o1777: "ok", 0o777: "wrong"}
    file = tmp_path / "file"
    file.touch()
    (found,) = folders(Home(file / "home"))
    assert found.state == "wrong"


@pytest.mark.parametrize(("free", "state"), [(0.5, "wrong"), (5.0, "look"), (50.0, "ok")])
def test_little_room_is_told(tmp_path, monkeypatch, free, state):
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=int(free * doctor.GIB)))
    found = {one.name: one for one in folders(Home(tmp_path))}
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


def test_a_checkout_that_is_not_installed_is_worth_a_look(monkeypatch):
    def not_there(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(doctor, "requires", not_there)
    assert packages().state == "look"


def test_a_storage_that_cannot_be_written_is_wrong(tmp_path):
    (tmp_path / "file").touch()
    assert storage(f"file://{tmp_path}/file/there").state == "wrong"
    assert storage(f"file://{tmp_path}/there").state == "ok"
    assert not [path for path in Path(tmp_path / "there").glob("*") if path.is_file()]


def test_a_mac_says_that_its_gpu_is_not_used(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    assert gpus().state == "ok"
    assert gpus().detail.endswith("studies train on the CPU, not on Apple's GPU")


def test_memory_and_gpus_of_a_machine():
    assert memory_of(4, 16.0).state == "ok"
    few = memory_of(64, 16.0)
    assert few.state == "look"
    assert "only 20 of the smallest runs fit" in few.detail
    assert gpus_of(2, 2).state == gpus_of(0, 0).state == "ok"
    assert gpus_of(2, 0).state == "wrong"
    others = gpus_of(0, 1)
    assert (others.state, "train on the CPU" in others.detail) == ("look", True), "AMD's, which NVIDIA's driver lacks"
