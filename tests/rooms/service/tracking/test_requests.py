"""How many requests a study costs at an MLflow server, counted by a proxy before a real one."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace

import pytest
import requests

from service.storage.facts import Counts
from service.storage.home import Home
from service.tracking import set_up_client, sync
from service.tracking.server import server
from service.tracking.store import look_up
from service.tracking.sync import MlflowSync
from tests.ports import held_port
from tests.rooms.service.tracking.facts import Facts, search, show

ROW = ("runs/create", "runs/log-batch", "runs/update")
"""The three calls that make a row. MLflow has no call for several rows, and none of these does another one's work."""
ONCE = 40
"""The most calls that a study makes besides: to look, and to describe the experiment."""


@contextmanager
def counting(address: str) -> Iterator[tuple[str, Counter[str]]]:
    """A proxy that passes on all that it is asked; its address, and how often each path was asked for."""
    asked: Counter[str] = Counter()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            headers = {name: text for name, text in self.headers.items() if name.lower() != "host"}
            answer = requests.request(self.command, address + self.path, data=body, headers=headers, timeout=60)
            asked[self.path.partition("?")[0].rpartition("mlflow/")[2]] += 1
            self.send_response(answer.status_code)
            self.send_header("Content-Type", answer.headers.get("Content-Type", ""))
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 (the names that http.server calls)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as proxy:
        thread = threading.Thread(target=proxy.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{proxy.server_address[1]}", asked
        proxy.shutdown()
        thread.join()


def finished(trials: int, seeds: int) -> Facts:
    """A study whose runs have all ended."""
    facts = Facts(search(seeds=seeds))
    facts.add(Counts(seeds=seeds, trials=trials))
    for number in range(trials):
        trial = facts.plan(number, encoding__gamma=0.5 + number)
        for seed in range(seeds):
            facts.complete(trial, seed, 0.5 + number / (2 * trials))
    return facts


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_row_costs_three_requests(home: Home, tmp_path_factory) -> None:
    set_up_client()
    facts = finished(trials=4, seeds=3)
    mine = Home(tmp_path_factory.mktemp("mine"))
    with held_port() as port, server(home, port), counting(f"http://127.0.0.1:{port}") as (address, asked):
        show(mine, facts, tracking=address)
        rows = len(look_up(mine, facts.edition, address).shown)
    assert rows == 1 + 4 + 12
    assert asked["runs/create"] == rows
    assert asked["runs/update"] == rows
    assert rows <= asked["runs/log-batch"] <= rows + 1, "the study's own row may grow"
    besides = {path: times for path, times in asked.items() if path not in ROW}
    assert sum(besides.values()) < ONCE, besides


def test_the_end_waits_as_long_as_rows_are_stored_and_says_how_far_it_is(home: Home, monkeypatch) -> None:
    facts = finished(trials=4, seeds=2)
    shown = MlflowSync(facts.edition, home, lambda recipe: facts.code)
    clock = SimpleNamespace(monotonic=lambda: 50.0 * shown._written, sleep=time.sleep)  # a call takes 50 s
    monkeypatch.setattr(sync, "MOST_ROWS", 2)
    monkeypatch.setattr(sync, "time", clock)
    monkeypatch.setattr(sync, "TICK_S", 0.001)
    shown.open()
    for fact in facts.facts:
        shown.add(fact)
    said: list[str] = []
    assert shown.close("FINISHED", note=said.append) is None
    assert clock.monotonic() > 3 * sync.CLOSE_S
    assert len(look_up(home, facts.edition).shown) == 13
    assert any("of 13 rows are there" in line for line in said), said
