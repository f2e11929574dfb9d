"""A PostgreSQL server of its own, in a folder of its own: started for a test, and ended with it."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg

from tests.ports import held_port
from tests.waiting import LIMIT_S, until

USER, PASSWORD, NAME = "mlflow", "a-word-of-the-test", "mlflow"
OWNER = "postgres"
"""The user of Debian's package: the server refuses to run as root."""


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """The URI of an empty database, which lives as long as the block."""
    for program in ("initdb", "postgres"):
        assert shutil.which(program), f"{program} must be on the PATH (Debian: apt install postgresql)"
    with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as folder, held_port() as port:
        data, word = Path(folder) / "data", Path(folder) / "word"
        word.write_text(PASSWORD)
        if os.geteuid() == 0:
            shutil.chown(folder, OWNER)
            shutil.chown(word, OWNER)
        begin = ["initdb", "--pgdata", str(data), "--username", USER, "--pwfile", str(word), "--auth", "scram-sha-256"]
        subprocess.run([*_as_owner(), *begin], check=True, stdout=subprocess.DEVNULL)
        serve = ["postgres", "-D", str(data), "-p", str(port), "-h", "127.0.0.1", "-k", folder]
        with (Path(folder) / "log").open("wb") as log:
            server = subprocess.Popen([*_as_owner(), *serve], stdout=log, stderr=log, start_new_session=True)
        try:
            _create(port, server)
            yield uri(port, NAME)
        finally:
            server.send_signal(signal.SIGINT)  # ends its connections, then itself
            server.wait(LIMIT_S)


def _as_owner() -> list[str]:
    return ["setpriv", f"--reuid={OWNER}", f"--regid={OWNER}", "--clear-groups"] if os.geteuid() == 0 else []


def _create(port: int, server: subprocess.Popen[bytes]) -> None:
    def created() -> bool:
        assert server.poll() is None, "PostgreSQL ended"
        with (
            contextlib.suppress(psycopg.OperationalError),
            psycopg.connect(uri(port, "postgres"), autocommit=True) as told,
        ):
            told.execute(f"CREATE DATABASE {NAME}")
            return True
        return False

    until(created)


def uri(port: int, name: str) -> str:
    """The address of a database."""
    return f"postgresql://{USER}:{PASSWORD}@127.0.0.1:{port}/{name}"
