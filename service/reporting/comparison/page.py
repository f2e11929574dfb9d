"""Writes the page of a comparison, beside the report of its first study. It needs no matplotlib, so it is quick."""

from __future__ import annotations

import re
from pathlib import Path

import jinja2

from search_spaces.words import listed, quoted
from service.analysis.comparison.comparison import Comparison
from service.reporting.comparison import tables
from service.storage.home import Home
from trainables.whole_files import write_whole

TEMPLATES = Path(__file__).parents[1] / "templates"


def templates() -> jinja2.Environment:
    """The templates of all pages."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )


def path_of(home: Home, comparison: Comparison) -> Path:
    """Where the page of a comparison lies: beside the report of A, with the name of B."""
    one, other = comparison.a, comparison.b
    if one.label == one.edition.id:
        name = other.label.removeprefix(one.edition.id)
    else:  # two code versions of one study
        name = "-".join(["code", *(side.label.rpartition(" ")[2] for side in (one, other))])
    name = re.sub(r"[^\w@~.-]+", "-", name)
    return home.study(comparison.a.edition.id).report / f"compare-{name}.html"


def write(home: Home, comparison: Comparison) -> Path:
    """Writes the page and returns its path."""
    text = (
        templates()
        .get_template("compare.html.j2")
        .render(
            a=comparison.a,
            b=comparison.b,
            headline=headline(comparison),
            changes=tables.changes(comparison),
            scores=tables.scores(comparison),
            only=only_words(comparison),
            warnings=comparison.warnings,
        )
    )
    path = path_of(home, comparison)
    write_whole(path, text)
    return path


def headline(comparison: Comparison) -> str:
    """In which trials the two differ significantly, in a sentence."""
    names = [match.name for match in comparison.matches]
    if not names:
        return "A and B have no trial in common."
    found = comparison.differences
    up, down = ([names[place] for place, gap in found.items() if gap.significant and (gap.mean > 0) == above]
                for above in (True, False))  # fmt: skip
    parts = [f"B is above A in {listed([*map(quoted, up)])}"] if up else []
    parts += [f"B is below A in {listed([*map(quoted, down)])}"] if down else []
    if parts:
        return f"{listed(parts)}."
    if not comparison.tests:
        return "No difference can be tested."
    return f"None of {comparison.tests} tested differences is significant; that does not mean that A and B are equal."


def only_words(comparison: Comparison) -> list[str]:
    """What one side has alone, a sentence a side."""
    sides = zip(("A", "B"), comparison.only, strict=True)
    return [f"In {side} alone: {listed([*map(quoted, names)])}." for side, names in sides if names]
