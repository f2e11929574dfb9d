"""Room: a Ray of this machine's own: its tries, what they leave behind, and who can reach it."""

import json
import os
import shlex
import subprocess
import sys
import tempfile

import pytest

from service.execution import ray_session
from service.execution.machine import socket_folder
from service.execution.ray_session import TRIES, LocalRay, RayError, module_folders
from service.execution.signals import Apart
from tests.house.test_arrows import ROOT
from tests.journeys.processes import kill_tree

SLOW = "The current node timed out during startup. This could happen because some of the raylet failed to startup."


@pytest.fixture
def tries(monkeypatch):
    """The errors of Ray's next starts; those that were met are taken out."""
    errors: list[Exception] = []

    def start(**settings):
        if errors:
            raise errors.pop(0)

    monkeypatch.setattr(ray_session.ray, "init", start)
    return errors


def test_a_slow_start_is_tried_again_and_then_a_sentence(tries):
    lines: list[str] = []
    tries += [Exception(SLOW), RuntimeError("no port file")]
    LocalRay(socket_folder(), lines.append).start(Apart())
    why = "The current node timed out during startup"
    assert [line.partition(": this machine has a load of")[0] for line in lines] == [
        f"Ray did not start ({why})",
        "Ray did not start (no port file)",
    ]
    assert [line.rpartition("; ")[2] for line in lines] == ["try 2 of 3", "try 3 of 3"]
    tries += [Exception(SLOW)] * TRIES
    with pytest.raises(
        RayError, match=rf"^Ray did not start in 3 tries \({why}\): .* load of .*the same command goes on$"
    ):
        LocalRay(socket_folder()).start(Apart())
    assert not tries


def test_the_reason_is_the_first_sentence_or_what_a_log_ends_with():
    assert ray_session.first_line(Exception(SLOW)) == "The current node timed out during startup"
    assert (
        ray_session.first_line(Exception("The last 20 lines of dashboard.log:\n  File x\nEOFError: odd\n"))
        == "EOFError: odd"
    )
    assert ray_session.first_line(KeyError()) == "KeyError"


@pytest.mark.parametrize("error", [PermissionError("Permission denied: '/tmp/ray'"), ValueError("num_cpus")])
def test_what_another_try_would_meet_again_is_said_at_once(tries, error):
    tries.append(error)
    with pytest.raises(RayError, match=r"^Ray did not start here \("):
        LocalRay(socket_folder()).start(Apart())


BELOW_UV = """
import json
from ray._private import worker
from service.execution import ray_session
from service.execution.machine import socket_folder

def start(**settings):
    print(json.dumps(worker._maybe_modify_runtime_env(settings["runtime_env"], False)))

ray_session.ray.init = start
for address, here in (("local", ray_session.LocalRay(socket_folder())), ("127.0.0.1:1", None)):
    with ray_session.session(address, here, runtime_env={"env_vars": {}}):
        pass
"""


def test_workers_are_the_same_below_uv_run(tmp_path):
    """Ray would send the working folder to them, and start them by uv: each run of a study failed."""
    (tmp_path / "pyproject.toml").write_text("[project]\nname = 'x'\n")
    (tmp_path / "run").write_text(f"{shlex.quote(sys.executable)} -c {shlex.quote(BELOW_UV)}\nexit $?\n")
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    said = subprocess.run(["uv", "run"], executable="/bin/sh", cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True)
    assert said.stdout.splitlines() == ['{"env_vars": {}}'] * 2, said.stderr


def test_a_start_that_was_left_is_not_tried_again(tries):
    tries += [Exception(SLOW)] * TRIES
    apart = Apart()
    apart.leaving.set()
    with pytest.raises(KeyboardInterrupt):
        LocalRay(socket_folder()).start(apart)
    assert len(tries) == TRIES - 1


def test_workers_look_for_modules_where_this_process_does():
    """Not in the working folder, unless this process does, and there only after locus's own folder."""
    root, here = str(ROOT), "/home/me/project"
    assert module_folders(["/usr/bin", "/usr/lib/python3.11"], here) == [root]
    assert module_folders(["", "/usr/lib/python3.11"], here) == [here, root]
    assert module_folders([here], here) == [here, root]
    assert module_folders([""], root) == [root]


STARTED = """
import json, os, sys
import ray
from ray._private import services
from service.execution.machine import socket_folder
from service.execution.ray_session import LocalRay
from service.execution.ray_session import session

first = services.start_raylet

def fails(*words, **more):
    services.start_raylet = first
    raise Exception("The current node timed out during startup.")

@ray.remote
def modules():
    import random
    import service
    return [random.__file__, service.__file__, os.getcwd()]

services.start_raylet = fails
lines = []
with session("local", LocalRay(socket_folder(), lines.append), num_cpus=1, include_dashboard=True):
    import psutil
    found = ray.get(modules.remote())
    mine = [psutil.Process(), *psutil.Process().children(recursive=True)]
    ports = [one for process in mine for one in process.net_connections("inet") if one.status == "LISTEN"]
    named = [process.name() for process in mine if process.name() in ("gcs_server", "raylet")]
sessions = [name for name in os.listdir(sys.argv[1] + "/ray") if name.startswith("session_2")]
print(json.dumps({
    "lines": lines, "modules": found, "addresses": sorted({one.laddr.ip for one in ports}), "named": sorted(named),
    "sessions": len(sessions), "left": len(psutil.Process().children()), "ports": len(ports),
}))
"""


@pytest.fixture
def short_folder():
    """A folder with a short path, in which Ray's sockets have room."""
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield folder


@pytest.mark.slow
def test_a_second_try_starts_leaves_nothing_of_the_first_and_listens_on_loopback_alone(short_folder, tmp_path):
    """The working folder has modules with the names of locus's and Python's; the first try fails halfway."""
    for name in ("service", "trainables", "search_spaces", "random", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong file')\n")
    (tmp_path / "code").write_text(STARTED)
    command = [sys.executable, "-P", "-c", "import sys; exec(open('code').read())", str(short_folder)]
    env = os.environ | {"PYTHONPATH": str(ROOT), "RAY_TMPDIR": str(short_folder)}
    with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True) as process:
        try:
            out, err = process.communicate(timeout=240)
        finally:
            kill_tree(process.pid)
    assert process.returncode == 0, err
    told = json.loads(out)
    assert [line.rpartition("; ")[2] for line in told["lines"]] == ["try 2 of 3"]
    assert told["named"] == ["gcs_server", "raylet"], "none of the first try"
    assert told["sessions"] == 1
    assert told["left"] == 0
    assert told["ports"] > 5
    assert set(told["addresses"]) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    random, service, folder = told["modules"]
    assert service == str(ROOT / "service/__init__.py")
    assert not random.startswith(str(tmp_path))
    assert folder == str(tmp_path)
