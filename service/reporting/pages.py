"""Defines the tables and templates of pages, and writes the page of a comparison. This file needs no matplotlib."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2
from markupsafe import Markup, escape

from search_spaces.words import listed, plural, quoted
from service.analysis.comparison import Comparison, Match
from service.analysis.format import between, metric_words, p_text, signed, spread
from service.analysis.multiple_testing import Difference
from service.analysis.scores import group_words
from service.analysis.statistics import ALPHA, FEWEST
from service.analysis.verdicts import images_words
from service.storage.home import Home
from trainables.whole_files import write_whole

if TYPE_CHECKING:
    from pandas import DataFrame

FEW_ROWS = 12
"""A page shows a table of at most so many rows at once; a longer one only on demand."""
REFERENCE = re.compile(
    r"arXiv:(?P<arxiv>\d{4}\.\d{4,5})|doi:(?P<doi>10\.\d{4,9}/[^\s,;()]*[^\s,;().])|(?P<url>https?://[^\s,;()]*[^\s,;().])"
)


def linked(text: str) -> Markup:
    """Returns a text as HTML, with a link for each arXiv number, DOI and address; everything else is escaped."""
    markup, end = Markup(), 0
    for reference in REFERENCE.finditer(text):
        address = reference["url"] or f"https://doi.org/{reference['doi']}"
        if reference["arxiv"]:
            address = f"https://arxiv.org/abs/{reference['arxiv']}"
        markup += escape(text[end : reference.start()])
        markup += Markup('<a href="{}">{}</a>').format(address, reference[0])
        end = reference.end()
    return markup + escape(text[end:])


@cache
def templates() -> jinja2.Environment:
    """Returns the environment of jinja2 that has the templates of all pages."""
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters["linked"] = linked
    return environment


@dataclass(frozen=True)
class Column:
    """Is one column of a table.

    `group` is the head that it shares with its neighbors. `words` says that it holds words, not numbers. If `under`, a
    page shows it as a second line of the column before it, to save width. A user chooses it by `name`.
    """

    head: str
    cells: Sequence[str]
    group: str = ""
    words: bool = False
    under: bool = False
    name: str = ""

    @property
    def full_head(self) -> str:
        """Returns the head and that of the group in one line: `test accuracy, 95 % interval`."""
        return ", ".join(filter(None, (self.group, self.head)))


@dataclass(frozen=True)
class Table:
    """Is a table: columns of text under a title.

    `name` is the name of its files, without ending, and of its anchor in the page. `strong` has the places of the rows
    in bold. `note` explains these numbers; `legend` says how to read any table of this name, and a page shows it on
    demand. If `folded`, a page shows the table itself only on demand.
    """

    name: str
    title: str
    columns: Sequence[Column]
    strong: frozenset[int] = frozenset()
    note: str = ""
    legend: str = ""
    folded: bool = False

    @property
    def rows(self) -> list[tuple[str, ...]]:
        """Returns the cells of the table, row by row."""
        return list(zip(*(column.cells for column in self.columns), strict=True))

    @property
    def stacks(self) -> list[list[Column]]:
        """Returns the columns as a page shows them: in stacks, each a column with those that stand under it."""
        stacks: list[list[Column]] = []
        for column in self.columns:
            if column.under and stacks:
                stacks[-1].append(column)
            else:
                stacks.append([column])
        return stacks

    @property
    def stacked_groups(self) -> list[tuple[str, int]]:
        """Returns the heads over the stacks (empty for no group), each with the number of stacks that it spans."""
        return [(group, len(list(same))) for group, same in groupby(stack[0].group for stack in self.stacks)]

    @property
    def grouped(self) -> bool:
        """Returns whether any column belongs to a group, whose head stands over it."""
        return any(column.group for column in self.columns)

    def csv(self) -> str:
        """Returns the table as CSV, with one line of heads."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([as_text(column.full_head) for column in self.columns])
        writer.writerows(map(as_text, row) for row in self.rows)
        return text.getvalue()


NUMBERS = re.compile(r"[-+][-+\d.,%e±()\[\] ]*")
"""Matches a signed number, with the text that our tables write behind it, such as an interval."""


