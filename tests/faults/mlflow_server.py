"""An MLflow server that fails when it is told to: killed and started again, stopped, or with answers that get lost."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

from service.storage.home import Home
from service.tracking.server import server


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Mlflow:
    """A server on loopback with a store of its own, in a process group of its own."""

    def __init__(self, home: Home) -> None:
        self.home, self.port = home, free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        home.root.mkdir(parents=True, exist_ok=True)
        self.start()

    def start(self) -> None:
        """Starts it, or starts it again on the same port and store."""
        self._open = ExitStack()
        self._process: subprocess.Popen[bytes] = self._open.enter_context(server(self.home, self.port))

    def signal(self, number: int) -> None:
        """Sends a signal to the server and its workers."""
        os.killpg(self._process.pid, number)

    def kill(self) -> None:
        """Kills it as a machine would that loses its power."""
        self.signal(signal.SIGKILL)
        self._process.wait()

    def end(self) -> None:
        """Ends it for good."""
        self._open.close()


class LosesAnswers:
    """A proxy before a server: it passes every request on, and says 503 to each `every`-th that changes something.

    `lost`: how many answers it kept to itself, though the server had done what it was asked.
    """

    def __init__(self, server: str, every: int) -> None:
        self.lost = self._asked = 0
        proxy, lock = self, threading.Lock()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._pass()

            def do_POST(self) -> None:
                self._pass()

            do_PUT = do_PATCH = do_DELETE = do_POST  # noqa: N815 (the names that http.server calls)

            def _pass(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                answer = requests.request(self.command, server + self.path, data=body, headers=headers, timeout=30)
                code, text = answer.status_code, answer.content
                changes = self.command != "GET" and "search" not in self.path
                with lock:
                    proxy._asked += changes
                    if changes and proxy._asked % every == 0:
                        proxy.lost += 1
                        code, text = 503, b"{}"
                self.send_response(code)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def end(self) -> None:
        """Ends it."""
        self._http.shutdown()
        self._http.server_close()
