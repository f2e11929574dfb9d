"""A proxy before a server, which passes requests on, and lets tests act at one of them."""

from __future__ import annotations

from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler

import requests

from tests.rooms.service.tracking.facts import answering
from tests.waiting import LIMIT_S


class Proxy:
    """Passes every request on to a server. `address`: its own, on loopback."""

    def __init__(self, server: str) -> None:
        self._server, self._open = server, ExitStack()
        self.address = self._open.enter_context(answering(self._answer))

    def _answer(self, request: BaseHTTPRequestHandler) -> tuple[int, bytes, str]:
        method, path = request.command, request.path
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        headers = {name: value for name, value in request.headers.items() if name.lower() != "host"}
        self.hears(method, path)
        answer = requests.request(method, self._server + path, data=body, headers=headers, timeout=LIMIT_S)
        code, content = (503, b"{}") if self.loses(method, path) else (answer.status_code, answer.content)
        return code, content, answer.headers.get("Content-Type", "application/json")

    def hears(self, method: str, path: str) -> None:
        """Is called before a request is passed on."""

    def loses(self, method: str, path: str) -> bool:
        """Whether the answer of a request that was passed on is not given back."""
        return False

    def end(self) -> None:
        """Ends it."""
        self._open.close()
