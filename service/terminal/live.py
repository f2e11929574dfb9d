"""Shows a study while it runs: as a live table in a terminal or a notebook, as lines elsewhere. Lists its events."""

from __future__ import annotations

import io
import logging
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, suppress
from importlib import import_module
from typing import Any, Literal

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.segment import SegmentLines
from rich.table import Table

from search_spaces.roles import LETTERS
from search_spaces.study import Edition, Trial
from search_spaces.words import clock
from service.analysis.findings import Finding, finding
from service.analysis.format import left_out_words, stopped_words
from service.analysis.study_status import left_words, together
from service.analysis.trial_result import Summaries
from service.planning.forecast import Forecast, Left
from service.storage import editions
from service.storage.facts import (
    Confirms,
    Ended,
    Fact,
    FailedWith,
    Measured,
    Planned,
    Started,
    StoppedAt,
    Tuned,
)
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import Place, read_on
from service.terminal.output import Paper, sentence, title
from service.terminal.views import trials_table
from trainables.spec import SpecError


class EventLines:
    """Writes facts of a journal as lines: a call returns the line of a fact, or None for a fact that needs no line."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._owners: dict[str, tuple[Trial, int]] = {}
        self._counts = 0, 0  # of trials and of invalidations when the owners were listed

    def __call__(self, fact: Fact) -> str | None:
        """Returns the line that tells a person what a fact says; None for a fact that needs no line."""
        event: object = None
        match fact:
            case Measured() | StoppedAt() | FailedWith() | Ended():
                event = self._of_run(fact)
            case Planned(role="trial" | "rival" as role, number=number, name=name):
                event = finding("event.planned", label=f"{LETTERS[role]}{number}", name=name)
            case Planned(role="tuning"):
                trial = self.history.of("tuning")[-1]
                event = finding("event.planned", label=trial.label, name=trial.name)
            case Tuned(arm=arm):
                chosen = self.history.tuning.chosen_trial(arm)
                tuned = finding("event.tuned", label=chosen.label, name=chosen.name) if chosen else None
                event = tuned or finding("event.not tuned", arm=arm)
            case Confirms(numbers=numbers, rivals=rivals):
                labels = [*(f"#{number}" for number in numbers), *(f"#r{number}" for number in rivals)]
                event = finding("event.confirms", labels=labels)
            case Started(label=label, seed=seed, attempt=attempt):
                event = finding("event.started", label=label, seed=seed, attempt=attempt if attempt > 1 else None)
        return None if event is None else str(event)

    def _of_run(self, fact: Measured | StoppedAt | FailedWith | Ended) -> Finding:
        """Returns what a fact says of a run, with the run's trial and seed if the study still has that run."""
        counts = len(self.history.trials), self.history.invalidations
        if fact.run not in self._owners and counts != self._counts:
            self._counts = counts
            for trial in self.history.trials:
                for seed, run in self.history.runs(trial).items():
                    self._owners.setdefault(run.key, (trial, seed))
        if fact.run not in self._owners:
            return finding("event.of another run", run=fact.run, fact=fact.fact)
        trial, seed = self._owners[fact.run]
        event: object
        match fact:
            case Measured(epoch=epoch, values=values):
                metric, epochs = trial.score.metric, trial.recipe.optimizer.trained_epochs
                value = f"{values[metric]:.4f}" if metric in values else None
                event = finding("event.measured", epoch=epoch, epochs=epochs, metric=metric, value=value)
            case StoppedAt(epoch=0, cutoff=cutoff):
                event = left_out_words(cutoff)
            case StoppedAt(epoch=epoch, cutoff=cutoff):
                event = stopped_words(epoch, cutoff)
            case FailedWith(reason=reason):
                event = finding("event.failed", reason=reason)
            case Ended(outcome=outcome, reused=reused):
                event = finding("event.reused", outcome=outcome) if reused else outcome
        return finding("event.of a run", trial=trial.label, seed=seed, event=event)


POLL_S = 0.5
"""Seconds between two looks at a journal that grows."""


