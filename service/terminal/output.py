"""Prints text for a person: wrapped at words in a terminal, whole in a pipe; commands and paths are never cut."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

WIDE = 200
"""The width of the output, in characters, where it is no terminal."""
NARROW = 110
"""A table leaves out its least important columns on a terminal that is narrower than this. Units: characters."""


CONTROLS = {code: None for code in (*range(32), *range(127, 160)) if chr(code) not in "\t\n"}
"""The control characters C0, C1 and DEL: in a name, they would be commands to the terminal."""


def printable(text: str) -> str:
    """Returns a text without control characters, but for tabs and line breaks."""
    return text.translate(CONTROLS)


class Paper(Console):
    """Is a console that prints names, questions and reasons as plain text: only rich itself can move the cursor."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=printable(segment.text))

    def on_broken_pipe(self) -> None:
        """Prints nothing more, so that a study goes on after the reader of its output has ended; rich would end it."""
        os.dup2(os.open(os.devnull, os.O_WRONLY), self.file.fileno())


def console(*, stderr: bool = False) -> Console:
    """Returns a console for standard output, or for standard error: as wide as the terminal, else `WIDE`."""
    paper = Paper(highlight=False, stderr=stderr)
    return paper if paper.is_terminal else Paper(highlight=False, stderr=stderr, width=WIDE)


@contextmanager
def counted(noun: str) -> Iterator[Callable[[int, int], None]]:
    """Gives a function to call with how many things are done, and how many there are; a terminal shows a bar of it.

    `noun` names the things. The bar stands on standard error from the first call on, and disappears when all are done.
    """
    screen, on_screen = console(stderr=True), ExitStack()
    bar: Any = None

    def look(done: int, total: int) -> None:
        nonlocal bar
        if bar is None:
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            bar = on_screen.enter_context(Progress(*parts, console=screen, transient=True))
            bar.add_task(noun, total=None)
        bar.update(bar.task_ids[0], completed=done, total=total)
        if done == total:
            on_screen.close()
            bar = None

    with on_screen:
        yield look if screen.is_terminal else lambda done, total: None


def print_json(value: Any) -> None:
    """Prints a value of plain types (dicts, lists, texts, numbers) as JSON."""
    print(json.dumps(value, indent=1))


def sentence(out: Console, text: Text | str) -> None:
    """Prints a sentence. A terminal wraps it between words; a pipe gets it in one line."""
    out.print(text if isinstance(text, Text) else Text(text), soft_wrap=not out.is_terminal)


def labelled(out: Console, label: str, text: str, style: str = "", link: str = "") -> None:
    """Prints in one line a label and a text to copy, such as a command. A click on it opens the address `link`."""
    value = Text(text, style=f"not bold default link {link}" if link and out.is_terminal else "not bold default")
    out.print(Text(f"{label:11}", style=style).append_text(value), soft_wrap=True)


def address(path: Path) -> str:
    """Returns the address (`file://...`) of a file, which a terminal can open."""
    return path.resolve().as_uri()


def title(name: str, question: str) -> Text:
    """Returns the heading of a study: its id or name in bold, and its question."""
    return Text(name, style="bold").append(f"  {question}", style="not bold")


def columns(*names: str) -> Table:
    """Returns an empty table without lines, with these column heads.

    The first column is never cut, because it holds names that people type.
    """
    view = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 1))
    for name in names:
        view.add_column(name, overflow="fold", no_wrap=not view.columns)
    return view


def row(view: Table, *cells: str) -> None:
    """Adds a row of cells to a table, as plain text: rich would read brackets in a name as markup."""
    view.add_row(*map(Text, cells))


def section(out: Console, heading: str, lines: Sequence[tuple[str, str]]) -> None:
    """Prints a heading and below it the lines, each a name and a text; it prints nothing if there are no lines."""
    if not lines:
        return
    out.print(Text(f"\n{heading}", style="bold"))
    view = Table.grid(padding=(0, 2))
    view.add_column(no_wrap=True)
    view.add_column(overflow="fold")
    for name, text in lines:
        view.add_row(Text(f"  {name}"), Text(text))
    out.print(view)
