"""An S3-compatible server on loopback, in a process of its own, and what clients need to reach it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from typing import TextIO

import requests
from fsspec import get_filesystem_class

PATIENCE_S = 60


class S3Server:
    """A server with one empty bucket. It forgets all when it ends."""

    def __init__(self) -> None:
        self._port = 0
        self.env = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "word", "AWS_DEFAULT_REGION": "us-east-1"}
        self.uri = "s3://locus/here"
        self.start()

    def start(self) -> None:
        """Starts the process and makes the bucket. The first start takes a free port, later ones the same again."""
        with tempfile.TemporaryFile("w+") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self._port)],
                env={**os.environ, **self.env},
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            until = time.monotonic() + PATIENCE_S
            while not (address := re.search(r"http://127\.0\.0\.1:(\d+)", _content(said))):
                assert self._process.poll() is None, f"the server has ended: {_content(said)}"
                assert time.monotonic() < until, "the server does not start"
                time.sleep(0.1)
        self._port, self.env["AWS_ENDPOINT_URL"] = int(address[1]), address[0]
        requests.put(f"{address[0]}/locus", timeout=PATIENCE_S).raise_for_status()

    def reach(self, monkeypatch) -> None:
        """Lets clients in this process reach this server. fsspec remembers where the last one was."""
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)
        get_filesystem_class("s3").clear_instance_cache()

    def signal(self, number: int) -> None:
        """Sends the process a signal."""
        self._process.send_signal(number)

    def end(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait(10)


def _content(file: TextIO) -> str:
    """What a process has written to a file until now; the process keeps its own place in it."""
    return os.pread(file.fileno(), 2**16, 0).decode()
