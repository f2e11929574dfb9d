"""What a person sees while a study runs: a live table in a terminal or a notebook, lines elsewhere."""

from __future__ import annotations

import threading
import time
from contextlib import AbstractContextManager
from typing import Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from search_spaces.study import Edition, Search
from service.analysis.trial_summary import TrialSummary, summarize
from service.planning.estimate import clock
from service.planning.time_left import Amount, amount, time_left
from service.storage.history import History
from service.storage.journal import Ended, Fact, FailedWith, Measured, Started, StoppedAt
from service.terminal.event_lines import EventLines
from service.terminal.notebook import HEIGHT, WIDTH, NotebookLive
from service.terminal.output import sentence, title
from service.terminal.trials_table import table

REDRAWS = 2
"""How often a second the screen is drawn again; the clock goes on between two facts."""
SUMMARY_S = 0.5
"""Seconds for which a summary of the trials is used again: one of 200 trials takes 0.1 s to make."""
QUIET_S = 5.0
"""Seconds between two lines about an epoch, where the output is no terminal."""
AROUND = 5
"""Lines of the screen that are not of the table: title, bar, and what stands above."""
FEWEST = 3
"""Rows that are shown on any screen."""

Detail = Literal["quiet", "usual", "all"]


class Progress:
    """Shows a study while it runs. `add` every fact; `note` prints one line.

    `detail`: `quiet` shows the plan and the end; `usual` a table, or a line for every run that ends and an epoch now
    and then; `all` a line for every event.
    """

    def __init__(self, edition: Edition, console: Console | None = None, detail: Detail = "usual") -> None:
        self.edition = edition
        self.in_notebook = console is None and Console().is_jupyter
        width, height = (WIDTH, HEIGHT) if self.in_notebook else (None, None)
        self.console = console or Console(highlight=False, force_jupyter=False, width=width, height=height)
        self.detail = detail
        self.live: Live | NotebookLive | None = None
        self._history: History | None = None
        self._lock: AbstractContextManager[object] = threading.RLock()
        self._max_concurrent = 1
        self._epoch_s: float | None = None
        self._begun = self._said = time.monotonic()
        self._summary: tuple[float, list[TrialSummary]] = (0.0, [])

    def note(self, line: str) -> None:
        """Prints one line, above the table where there is one."""
        sentence(self.console, line)

    def begin(
        self,
        history: History,
        lock: AbstractContextManager[object],
        max_concurrent: int,
        epoch_s: float | None = None,
    ) -> None:
        """Starts to show. `lock` is held while the history changes; `epoch_s`: an epoch's time in earlier studies."""
        self._history, self._lock = history, lock
        self._max_concurrent, self._epoch_s = max_concurrent, epoch_s
        self._lines = EventLines(history)
        self._begun = self._said = time.monotonic()
        if self.console.is_terminal and self.detail == "usual":
            self.live = Live(get_renderable=self._view, console=self.console, refresh_per_second=REDRAWS)
            self.live.start()
        elif self.in_notebook and self.detail == "usual":
            self.live = NotebookLive(self._view)
            self.live.start()

    def add(self, fact: Fact) -> None:
        """Shows a fact, where no live screen does."""
        if self._history is None or self.live is not None or self.detail == "quiet":
            return
        now = time.monotonic()
        if self.detail == "usual" and (
            isinstance(fact, Started) or (isinstance(fact, Measured) and now - self._said < QUIET_S)
        ):
            return
        line = self._lines(fact)
        if line:
            ended = isinstance(fact, Ended | StoppedAt | FailedWith)
            left = f"  ({self._amounts(amount(self._history))}{self._left()})" if ended else ""
            self.note(f"{clock(now - self._begun)}  {line}{left}")
            self._said = now

    def end(self) -> None:
        """Leaves the last view on the screen."""
        if self.live is not None:
            self._summary = (0.0, [])
            self.live.stop()
            self.live = None

    def _view(self) -> RenderableType:
        assert self._history is not None
        with self._lock:
            head = title(self.edition.id, self.edition.study.question)
            return Group(head, self._table(), self._bar())

    def _table(self) -> RenderableType:
        """As many rows as the screen has place for; a long name takes several lines."""
        place = max(self.console.height - AROUND, FEWEST)
        rows = place
        while True:
            found = table(self._trials(), self.edition, rows)
            over = len(self.console.render_lines(found, pad=False)) - place
            if over <= 0 or rows <= FEWEST:
                return found
            rows = max(rows - max(over // 3, 1), FEWEST)

    def _trials(self) -> list[TrialSummary]:
        assert self._history is not None
        made, found = self._summary
        if time.monotonic() - made > SUMMARY_S:
            self._summary = (time.monotonic(), found := summarize(self._history))
        return found

    def _bar(self) -> RenderableType:
        assert self._history is not None
        counted = amount(self._history)
        gone = clock(time.monotonic() - self._begun)
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_row(
            ProgressBar(total=max(counted.total, 1), completed=counted.done, width=20),
            f"{self._amounts(counted)}  {gone} gone{self._left()}",
        )
        return grid

    def _amounts(self, counted: Amount) -> str:
        """`3 of at most 20 runs`: a search need not train all that it may."""
        at_most = isinstance(self.edition.study.plan, Search) and counted.done < counted.total
        return f"{counted.done} of {'at most ' if at_most else ''}{counted.total} runs"

    def _left(self) -> str:
        assert self._history is not None
        left = time_left(self._history, self._max_concurrent, self._epoch_s)
        return f", about {clock(left)} left" if left else ""
