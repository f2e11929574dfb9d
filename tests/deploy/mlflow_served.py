"""`deploy/mlflow/serve` with a database: started for a test, and ended with it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import requests

from tests.deploy.deployed import DEPLOY
from tests.faults.mlflow_server import free_port
from tests.waiting import until

ADMIN, WORD = "admin", "another-word-of-the-test"
USER = {"MLFLOW_TRACKING_USERNAME": ADMIN, "MLFLOW_TRACKING_PASSWORD": WORD}
"""What a client has in its environment."""


@contextlib.contextmanager
def mlflow_served(database: str, folder: Path) -> Iterator[str]:
    """The address of `deploy/mlflow/serve` with a database."""
    port = free_port()
    known = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    env = known | {
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "MLFLOW_BACKEND_STORE_URI": database,
        "MLFLOW_ARTIFACTS_DESTINATION": str(folder / "artifacts"),
        "MLFLOW_AUTH_ADMIN_USERNAME": ADMIN,
        "MLFLOW_AUTH_ADMIN_PASSWORD": WORD,
        "MLFLOW_PORT": str(port),
    }
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([DEPLOY / "mlflow" / "serve"], env=env, stdout=log, stderr=log)

    def is_up() -> bool:
        assert server.poll() is None, (folder / "log").read_text()
        with contextlib.suppress(requests.RequestException):
            return requests.get(f"http://127.0.0.1:{port}/health", timeout=5).ok
        return False

    try:
        until(is_up, (folder / "log").read_text, 180)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait(30)
