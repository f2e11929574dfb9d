"""An S3-compatible server on loopback, in a process of its own, and what clients need to reach it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import requests
from fsspec import get_filesystem_class

PATIENCE_S = 60


class S3Server:
    """A server with one empty bucket. It forgets all when it ends."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.env = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "word",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        self.uri = "s3://locus/here"
        self.start()

    def start(self) -> None:
        """Starts the process and makes the bucket."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(self.port)],
            env={**os.environ, **self.env},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        until = time.monotonic() + PATIENCE_S
        while True:
            try:
                requests.put(f"{self.env['AWS_ENDPOINT_URL']}/locus", timeout=5).raise_for_status()
                return
            except requests.RequestException:
                assert time.monotonic() < until, "the server does not answer"
                assert self._process.poll() is None, "the server has ended"
                time.sleep(0.2)

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
