"""A proxy before a server, which passes requests on, and lets tests act at one of them."""

from __future__ import annotations

import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import requests

from tests.waiting import LIMIT_S


class Proxy:
    """Passes every request on to a server. `address`: its own, on loopback."""

    def __init__(self, server: str) -> None:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name: value for name, value in self.headers.items() if name.lower() != "host"}
                proxy.hears(self.command, self.path)
                answer = requests.request(self.command, server + self.path, data=body, headers=headers, timeout=LIMIT_S)
                lost = proxy.loses(self.command, self.path)
                code, text = (503, b"{}") if lost else (answer.status_code, answer.content)
                self.send_response(code)
                self.send_header("Content-Type", answer.headers.get("Content-Type", "application/json"))
                self.send_header("Content-Length", str(len(text)))
                with suppress(ConnectionError):  # a client that was ended meanwhile
                    self.end_headers()
                    self.wfile.write(text)

            do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 (the names that http.server calls)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._http.server_address[1]}"
        threading.Thread(target=self._http.serve_forever, daemon=True).start()

    def hears(self, method: str, path: str) -> None:
        """Is called before a request is passed on."""

    def loses(self, method: str, path: str) -> bool:
        """Whether the answer of a request that was passed on is not given back."""
        return False

    def end(self) -> None:
        """Ends it."""
        self._http.shutdown()
        self._http.server_close()
