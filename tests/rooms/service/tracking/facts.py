"""A journal in memory, and what MLflow shows of it."""

from __future__ import annotations

import base64
import json
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

from search_spaces.space import Real, Space
from search_spaces.study import Edition, Halving, Search, Study, Trial
from service.storage.facts import Counts, Ended, Measured, Planned, Started
from service.storage.home import Home
from service.tracking.sync import MlflowSync, check
from trainables.encodings import Fourier
from trainables.recipe import Recipe, Run
from trainables.recipe.outcome import at_image_size
from trainables.recipe.revisions import code_of

EPOCHS = 3
BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": EPOCHS, "test_sizes": [48]})


@dataclass
class Facts:
    """A journal in memory, written in the order in which a driver would."""

    edition: Edition
    facts: list = field(default_factory=list)
    clock: count = field(default_factory=lambda: count(1_700_000_000))
    epoch_s: float | None = None

    def add(self, fact) -> None:
        self.facts.append(fact.model_copy(update={"time": next(self.clock) + 0.25}))

    def plan(self, number: int, role: str = "trial", **values) -> Trial:
        values = {path.replace("__", "."): value for path, value in values.items()}
        trial = self.edition.trial(number, values, role=role)
        self.add(Planned(role=role, number=number, name=trial.name, values=values))
        return trial

    def start(self, trial: Trial, seed: int, attempt: int = 1) -> dict:
        known = {"run": Run(recipe=trial.recipe, seed=seed).key, "code": code_of(trial.recipe).digest}
        self.add(Started(**known, attempt=attempt, seed=seed, label=trial.label))
        return known

    def measure(self, known: dict, *values: float) -> None:
        for epoch, value in enumerate(values, start=1):
            said = {"train/loss": 1 - value, "val/accuracy": value}
            tests = {"test/accuracy": value - 0.125, at_image_size("test/accuracy", 48): value - 0.25}
            said |= tests if epoch == EPOCHS else {}
            said |= {"time/epoch_s": self.epoch_s} if self.epoch_s else {}
            self.add(Measured(**known, epoch=epoch, values=said))

    def complete(self, trial: Trial, seed: int, final: float) -> None:
        known = self.start(trial, seed)
        self.measure(known, 0.25, 0.5, final)
        self.add(Ended(**known, outcome="completed", epoch=EPOCHS))


@cache
def search(seeds: int = 2, base: Recipe = BASE) -> Edition:
    """A search over gamma, made once: to make a study tries points of its space."""
    plan = Search(space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}), trials=4, stop=Halving())
    return Study(name="reach", question="How far?", base=base, plan=plan, seeds=seeds, family="thesis").at()


def finished(trials: int, seeds: int) -> Facts:
    """A search whose runs have all ended."""
    facts = Facts(search(seeds=seeds))
    facts.add(Counts(seeds=seeds, trials=trials))
    for number in range(trials):
        trial = facts.plan(number, encoding__gamma=0.5 + number)
        for seed in range(seeds):
            facts.complete(trial, seed, 0.5 + number / (2 * trials))
    return facts


def told(
    home: Home, facts: Facts, tracking: str | None = None, experiment: str | None = None, first: int | None = None
) -> MlflowSync:
    """What shows a study in MLflow, once it was told all facts, or the first ones."""
    home.study(facts.edition.id).root.mkdir(parents=True, exist_ok=True)
    shown = MlflowSync(facts.edition, home, tracking, experiment)
    shown.open()
    for fact in facts.facts[:first]:
        shown.add(fact)
    return shown


def show(
    home: Home,
    facts: Facts,
    ended: str = "FINISHED",
    report: Path | None = None,
    *,
    tracking: str | None = None,
    experiment: str | None = None,
) -> None:
    check(home, tracking)
    assert told(home, facts, tracking, experiment).close(ended, report) is None


def runs(home: Home, view: int = ViewType.ACTIVE_ONLY) -> dict:
    client = MlflowClient(home.tracking)
    found = client.search_runs([e.experiment_id for e in client.search_experiments()], "", view)
    by_name = {run.info.run_name: run for run in found}
    assert view != ViewType.ACTIVE_ONLY or len(by_name) == len(found), "no doubles"
    return by_name


def points(home: Home, run, metric: str) -> list[tuple[int, float]]:
    return [
        (point.step, point.value) for point in MlflowClient(home.tracking).get_metric_history(run.info.run_id, metric)
    ]


def unpacked(tag: str) -> dict[str, Any]:
    """Returns what a view's tag holds."""
    state = json.loads(tag)["state"]
    return json.loads(zlib.decompress(base64.b64decode(state.removeprefix("deflate;"))))


def tags_of(home: Home, experiment: str = "locus/reach") -> dict[str, str]:
    return dict(MlflowClient(home.tracking).get_experiment_by_name(experiment).tags)


def packed(state: dict[str, Any]) -> str:
    """Returns what a view's tag holds of a state."""
    return f"deflate;{base64.b64encode(zlib.compress(json.dumps(state).encode())).decode()}"


def everything(home: Home) -> dict:
    return {
        run.info.run_id: (
            run.info.status,
            run.data.params,
            run.data.tags,
            {m: points(home, run, m) for m in run.data.metrics},
        )
        for run in runs(home).values()
    }


@contextmanager
def answering(answer: Callable[[BaseHTTPRequestHandler], tuple[int, bytes, str]]) -> Iterator[str]:
    """A server; its address. `answer`: the code, the content and its type that answer a request."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            code, content, kind = answer(self)
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            with suppress(ConnectionError):  # a client that was ended meanwhile
                self.end_headers()
                self.wfile.write(content)

        do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815 (the names that http.server calls)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()