def events(home: Home, id: str, *, run: str | None = None, follow: bool = False) -> Iterator[str]:
    """Yields a line for each event of a study so far; with `follow`, also for new ones until no driver runs the study.

    `run` selects one run, by its key (or the key's beginning), or by its row and seed, such as 3.0. None means all.
    Raises: SpecError if no run has that name.
    """
    folder = home.study(id)
    history = History(editions.stored(home, id))
    lines, position, matched = EventLines(history), Place(), run is None
    label, _, seed = (run or "").partition(".")
    trial: Trial | None = None
    for _ in looks(folder) if follow else (False,):
        facts, position = read_on(folder.journal, position)
        for fact in facts:
            history.add(fact)
            if isinstance(fact, Planned) and seed.isdigit() and history.trials[-1].label == label:
                trial = history.trials[-1]
            of_seed = history.runs(trial).get(int(seed)) if trial else None
            line, key = lines(fact), getattr(fact, "run", None)
            matches = run is None or (key and (key.startswith(run) or (of_seed is not None and key == of_seed.key)))
            if line is not None and matches:
                matched = True
                yield f"{time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(fact.time))}  {line}"
    if not matched:
        raise SpecError(f"--run must be the key of a run of {id}, or its row and seed such as 0.1, got {run!r}")


def looks(folder: StudyFolder, pause: Callable[[float], object] = time.sleep) -> Iterator[bool]:
    """Yields, every `POLL_S` seconds, whether a driver runs the study. The first False is the last value."""
    while alive := folder.driven:
        yield True
        pause(POLL_S)
    yield alive


def news(folder: StudyFolder, every_s: float, pause: Callable[[float], object] = time.sleep) -> Iterator[bool]:
    """Yields whether a driver runs the study, each time that a report must be written.

    That is at first, then every `every_s` seconds if the journal has new facts, and when no driver runs it any more.
    """
    position, turns = Place(), max(1, round(every_s / POLL_S))
    for turn, alive in enumerate(looks(folder, pause)):
        if alive and turn % turns:
            continue
        facts, position = read_on(folder.journal, position)
        if facts or not turn or not alive:
            yield alive


WIDTH, HEIGHT = 110, 60
"""The columns and the lines of the view in a notebook, in characters."""
REDRAW_S = 1.0
"""Seconds between two drawings of the view in a notebook."""
FORMAT = '<pre style="white-space:pre;overflow-x:auto;line-height:normal">{code}</pre>'


def without_widgets() -> None:
    """Silences the warning in a notebook's cell that ipywidgets are missing, which locus does not use.

    Ray prints it when it is imported, and so does tqdm, which Ray and MLflow import.
    """
    logging.getLogger("ray.widgets.util").setLevel(logging.WARNING)
    with warnings.catch_warnings(), suppress(ModuleNotFoundError):
        warnings.simplefilter("ignore")
        import_module("tqdm.auto")


class NotebookLive:
    """Draws a view again and again in the output of a notebook's cell, with `start` and `stop` as rich's Live has."""

    def __init__(self, view: Callable[[], RenderableType]) -> None:
        self._view = view
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._redraw, name="locus-notebook", daemon=True)
        self._handle: Any = None

    def start(self) -> None:
        """Shows the view below what the cell has printed."""
        from IPython.display import HTML, display

        self._handle = display(HTML(self._drawn()), display_id=True)
        self._thread.start()

    def stop(self) -> None:
        """Leaves the last view in the cell."""
        self._ended.set()
        self._thread.join()
        self._update()

    def _redraw(self) -> None:
        while not self._ended.wait(REDRAW_S):
            self._update()

    def _update(self) -> None:
        from IPython.display import HTML

        self._handle.update(HTML(self._drawn()))

    def _drawn(self) -> str:
        """Returns the view as HTML."""
        paper = Paper(file=io.StringIO(), record=True, width=WIDTH, height=HEIGHT, force_jupyter=False, highlight=False)
        paper.print(self._view())
        return paper.export_html(inline_styles=True, code_format=FORMAT)


REDRAWS = 2
"""How many times a second the screen is drawn, so that its clock goes on between two facts."""
QUIET_S = 5.0
"""The fewest seconds between two lines about epochs, where the output is no terminal."""
AROUND = 5
"""The number of lines of the screen that the table cannot use: the title, the bar, and the lines above."""
FEWEST = 3
"""The number of rows of the table that are shown even on the smallest screen."""

Detail = Literal["quiet", "usual", "all"]


