"""`deploy/mlflow/serve`: what it refuses, what it tells MLflow, and that nothing of it is left behind."""

import os
import signal
import stat
import subprocess
import sys
from configparser import ConfigParser
from pathlib import Path

import pytest
import requests
from mlflow.server import get_app_client
from mlflow.tracking import MlflowClient

from tests.deploy.deployed import DEPLOY
from tests.deploy.mlflow_served import ADMIN, WORD, mlflow_served
from tests.waiting import until

SERVE = DEPLOY / "mlflow" / "serve"
FAKE = """#!/usr/bin/env bash
if [[ "$1" == -c ]]; then exec "$REAL_PYTHON" "$@"; fi
cp -p "$MLFLOW_AUTH_CONFIG_PATH" "$SEEN/auth.ini"
env >"$SEEN/env"
echo "$@" >"$SEEN/words"
sleep 60 &
echo $! >"$SEEN/worker"
wait
"""
"""Stands for Python: it keeps what it was told, and has a child, as MLflow has."""
PERCENT = "postgresql://mlflow:p%40ss@localhost/mlflow"


@pytest.fixture
def env(tmp_path):
    """An environment in which `serve` is complete."""
    known = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    return known | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MLFLOW_BACKEND_STORE_URI": f"sqlite:///{tmp_path / 'mlflow.db'}",
        "MLFLOW_ARTIFACTS_DESTINATION": str(tmp_path / "artifacts"),
        "TMPDIR": str(tmp_path),
    }


@pytest.fixture
def served(env, tmp_path):
    """Starts `serve` with a stand-in for MLflow; yields what it was told, and ends it."""
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(FAKE)
    python.chmod(0o755)
    real = subprocess.run(["which", "python3"], capture_output=True, text=True, check=True).stdout.strip()
    told = {"PATH": f"{python.parent}:{env['PATH']}", "REAL_PYTHON": real, "SEEN": str(tmp_path)}
    process = subprocess.Popen(
        [SERVE],
        env=env | told | {"MLFLOW_BACKEND_STORE_URI": PERCENT},
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # nohup lets all its children ignore it
    )
    until(lambda: (tmp_path / "worker").is_file() and (tmp_path / "worker").read_text())
    yield process, dict(line.split("=", 1) for line in (tmp_path / "env").read_text().splitlines() if "=" in line)
    process.kill()
    process.wait()


@pytest.mark.parametrize(
    ("name", "value", "sentence"),
    [
        ("MLFLOW_BACKEND_STORE_URI", "", "MLFLOW_BACKEND_STORE_URI must be set"),
        ("MLFLOW_ARTIFACTS_DESTINATION", "", "MLFLOW_ARTIFACTS_DESTINATION must be set"),
        ("MLFLOW_ARTIFACTS_DESTINATION", "mlruns", "must be absolute, got mlruns"),
    ],
)
def test_what_is_missing_or_relative_is_refused(env, name, value, sentence):
    done = subprocess.run([SERVE], env=env | {name: value}, capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert sentence in done.stderr


def test_mlflow_is_told_to_be_careful_and_its_users_are_kept_where_the_runs_are(served, tmp_path):
    _, told = served
    words = (tmp_path / "words").read_text().split()
    assert words == ["-m", "mlflow", "server", "--app-name", "basic-auth", "--serve-artifacts"]
    assert told["MLFLOW_HOST"] == "127.0.0.1"
    assert told["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
    assert told["MLFLOW_SERVER_ALLOWED_HOSTS"] == "localhost:*,127.0.0.1:*"
    assert len(told["MLFLOW_FLASK_SERVER_SECRET_KEY"]) == 64
    assert "p%40ss" not in " ".join(words), "every user of a machine sees the words of its processes"
    file = tmp_path / "auth.ini"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    read = ConfigParser()
    read.read(file)
    assert read["mlflow"]["database_uri"] == PERCENT
    assert read["mlflow"]["auth_cache_ttl_seconds"] == "60", "else each request checks a password for 0.1 s, twice"


@pytest.mark.parametrize("asked", [signal.SIGTERM, signal.SIGHUP])
def test_it_ends_its_workers_and_leaves_no_password(served, tmp_path, asked):
    process, told = served
    process.send_signal(asked)
    assert process.wait(60) == 128 + asked
    assert not Path(told["MLFLOW_AUTH_CONFIG_PATH"]).exists()
    worker = int((tmp_path / "worker").read_text())
    until(lambda: not alive(worker))


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def add_a_colleague(at, user, monkeypatch):
    """Another user adds a run to an experiment that is not theirs, because all homes share a study's experiment."""
    for person in (user, ("colleague", "a-colleague-of-the-test")):
        monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", person[0])
        monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", person[1])
        client = MlflowClient(at)
        if person == user:
            experiment = client.create_experiment("shared")
            get_app_client("basic-auth", at).create_user("colleague", "a-colleague-of-the-test")
        client.log_metric(client.create_run(experiment).info.run_id, "val/accuracy", 1.0)
    assert len(client.search_runs([experiment])) == 2


@pytest.mark.slow
def test_the_real_one_asks_who_it_is(tmp_path, monkeypatch):
    user = (ADMIN, WORD)
    with mlflow_served(f"sqlite:///{tmp_path / 'mlflow.db'}", tmp_path) as at:
        get = f"{at}/api/2.0/mlflow/experiments/get?experiment_id=0"
        assert requests.get(get, timeout=30).status_code == 401
        assert requests.get(get, auth=(ADMIN, "wrong"), timeout=30).status_code == 401
        found = requests.get(get, auth=user, timeout=30).json()
        assert found["experiment"]["artifact_location"] == "mlflow-artifacts:/0"
        add_a_colleague(at, user, monkeypatch)
        assert requests.get(get, auth=user, headers={"Host": "elsewhere.example"}, timeout=30).status_code == 403
    with pytest.raises(requests.RequestException):
        requests.get(f"{at}/health", timeout=5)