def as_text(cell: str) -> str:
    """Returns a cell of a CSV file such that no spreadsheet takes it for a formula: a name may begin with = + - @."""
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") and not NUMBERS.fullmatch(cell) else cell


def frame_csv(frame: DataFrame) -> str:
    """Returns a DataFrame as CSV; no spreadsheet takes its words for formulas (`as_text`)."""
    text: str = frame.map(lambda cell: as_text(cell) if isinstance(cell, str) else cell).to_csv(index=False)
    return text


WIDTH, HEIGHT, MARGIN = 180, 20, 6
"""The size of the drawing of a difference, and its margin at both ends. Units: pixels."""
AXIS = Markup('<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{h}" stroke="var(--muted)" stroke-width="0.9"/>')
BAR = Markup(
    '<line x1="{a:.1f}" x2="{b:.1f}" y1="7" y2="7" stroke="var(--series-0)" stroke-width="2.2" opacity="0.6"/>'
)
DOT = Markup('<circle cx="{x:.1f}" cy="{y}" r="{r}" fill="var(--series-0)"/>')
CROSS = Markup('<path d="M{a:.1f} 14l4 4m0 -4l-4 4" stroke="var(--muted)" fill="none"/>')
DRAWING = Markup('<svg class="gap" width="{w}" height="{h}" role="img" aria-label="{words}">')

MEAN = "Mean ± standard deviation over seeds, with their number."
DOTS = "A line is the interval, a large dot the mean, a small dot a seed, a cross one that diverged in A or B."
COMPARED = {
    "paired": "Pairs: the two runs of a seed, subtracted.",
    "unpaired": "Unpaired: the seeds differ (Welch's test).",
    "same runs": (
        "Same runs: both have the very same runs, so the difference is 0 by itself. A number of same runs: so many "
        "seeds are the very same runs in both; one of the two has more seeds, which have no pair."
    ),
}
"""By each way to compare two trials: the sentence that explains it."""


def scores(comparison: Comparison) -> Table | None:
    """Returns the table of trials that both studies have, with B minus A; None if they have no trial in common."""
    matches = comparison.matches
    if not matches:
        return None
    gaps = [comparison.differences.get(number) for number in range(len(matches))]
    metric, other = map(metric_words, comparison.metrics)
    cells: dict[str, list[str]] = {"A": [], "B": []}
    for match in matches:
        for label, trial in (("A", match.a.test), ("B", match.b.test)):
            count = f"{trial.n}" if trial.complete else f"{trial.n}/{trial.asked}"
            cells[label].append(f"{spread(trial.mean, trial.std)} ({count})")
    columns = [
        Column("trial", [match.name for match in matches], words=True),
        Column("A", cells["A"], metric),
        Column("B", cells["B"], other),
        Column("mean", [signed(gap.mean) if gap else "" for gap in gaps], "B minus A"),
        Column("95 % interval", [between(gap.interval) if gap else "" for gap in gaps], "B minus A", under=True),
        Column("p (Holm)", [p_text(gap.p).removeprefix("= ") if gap else "" for gap in gaps], "B minus A"),
        Column("", _drawings(matches, gaps), "B minus A", words=True),
        Column("compared", [match.how_words for match in matches], words=True),
    ]
    title = f"The {metric if metric == other else 'scores'} of {plural(len(matches), 'trial')} of both"
    return Table("scores", title, columns, note=f"{MEAN} {comparison_note(comparison)} {DOTS}")


