"""A study's trials as a table for a terminal, with a line that explains its signs."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from search_spaces.study import Edition
from service.analysis.format import metric_words
from service.analysis.trial_summary import TrialSummary

STYLES = {"done": "green", "running": "cyan", "stopped": "yellow", "diverged": "magenta", "failed": "red"}


def table(found: list[TrialSummary], edition: Edition, rows: int | None = None) -> RenderableType:
    """The trials, or at most so many of them."""
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1))
    metric = edition.study.score.metric
    for name, justify in (("#", "right"), ("trial", "left"), ("seeds", "right"), ("epoch", "right"), (metric, "left")):
        view.add_column(name, justify=justify, no_wrap=name != "trial", overflow="fold")  # type: ignore[arg-type]
    view.add_column("state", overflow="fold")
    kept = found if rows is None else shown(found, rows)
    for row in kept:
        style = "bold green" if row.best else STYLES.get(row.state.split()[0].rstrip(",:"), "")
        state = Text(f"{row.state}  {row.mark}".rstrip(), style=style)
        cells = (row.label, row.name, f"{row.done}/{row.asked}", f"{row.epoch}/{row.epochs}", row.score)
        view.add_row(*map(Text, cells), state)
    return Group(view, *(Text(line, style="dim") for line in legend(kept, found, edition)))


def legend(rows: list[TrialSummary], found: list[TrialSummary], edition: Edition) -> list[str]:
    """What the numbers and signs of a table mean, as far as they occur, and how many of its rows are not shown."""
    parts = []
    if any(row.score for row in rows):
        parts.append(f"{edition.study.score.metric}: {metric_words(edition.study.score.metric)}, mean over seeds")
    if any("+-" in row.score for row in rows):
        parts.append("+-: standard deviation over seeds")
    if confirmed := next((row for row in rows if row.label.startswith("c")), None):
        parts.append(f"{confirmed.label}: point {confirmed.label[1:]} again, on fresh seeds")
    if tuning := next((row for row in rows if row.label.startswith("t")), None):
        parts.append(f"{tuning.label}: a trial that tunes an arm, on a seed of its own")
    if parent := next((row for row in rows if row.label.startswith("p")), None):
        parts.append(f"{parent.label}: a run that others start from")
    if len(rows) < len(found):
        parts.append(f"{len(found) - len(rows)} more: locus status {edition.id}")
    return ["; ".join(parts)] if parts else []


def shown(found: list[TrialSummary], rows: int) -> list[TrialSummary]:
    """The rows worth a place: what failed, the best, the unfinished, the highest, the newest; in their order."""
    if len(found) <= rows:
        return found
    ranked = sorted((row for row in found if row.mean is not None), key=lambda row: -(row.mean or 0))[:5]
    wanted = [
        *(row for row in found if row.state.startswith("failed")),
        *(row for row in found if row.best),
        *(row for row in found if row.state.startswith(("running", "waiting"))),
        *ranked,
        *reversed(found),
    ]
    keep = set(list(dict.fromkeys(map(id, wanted)))[:rows])
    return [row for row in found if id(row) in keep]