class Progress:
    """Shows a study while it runs. Its driver calls `add` with every fact; `note` prints one line.

    `detail` says how much is shown: `quiet` shows the plan and the end; `usual` a table, or a line for every run that
    ends and for an epoch now and then; `all` a line for every event.
    """

    def __init__(
        self,
        edition: Edition,
        console: Console | None = None,
        detail: Detail = "usual",
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.edition, self._now = edition, now
        self.in_notebook = console is None and Console().is_jupyter
        width, height = (WIDTH, HEIGHT) if self.in_notebook else (None, None)
        terminal = False if self.in_notebook else None  # a kernel says that it has colors, which rich takes for one
        self.console = console or Paper(
            highlight=False, force_jupyter=False, force_terminal=terminal, width=width, height=height
        )
        self.detail = detail
        self.live: Live | NotebookLive | None = None
        self._history: History | None = None
        self._lock: AbstractContextManager[object] = threading.RLock()
        self._ended = False
        self._begun = self._said = now()
        self._news = 0
        self._drawn: tuple[object, SegmentLines] | None = None
        self._rows: int | None = None
        self._busy: tuple[str, float] | None = None

    def note(self, line: str) -> None:
        """Prints one line, above the table where there is one."""
        sentence(self.console, line)

    def begin(self, history: History, lock: AbstractContextManager[object]) -> None:
        """Starts to show the study. Whoever changes the history holds `lock`."""
        self._history, self._lock, self._ended = history, lock, False
        self._lines, self._summaries = EventLines(history), Summaries(history)
        self._forecast = Forecast(history)
        self._begun = self._said = self._now()
        if self.console.is_terminal and self.detail == "usual":
            self.live = Live(get_renderable=self._view, console=self.console, refresh_per_second=REDRAWS)
            self.live.start()
        elif self.in_notebook and self.detail == "usual":
            self.live = NotebookLive(self._view)
            self.live.start()

    def add(self, fact: Fact) -> None:
        """Shows a fact: prints its line, or leaves it to the next drawing of a live screen."""
        self._news += 1
        if self._history is None or self.live is not None or self.detail == "quiet":
            return
        now = self._now()
        if self.detail == "usual" and (
            isinstance(fact, Started) or (isinstance(fact, Measured) and now - self._said < QUIET_S)
        ):
            return
        line = self._lines(fact)
        if line:
            reused = isinstance(fact, Ended) and fact.reused  # many come at once, and none took time
            ended = isinstance(fact, Ended | StoppedAt | FailedWith) and not reused
            left = f"  ({left_words(self._left(), self.edition.study.plan)})" if ended else ""
            self.note(f"{clock(now - self._begun)}  {line}{left}")
            self._said = now

    def busy(self, words: str) -> None:
        """Shows `words`, the present task, on a live screen with the time that it takes, until `words` is empty."""
        self._busy = (words, self._now()) if words else None

    def end(self) -> None:
        """Ends the live screen, and leaves its last view there, in which no run is under way."""
        if self.live is not None:
            self._ended = True
            self.live.stop()
            self.live = None

    def _view(self) -> RenderableType:
        """Returns the title, the table of trials and the bar.

        The table is drawn again only after a new fact, at the end, or on a screen of another size. It has as many rows
        as fit the screen, where a long name takes several lines; the number of the last drawing is tried first.
        """
        assert self._history is not None
        with self._lock:
            now = self._news, self._ended, self.console.size
            if self._drawn is None or self._drawn[0] != now:
                trials, height = self._summaries(alive=not self._ended), max(self.console.height - AROUND, FEWEST)
                rows = min(self._rows or height, height)
                while True:
                    lines = self.console.render_lines(trials_table(trials, self.edition, rows), pad=False)
                    over = len(lines) - height
                    if over <= 0 or rows <= FEWEST:
                        break
                    rows = max(rows - max(round(over * rows / len(lines)), 1), FEWEST)
                self._rows = max(rows - over, FEWEST)
                self._drawn = now, SegmentLines(lines, new_lines=True)
            return Group(title(self.edition.id, self.edition.study.question), self._drawn[1], self._bar())

    def _bar(self) -> RenderableType:
        """Returns the bar of runs that have ended, with the time left, or with the present task and its time."""
        left = self._left()
        text = left_words(left, self.edition.study.plan, f"  {clock(self._now() - self._begun)} gone")
        if (busy := self._busy) is not None:
            text = f"{busy[0]}, {clock(self._now() - busy[1])}"
        grid = Table.grid(padding=(0, 2))
        grid.add_column(no_wrap=True)
        grid.add_row(ProgressBar(total=max(left.total, 1), completed=left.done, width=20), text)
        return grid

    def _left(self) -> Left:
        """Returns how many runs have ended, how many there will be at most, and the time left."""
        assert self._history is not None
        return self._forecast(together(self._history))
