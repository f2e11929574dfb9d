"""Copies a study's journal to MLflow in a background thread: it may lag, and it never blocks the training.

The driver passes every fact that it writes to the thread. The thread adds the facts to a history of its own, and sends
to MLflow what it lacks of that history; so a fact may be passed again at any time. An error of MLflow never stops the
study: the thread tries again, and `close` reports the last error. Before a command trains, `check` calls MLflow once,
because a server that only shows a page may be no MLflow.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from json import JSONDecodeError
from pathlib import Path

from filelock import FileLock
from mlflow.exceptions import MlflowException
from mlflow.tracking._tracking_service.utils import get_default_host_creds
from mlflow.utils.rest_utils import http_request
from requests import RequestException

from search_spaces.study import Edition
from service.analysis.best import find_best
from service.storage.facts import Ended, Fact, FailedWith, Measured, Opened, Started, StoppedAt
from service.storage.history import History
from service.storage.home import Home, experiment_name, without_secrets
from service.tracking.databases import MlflowError, check_file, lasting
from service.tracking.rows import NO_CONCLUSION, STUDY, Conclusion, MlflowStatus, Row, TrialContent, rows, study_row
from service.tracking.store import Store, experiment_of, make_database
from service.tracking.views import Links, describe, leave, links
from trainables.recipe import Run
from trainables.whole_files import write_whole

ANSWER_S = 5
"""The seconds that a server may take to answer."""
PAUSE_S, LIVE_S = 0.5, 30.0
"""The seconds for which facts are collected before they are sent together; the seconds from one sending of the numbers
of a study, or of a run that is not finished, to the next."""
MOST_ROWS = 100
"""The most rows that are sent together."""
CLOSE_S = 60.0
"""The seconds that the end of a study waits for MLflow to store one more row: another driver may have locked it."""
AGAIN_S = 0.5
"""The seconds before the second try; before each later try the pause is twice as long as the one before."""
SOON_S, TICK_S, LAST_S = 3.0, 0.2, 5.0
"""The seconds after which the user is told about the wait, those between two looks at its progress, and those that the
last try may take in addition."""


def trouble(tracking: str) -> str:
    """Returns what is wrong with a server, in words that follow its address; empty if it answers as MLflow does."""
    try:
        answer = http_request(
            get_default_host_creds(tracking), "/api/2.0/mlflow/experiments/search", "GET", max_retries=0,
            timeout=ANSWER_S, raise_on_status=False, params={"max_results": 1},
        )  # fmt: skip
    except (MlflowException, RequestException):
        return f"does not answer ({ANSWER_S} s)"
    if answer.status_code == 401:
        return "asks who you are (error 401); set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    if not answer.ok:
        text = answer.text.strip()
        is_sentence = text.isprintable() and not text.startswith(("<", "{"))  # a page has none
        return f"answers with the error {answer.status_code}" + (f" ({text[:120]})" if is_sentence and text else "")
    try:
        is_mlflow = isinstance(answer.json(), dict)
    except (JSONDecodeError, RequestException):
        is_mlflow = False
    return "" if is_mlflow else "answers with a page, which is no MLflow (a login?)"


@dataclass(frozen=True)
class _Close:
    """The last item of the thread's queue: it asks for the study's end to be sent."""

    ended: MlflowStatus
    report: Path | None
    conclusion: Conclusion


def served(tracking: str | None) -> bool:
    """Returns True if an address names a server, not a database."""
    return (tracking or "").startswith(("http://", "https://"))


def check(home: Home, tracking: str | None) -> None:
    """Checks, before any run is trained, that MLflow can be used. It writes nothing.

    Raises: MlflowError if a server does not answer as MLflow does, a database is broken, or the address names
    nothing that MLflow can use.
    """
    if tracking is None:
        check_file(home.tracking)
        return
    schemes = ("http", "https", "sqlite", "postgresql", "mysql", "mssql")
    if tracking.partition(":")[0].partition("+")[0] not in schemes:
        must = f"begin with one of {', '.join(f'{scheme}:' for scheme in schemes)}"
        raise MlflowError(f"MLFLOW_TRACKING_URI must {must}, got {without_secrets(tracking)!r}")
    if served(tracking) and (why := trouble(tracking)):
        default = str(home.database).replace(str(Path.home()), "~", 1)
        do = "start it" if "does not answer" in why else "correct its address"
        raise MlflowError(
            f"MLflow at {without_secrets(tracking)} {why}; {do}, or unset MLFLOW_TRACKING_URI to use {default}"
        )
    check_file(tracking)


class MlflowSync:
    """Shows one study in MLflow while it runs: call `open`, `add` with every fact of its journal, then `close`.

    `experiment` is the name of the experiment; without it, $MLFLOW_EXPERIMENT_NAME, else the one used before.
    """

    def __init__(
        self,
        edition: Edition,
        home: Home,
        tracking: str | None = None,
        experiment: str | None = None,
    ) -> None:
        self.edition, self.home, self.tracking = edition, home, tracking
        self.experiment = experiment_name(experiment)
        self._queue: queue.SimpleQueue[Fact | _Close | None] = queue.SimpleQueue()  # None: send nothing more
        self._thread = threading.Thread(target=self._work, name="mlflow", daemon=True)
        self._made = threading.Event()
        self._store: Store | None = None
        self._trouble: BaseException | None = None
        self._far = (0, 0)
        self._count = 0

    def open(self) -> None:
        """Starts the thread. Then call `add` with the facts written so far, and with each later one."""
        self._thread.start()

    def add(self, fact: Fact) -> None:
        """Passes a fact to the thread, without waiting."""
        self._queue.put(fact)

    def close(
        self,
        ended: MlflowStatus,
        report: Path | None = None,
        conclusion: Conclusion = NO_CONCLUSION,
        note: Callable[[str], None] = lambda line: None,
    ) -> str | None:
        """Sends the remaining news, ends the study's runs in MLflow, and stores the report.

        It returns a warning if MLflow lacks something, else None. If this takes long, `note` is called with progress.
        """
        self._queue.put(_Close(ended, report, conclusion))
        seen, until, say = -1, 0.0, time.monotonic() + min(SOON_S, CLOSE_S)
        while self._thread.is_alive():  # as long as MLflow goes on to store rows
            now = time.monotonic()
            if seen != self._written:
                seen, until = self._written, now + CLOSE_S + LAST_S
            if now > until:
                return f"MLflow stored nothing more for {CLOSE_S:.0f} s; run the study again to send the rest"
            if now > say:
                why = f" ({_line(self._trouble)})" if self._trouble else ""
                done, total = self._far
                far = f": {done:,} of {total:,} rows are there" if total else ""
                note(f"waiting for MLflow{why}, for at most {CLOSE_S:.0f} s without a further row{far}")
                say = now + 15.0
            self._thread.join(TICK_S)
        if self._trouble is None:
            return None
        if broken := self._broken():
            return f"MLflow lacks a part: {broken}"
        return f"MLflow lacks a part ({_line(self._trouble)}); run the study again to send the rest"

    @property
    def _written(self) -> int:
        return self._count + (self._store.written if self._store else 0)

    def _broken(self) -> MlflowError | None:
        """Returns the error after which no further try helps; None if there is none."""
        shown = self.tracking or f"sqlite:///{self.home.database}"
        return lasting(self._trouble, shown) if self._trouble else None

    def leave(self) -> None:
        """Ends the thread and changes nothing in MLflow, because another driver goes on with the study."""
        self._queue.put(None)
        self._thread.join(SOON_S)

    def links(self, wait_s: float = ANSWER_S) -> Links | None:
        """Returns the study's addresses on its server; None without a server, or without the study after `wait_s` s."""
        if self.tracking is None or not served(self.tracking) or not self._made.wait(wait_s):
            return None
        store = self._store  # None after trouble, until MLflow is found again
        return links(store, self.tracking) if store else None

    @property
    def parent_url(self) -> str | None:
        """The address of the study's own MLflow run; None without a server."""
        addresses = self.links()
        return addresses.parent if addresses else None

    def _work(self) -> None:
        """Collects facts and sends them, in the thread, until `close` or `leave`. It tries again what failed."""
        try:
            state = SyncState(History(self.edition))
            while True:
                item = self._queue.get()
                until = time.monotonic() + PAUSE_S
                while item is not None and not isinstance(item, _Close):
                    state.add(item)
                    try:
                        item = self._queue.get(timeout=max(0.0, until - time.monotonic()))
                    except queue.Empty:
                        break
                if item is None:
                    return
                close = item if isinstance(item, _Close) else None
                seen, until, pause = self._written, time.monotonic() + CLOSE_S, AGAIN_S
                while not self._send(state, close) and close is not None and not self._broken():
                    if seen != self._written:
                        seen, until, pause = self._written, time.monotonic() + CLOSE_S, AGAIN_S
                    if time.monotonic() > until:
                        break
                    time.sleep(pause)
                    pause = min(2 * pause, ANSWER_S)
                if close is not None:
                    return
        except BaseException as error:  # else the study's end would be told that all is stored
            self._trouble = error

    def _send(self, state: SyncState, close: _Close | None) -> bool:
        """Sends the rows with news, and at the end (`close`) the report; returns whether MLflow stored them.

        If it did not, the error is kept, and the next try first reads which rows MLflow has.
        """
        try:
            if self._trouble is not None and served(self.tracking) and (why := trouble(self.tracking or "")):
                raise MlflowException(f"it {why}")  # else MLflow would try for minutes
            store, ended = self._store or self._open_store(state), close.ended if close else "RUNNING"
            news = state.rows(ended)
            for first in range(0, len(news), MOST_ROWS):
                self._far = first, len(news)
                store.put(news[first : first + MOST_ROWS])
            self._made.set()
            if close is not None:
                trials = state.history.trials
                runs = {("run", trial.label, seed) for trial in trials for seed in state.history.runs(trial)}
                store.remove_others({STUDY, *(("trial", trial.label, None) for trial in trials), *runs})
                describe(store, self.edition, state.began)  # once more, for now all metrics are known
                store.send_files(trials, close.report)
                # last, for until then what lacks is behind
                store.put([study_row(state.history, ended, close.conclusion)])
        except Exception as error:
            self._trouble, self._count, self._store = error, self._written, None
            state.study_at = None  # then every row is looked at again
            return False
        self._trouble = None
        return True

    def _open_store(self, state: SyncState) -> Store:
        os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")  # it prints a line for each run
        for name in ("mlflow.store", "alembic"):  # their errors reach us as exceptions
            logging.getLogger(name).setLevel(logging.CRITICAL)
        self.home.root.mkdir(parents=True, exist_ok=True)
        with FileLock(self.home.root / "mlflow.lock"):  # two drivers may both try to create the database
            if self.tracking is None:
                make_database(self.home)
            uri, id = self.tracking or self.home.tracking, self.edition.id
            before = experiment_of(self.home, self.edition)
            check_file(uri)
            store = Store(uri, self.home.named(), id, self.experiment or before)
            store.make(None if served(self.tracking) else self.home.artifacts, is_own=self.tracking is None)
            if before != store.name and (old := Store(uri, store.home, id, before)).find():
                old.delete(None)
                leave(old)
        describe(store, self.edition, state.began)
        folder = self.home.study(id)
        if folder.root.is_dir():
            write_whole(folder.experiment, store.name)
        self._store = store
        return store


