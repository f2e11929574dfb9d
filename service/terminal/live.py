"""What a person sees while a study runs: a live table in a terminal, one line an event elsewhere."""

from __future__ import annotations

import time

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from search_spaces.study import Edition, Search, Trial
from service.analysis.trial_summary import TrialSummary, summarize
from service.planning.estimate import clock, unproposed
from service.storage.history import History
from service.storage.journal import Confirms, Ended, Fact, FailedWith, Measured, Planned, Started, StoppedAt

ROWS = 16
"""How many trials the live table shows: the best, the unfinished, the newest."""
REDRAW_S = 0.25
"""Seconds between two views, at least: one of 200 trials takes 0.1 s to make."""
STYLES = {"done": "green", "running": "cyan", "stopped": "yellow", "diverged": "magenta", "failed": "red"}


class Progress:
    """Shows a study while it runs. `add` every fact; `note` prints one line."""

    def __init__(self, edition: Edition, console: Console | None = None, quiet: bool = False) -> None:
        self.edition = edition
        self.console = console or Console(highlight=False)
        self.live: Live | None = None
        self.quiet = quiet
        self.history: History | None = None
        self.begun = time.monotonic()
        self._owners: dict[str, tuple[Trial, int]] = {}
        self._fresh = 0
        self._drawn = 0.0
        self._searches = isinstance(edition.study.plan, Search)

    def note(self, line: str) -> None:
        """Prints one line, above the table where there is one."""
        if not self.quiet:
            self.console.print(line, markup=False, soft_wrap=True)

    def begin(self, history: History) -> None:
        """Starts to show; facts in the history so far are not counted as progress."""
        self.history = history
        self._fresh = self._count()[0]
        self.begun = time.monotonic()
        if self.console.is_terminal and not self.quiet:
            self.live = Live(self._view(), console=self.console, auto_refresh=False, transient=False)
            self.live.start()

    def add(self, fact: Fact) -> None:
        """Shows a fact."""
        if self.history is None or self.quiet:
            return
        if self.live is not None:
            if time.monotonic() - self._drawn >= REDRAW_S:
                self.live.update(self._view(), refresh=True)
                self._drawn = time.monotonic()
        else:
            line = self._line(fact)
            if line:
                self.note(f"{clock(time.monotonic() - self.begun)}  {line}")

    def end(self) -> None:
        """Leaves the last view standing."""
        if self.live is not None:
            self.live.update(self._view(), refresh=True)
            self.live.stop()
            self.live = None

    def _line(self, fact: Fact) -> str | None:
        match fact:
            case Planned(role="trial", number=number, name=name):
                return f"#{number} {name} planned"
            case Confirms(numbers=numbers):
                return f"confirming {', '.join(f'#{number}' for number in numbers)} on fresh seeds"
            case Started(label=label, seed=seed, attempt=attempt):
                return f"#{label} seed {seed} started" + (f", attempt {attempt}" if attempt > 1 else "")
            case Measured(epoch=epoch, values=values):
                trial, seed = self._owner(fact.run)
                metric, epochs = self.edition.study.score.metric, trial.recipe.optimizer.epochs
                return f"#{trial.label} seed {seed} epoch {epoch}/{epochs} {metric} {values.get(metric, 0):.4f}"
            case StoppedAt(epoch=epoch, cutoff=cutoff):
                trial, seed = self._owner(fact.run)
                return f"#{trial.label} seed {seed} stopped at {epoch} (cut-off {cutoff:.3g})"
            case FailedWith(reason=reason):
                trial, seed = self._owner(fact.run)
                return f"#{trial.label} seed {seed} failed: {reason}"
            case Ended(outcome=outcome, reused=reused):
                trial, seed = self._owner(fact.run)
                return f"#{trial.label} seed {seed} {outcome}" + (", reused" if reused else "")
            case _:
                return None

    def _owner(self, key: str) -> tuple[Trial, int]:
        assert self.history is not None
        if key not in self._owners:
            for trial in self.history.trials:
                for seed, run in self.history.runs(trial).items():
                    self._owners.setdefault(run.key, (trial, seed))
        return self._owners[key]

    def _view(self) -> RenderableType:
        assert self.history is not None
        found = summarize(self.history)
        title = Text(f"{self.edition.id}  {self.edition.study.question}", style="bold")
        return Group(title, table(found, self.edition), self._bar())

    def _count(self) -> tuple[int, int]:
        """How many runs have ended, and how many there will be, at most."""
        assert self.history is not None
        asked = [run for trial in self.history.trials for run in self.history.asked(trial)]
        return sum(self.history.state(run).answered for run in asked), len(asked) + unproposed(self.history)

    def _bar(self) -> RenderableType:
        done, total = self._count()
        gone = time.monotonic() - self.begun
        since = done - self._fresh
        left = f", about {clock(gone / since * max(total - done, 0))} left" if since else ""
        grid = Table.grid(padding=(0, 2))
        grid.add_row(
            ProgressBar(total=max(total, 1), completed=done, width=40),
            f"{done} of {'at most ' if self._searches and done < total else ''}{total} runs",
            f"{clock(gone)} gone{left}",
            "MLflow: locus ui",
        )
        return grid


def table(found: list[TrialSummary], edition: Edition, *, every: bool = False) -> RenderableType:
    """The trials as a table for a terminal, with a line that explains its signs. `every`: no row is left out."""
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2))
    for name, justify in (("#", "right"), ("trial", "left"), ("seeds", "right"), ("epoch", "right")):
        view.add_column(name, justify=justify)  # type: ignore[arg-type]
    view.add_column(edition.study.score.metric, justify="left")
    view.add_column("state", overflow="fold")
    rows = found if every else shown(found)
    for row in rows:
        style = "bold green" if row.best else STYLES.get(row.state.split()[0].rstrip(":"), "")
        state = Text(f"{row.state}  {row.mark}".rstrip(), style=style)
        cells = (row.label, row.name, f"{row.done}/{row.asked}", f"{row.epoch}/{row.epochs}", row.score)
        view.add_row(*map(Text, cells), state)
    return Group(view, *(Text(line, style="dim") for line in legend(rows, len(found))))


def legend(rows: list[TrialSummary], count: int) -> list[str]:
    """What the signs of a table mean, as far as they occur, and how many of its rows are not shown."""
    parts = []
    if any("+-" in row.score for row in rows):
        parts.append("+-: standard deviation over seeds")
    if confirmed := next((row for row in rows if row.label.startswith("c")), None):
        parts.append(f"{confirmed.label}: point {confirmed.label[1:]} again, on fresh seeds")
    if parent := next((row for row in rows if row.label.startswith("p")), None):
        parts.append(f"{parent.label}: a run that others start from")
    if len(rows) < count:
        parts.append(f"{count - len(rows)} more (locus status NAME shows all)")
    return ["; ".join(parts)] if parts else []


def shown(found: list[TrialSummary]) -> list[TrialSummary]:
    """The rows worth a place: all, or the best, the failed, the unfinished and the newest."""
    if len(found) <= ROWS:
        return found
    ranked = sorted((row for row in found if row.mean is not None), key=lambda row: -(row.mean or 0))[:5]
    pressing = [row for row in found if row.best or row.state.startswith(("running", "waiting", "failed"))]
    order = [*(row for row in pressing if row.best), *pressing, *ranked, *reversed(found)]
    keep = set(list(dict.fromkeys(id(row) for row in order))[:ROWS])
    return [row for row in found if id(row) in keep]
