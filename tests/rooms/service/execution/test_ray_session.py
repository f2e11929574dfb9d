"""A session with Ray: the tries of one on this machine, who can reach it, what its end must survive, and its token."""

import json
import os
import shlex
import stat
import subprocess
import sys
import tempfile

import pytest
from ray._raylet import AuthenticationTokenLoader

from service.execution import ray_session
from service.execution.machine import socket_folder
from service.execution.ray_session import (
    TRIES,
    LocalRay,
    RayError,
    clear_cached_token,
    module_folders,
    protect_local_token,
)
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
    assert [(line.partition(": this machine has a load of")[0], line.rpartition("; ")[2]) for line in lines] == [
        (f"Ray did not start ({why})", "try 2 of 3"),
        ("Ray did not start (no port file)", "try 3 of 3"),
    ]
    tries += [Exception(SLOW)] * TRIES
    refusal = rf"^Ray did not start in 3 tries \({why}\): .* load of .*the same command goes on$"
    with pytest.raises(RayError, match=refusal):
        LocalRay(socket_folder()).start(Apart())
    assert not tries


def test_the_reason_is_the_first_sentence_or_what_a_log_ends_with():
    log = Exception("The last 20 lines of dashboard.log:\n  File x\nEOFError: odd\n")
    reasons = [ray_session.first_line(error) for error in (Exception(SLOW), log, KeyError())]
    assert reasons == ["The current node timed out during startup", "EOFError: odd", "KeyError"]


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
    ended = subprocess.run(["uv", "run"], executable="/bin/sh", cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True)
    assert ended.stdout.splitlines() == ['{"env_vars": {}}'] * 2, ended.stderr


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


@pytest.mark.slow
def test_a_second_try_starts_leaves_nothing_of_the_first_and_listens_on_loopback_alone(tmp_path):
    """The working folder has modules with the names of locus's and Python's; the first try fails halfway."""
    for name in ("service", "trainables", "search_spaces", "random", "typing"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('the wrong file')\n")
    (tmp_path / "code").write_text(STARTED)
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as short:  # Ray's sockets have room there
        command = [sys.executable, "-P", "-c", "import sys; exec(open('code').read())", short]
        env = os.environ | {"PYTHONPATH": str(ROOT), "RAY_TMPDIR": short}
        with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True) as process:
            try:
                out, err = process.communicate(timeout=240)
            finally:
                kill_tree(process.pid)
    assert process.returncode == 0, err
    seen = json.loads(out)
    assert [line.rpartition("; ")[2] for line in seen["lines"]] == ["try 2 of 3"]
    assert seen["named"] == ["gcs_server", "raylet"], "none of the first try"
    assert (seen["sessions"], seen["left"]) == (1, 0)
    assert seen["ports"] > 5
    assert set(seen["addresses"]) <= {"127.0.0.1", "::1", "::ffff:127.0.0.1"}
    random, service, folder = seen["modules"]
    assert service == str(ROOT / "service/__init__.py")
    assert not random.startswith(str(tmp_path))
    assert folder == str(tmp_path)


COLLECTED_WHILE_IT_ENDS = """
import gc, threading, time
import ray
from service.execution.machine import socket_folder
from service.execution.ray_session import LocalRay, session

class Cycle:
    pass

def work():
    while ray.is_initialized():
        time.sleep(0.001)
    while objects:
        one = Cycle()
        one.itself, one.object = one, objects.pop()
        time.sleep(0.0005)

with session("local", LocalRay(socket_folder()), num_cpus=1, include_dashboard=False):
    objects = [ray.put(1) for _ in range(3000)]
    gc.set_threshold(1)
    threading.Thread(target=work, daemon=True).start()
print("ended well", gc.isenabled())
"""


@pytest.mark.slow
def test_garbage_of_ray_that_another_thread_collects_does_not_end_the_process(tmp_path) -> None:
    """Tune leaves references in cycles, and Ray ends a process that drops one while the session ends."""
    command = [sys.executable, "-c", COLLECTED_WHILE_IT_ENDS]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, cwd=tmp_path, env=env, stdout=-1, stderr=-1, text=True, timeout=120)
    assert (ended.stdout, ended.returncode) == ("ended well True\n", 0), ended.stderr


def test_the_token_of_a_ray_of_our_own_is_its_owners_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    token = tmp_path / ".ray" / "auth_token"
    protect_local_token()
    text = token.read_text()
    assert len(text) == 64
    for mode in (0o600, 0o644):
        token.chmod(mode)
        protect_local_token()
        assert (stat.S_IMODE(token.stat().st_mode), token.read_text()) == (0o600, text)


def test_a_token_is_read_where_the_environment_says_now(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    seen = []
    for letter in "ab":
        (tmp_path / letter).write_text(letter * 48)
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / letter))
        clear_cached_token()
        seen.append(AuthenticationTokenLoader.instance().get_raw_token(ignore_auth_mode=True))
    clear_cached_token()
    assert seen[0] != seen[1]