def _drawings(matches: Sequence[Match], gaps: Sequence[Difference | None]) -> list[str]:
    """Returns a drawing of each difference, its interval, mean and seeds, as SVG; all have the same axis."""
    seeds: list[dict[int, float]] = []
    ends = [0.0]
    for match, gap in zip(matches, gaps, strict=True):
        a, b = match.a.test.values, match.b.test.values
        seeds.append({seed: b[seed] - a[seed] for seed in match.seeds} if match.how == "paired" else {})
        ends += [*seeds[-1].values(), *((gap.mean, *(gap.interval or ())) if gap else ())]
    low, span = min(ends), (max(ends) - min(ends)) or 1.0

    def x(value: float) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * (value - low) / span

    drawings: list[str] = []
    for match, gap, values in zip(matches, gaps, seeds, strict=True):
        if gap is None:
            drawings.append("")
            continue
        diverged = match.a.test.diverged | match.b.test.diverged
        title = f"{signed(gap.mean)} {between(gap.interval)}".strip()
        parts = [DRAWING.format(w=WIDTH, h=HEIGHT, words=title), AXIS.format(x=x(0.0), h=HEIGHT)]
        if gap.interval:
            parts.append(BAR.format(a=x(gap.interval[0]), b=x(gap.interval[1])))
        parts.append(DOT.format(x=x(gap.mean), y=7, r=3.6))
        for seed, value in values.items():
            parts.append(CROSS.format(a=x(value) - 2) if seed in diverged else DOT.format(x=x(value), y=16, r=1.6))
        drawings.append(Markup("").join([*parts, Markup("</svg>")]))
    return drawings


def comparison_note(comparison: Comparison) -> str:
    """Returns sentences that explain the numbers of the table; empty if no trial is compared."""
    if not comparison.matches:
        return ""
    parts = []
    if comparison.tests:
        draws = (gap.estimate.draws for gap in comparison.differences.values() if gap.adjusted)
        parts += [
            f"p is two-sided and adjusted for {plural(comparison.tests, 'difference')} (Holm) and for looks; 95 % "
            f"intervals hold together, so each leaves out 0 where p is below {ALPHA:g}.",
            images_words(draws, [side.edition.study.base.data for side in (comparison.a, comparison.b)]),
        ]
    kinds = {match.how for match in comparison.matches}
    parts += [meaning for how, meaning in COMPARED.items() if how in kinds]
    groups = []
    for match in comparison.matches:
        sides = [(group_words(trial.test), side) for side, trial in (("A", match.a), ("B", match.b))]
        if seeds := [f"{words} in {side}" for words, side in sides if words]:
            groups.append(f"{quoted(match.name)} {', '.join(seeds)}")
    if groups:
        parts.append(f"Means are of all seeds: {'; '.join(groups)}.")
    return " ".join([*parts, f"A diverged seed counts at chance. No test for fewer than {FEWEST} pairs, or seeds."])


def write_comparison(home: Home, comparison: Comparison) -> Path:
    """Writes the page of a comparison beside the report of A, with B's id in its file name, and returns its path."""
    rows = comparison.changes
    columns = [
        Column("", [change.what for change in rows], words=True),
        Column("A", [change.a for change in rows], words=True),
        Column("B", [change.b for change in rows], words=True),
    ]
    template = templates().get_template("compare.html.j2")
    text = template.render(
        a=comparison.a,
        b=comparison.b,
        headline=comparison_headline(comparison),
        changes=Table("changes", "What differs between A and B", columns) if rows else None,
        scores=scores(comparison),
        only=only_words(comparison),
        warnings=comparison.warnings,
    )
    id = comparison.a.edition.id
    name = re.sub(r"[^\w@~.-]+", "-", comparison.b.edition.id.removeprefix(id))
    path = home.study(id).report / f"compare-{name}.html"
    write_whole(path, text)
    return path


def comparison_headline(comparison: Comparison) -> str:
    """Returns a sentence that says in which trials the two studies differ significantly."""
    names = [match.name for match in comparison.matches]
    if not names:
        return "A and B have no trial in common."
    differences = comparison.differences
    up, down = ([names[place] for place, gap in differences.items() if gap.significant and (gap.mean > 0) == above]
                for above in (True, False))  # fmt: skip
    parts = [f"B is above A in {listed([*map(quoted, up)])}"] if up else []
    parts += [f"B is below A in {listed([*map(quoted, down)])}"] if down else []
    if parts:
        return f"{listed(parts)}."
    if not comparison.tests:
        return "No difference can be tested."
    return f"None of {comparison.tests} tested differences is significant; that does not mean that A and B are equal."


def only_words(comparison: Comparison) -> list[str]:
    """Returns, for each of the two studies, a sentence that lists the trials which only this one has."""
    sides = zip(("A", "B"), comparison.only, strict=True)
    return [f"In {side} alone: {listed([*map(quoted, names)])}." for side, names in sides if names]
