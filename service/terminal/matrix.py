"""What `matrix` prints."""

from __future__ import annotations

from pathlib import Path

from rich.text import Text

from search_spaces import library
from service.analysis.comparison.matrix import FilledMatrix
from service.storage.home import Home
from service.terminal.output import address, columns, console, home_option, labelled, row, sentence, title


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
