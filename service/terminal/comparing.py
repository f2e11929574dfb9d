"""What `compare` prints: what differs first, then a row for each trial that both have."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from search_spaces import library
from service.analysis.comparison.comparison import Comparison, Match
from service.analysis.comparison.matrix import FilledMatrix
from service.analysis.differences import Difference
from service.analysis.format import between, fixed, metric_words, p_text, signed
from service.storage.home import Home
from service.terminal.output import address, columns, console, home_option, labelled, row, sentence, title


def comparison(found: Comparison, headline: str, notes: list[str], page: Path | None) -> None:
    """A comparison on one page of a terminal. `notes`: sentences below the table; `page`: the same in HTML."""
    out = console()
    labelled(out, "A", found.a.label, "bold")
    labelled(out, "B", found.b.label, "bold")
    if found.changes:
        view = columns("differs", "A", "B")
        view.columns[0].no_wrap = False
        for change in found.changes:
            row(view, change.what, change.a, change.b)
        out.print(view)
    else:
        sentence(out, "nothing differs in the definitions, the code or the surroundings")
    for warning in found.warnings:
        sentence(out, Text("note: ", style="yellow").append(warning, style="default"))
    out.print()
    if found.matches:
        out.print(_table(found))
    sentence(out, Text(headline, style="bold"))
    for line in notes:
        sentence(out, Text(line, style="dim"))
    if page is not None:
        labelled(out, "page", str(page), link=address(page))


def _table(found: Comparison) -> Table:
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1), title=metric_words(found.metric))
    view.title_justify = "left"
    view.add_column("trial", overflow="fold", min_width=8)
    for name in ("A", "B", "B - A", "interval (Holm)", "p (Holm)"):
        view.add_column(name, justify="right", no_wrap=True)
    view.add_column("compared", no_wrap=True)
    for place, match in enumerate(found.matches):
        view.add_row(*map(Text, _cells(match, found.differences.get(place))))
    return view


def _cells(match: Match, gap: Difference | None) -> tuple[str, ...]:
    difference = (signed(gap.mean), between(gap.interval), p_text(gap.p).removeprefix("= ")) if gap else ("", "", "")
    return (match.name, fixed(match.a.test.mean), fixed(match.b.test.mean), *difference, match.how_words)


def matrices() -> None:
    """The named matrices, with the studies that fill them."""
    view = columns("matrix", "question", "studies")
    for name in library.matrices():
        found = library.find_matrix(name)
        row(view, found.name, found.question, ", ".join(found.studies))
    console().print(view)


def matrix(found: FilledMatrix, home: Home, page: Path | None) -> None:
    """A filled matrix: a row for each cell, and what is still to be run. `page`: the same in HTML."""
    out = console()
    sentence(out, title(found.id, found.matrix.question))
    sentence(out, Text(found.matrix.paper, style="dim"))
    for cells in found.cells:
        out.print(Text(f"\n{cells[0].row}", style="bold"))
        view = columns("  encoding", "paper", "found")
        for cell in cells:
            row(view, f"  {cell.encoding}", cell.published, "\n".join(cell.found))
        out.print(view)
    out.print()
    sentence(out, found.headline)
    for gap in found.matrix.gaps:
        sentence(out, Text(f"gap: {gap}", style="dim"))
    for command in found.commands:
        labelled(out, "to run", f"{command}{home_option(home)}")
    if page is not None:
        labelled(out, "page", str(page), link=address(page))