class SyncState:
    """The facts that the thread has seen, as a history, and the runs that have news (facts not sent yet).

    `began` is the time of the first fact, in seconds since 1970, and 0 before. `study_at` is the time at which the
    study's own row was sent last, in seconds of `time.monotonic`; None asks for every row.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self.began = 0.0
        self.study_at: float | None = None
        self._news: dict[tuple[str, str], float] = {}
        self._marked: set[str] = set()
        self._contents: dict[str, TrialContent] = {}

    def add(self, fact: Fact) -> None:
        """Adds one fact to the history, and notes that its run has news."""
        if isinstance(fact, Opened):
            return
        self.began = self.began or fact.time
        self.history.add(fact)
        if isinstance(fact, Started | Measured | StoppedAt | FailedWith | Ended):
            self._news.setdefault((fact.run, fact.code), time.monotonic())

    def rows(self, ended: MlflowStatus) -> list[Row]:
        """Returns the rows with news, parents first; all rows the first time, and when the study has `ended`.

        A run that is not finished has news every `LIVE_S` seconds, so a shorter run costs three requests.
        """
        history, now = self.history, time.monotonic()
        is_whole = ended != "RUNNING" or self.study_at is None
        due = {
            run
            for run, since in self._news.items()
            if now - since >= LIVE_S or run not in history.states or history.states[run].status != "running"
        }
        if not is_whole and not due:
            return []
        best = find_best(history)
        marked = {trial.label for trial in best.trials}

        def is_news(run: Run) -> bool:
            return is_whole or (run.key, history.code(run)) in due

        study, *others = rows(history, ended, best, self._contents, is_news, marked ^ self._marked)
        self._marked = marked
        self._news = {} if is_whole else {run: since for run, since in self._news.items() if run not in due}
        if not is_whole and now - (self.study_at or 0.0) < LIVE_S:
            return others
        self.study_at = now
        return [replace(study, status="RUNNING"), *others]


def _line(error: BaseException) -> str:
    """Returns the first line of an error's text, without secrets."""
    text = without_secrets(str(error).partition("\n")[0])[:200]
    return text if isinstance(error, MlflowException) else f"{type(error).__name__}: {text}"
