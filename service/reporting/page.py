"""The report of a study: one self-contained page, the same in Markdown, the figures and the runs as files.

<home>/studies/<id>/report/report.html report.md *.svg results.csv
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import jinja2

from search_spaces.words import duration, listed, plural, quoted
from service.analysis.headline import headline
from service.analysis.tables import runs_table
from service.reporting import sections
from service.reporting.figures import Drawn, figures
from service.reporting.provenance import adopted, later, trained_s, wall_s
from service.reporting.results_table import measured
from service.reporting.svg import inline
from service.reporting.table import Table
from service.storage.whole_files import write_whole

if TYPE_CHECKING:
    from service.analysis.claims.verdicts import Verdict
    from service.analysis.study_result import StudyResult

SYMBOLS = {"SUPPORTED": "✓", "REFUTED": "✕", "INCONCLUSIVE": "?", "NOT JUDGED": "–"}
"""A sign beside each verdict, so that readers need no colors to distinguish them."""


@dataclass(frozen=True)
class Page:
    """Everything that a report shows, as text and tables."""

    id: str
    question: str
    paper: str
    date: str
    headline: str
    expected: str
    verdicts: list[Verdict]
    measured: Table | None
    points: Table | None
    figures: list[Drawn]
    unfinished: Table | None
    varied: Table
    recipe: tuple[Table, Table]
    gaps: tuple[str, ...]
    published: list[str]
    own_sources: list[tuple[str, str]]
    surroundings: Table
    effort: str
    remarks: list[str]


def write(result: StudyResult) -> Path:
    """Writes the report of a result and returns the path of its page. Cost: 1-3 s, most of it figures."""
    folder = result.home.study(result.edition.id).report
    page = _page(result)
    for drawn in page.figures:
        write_whole(folder / f"{drawn.name}.svg", drawn.svg)
    write_whole(folder / "results.csv", runs_table(result).to_csv(index=False))
    write_whole(folder / "report.md", _render("report.md.j2", page))
    write_whole(folder / "report.html", _render("report.html.j2", page))
    return folder / "report.html"


def _page(result: StudyResult) -> Page:
    study = result.edition.study
    return Page(
        id=result.edition.id,
        question=study.question,
        paper=study.paper,
        date=datetime.fromtimestamp(result.history.last or 0.0, UTC).strftime("%-d %B %Y"),
        headline=headline(result),
        expected=study.expected,
        verdicts=result.claims,
        measured=measured(result),
        points=sections.points(result),
        figures=figures(result),
        unfinished=sections.unfinished(result),
        varied=sections.varied(result),
        recipe=sections.recipe(result),
        gaps=study.gaps,
        published=_published(result),
        own_sources=sections.own_sources(result),
        surroundings=sections.surroundings(result),
        effort=_effort(result),
        remarks=_remarks(result),
    )


def _published(result: StudyResult) -> list[str]:
    """The sources of the published numbers, one line a source."""
    by_source: dict[str, list[str]] = {}
    for known in result.edition.study.published:
        by_source.setdefault(known.source, []).append(quoted(known.who))
    return [f"{listed(names)}: {source}" for source, names in by_source.items()]


def _effort(result: StudyResult) -> str:
    runs = [run for row in result.rows for run in row.runs.values()]
    trained = sum(run.epochs > 0 and not run.state.reused for run in runs)
    reused = sum(run.state.reused for run in runs)
    text = f"{plural(trained, 'run')} trained here, {duration(trained_s(result))} of epochs"
    text += f"; {plural(reused, 'answer')} reused" if reused else ""
    return f"{text}; {duration(wall_s(result))} from first to last."


def _remarks(result: StudyResult) -> list[str]:
    """What a careful reader must know before believing a number."""
    remarks = []
    if adopted(result):
        remarks.append(f"Adopted: {plural(adopted(result), 'run')} of other code.")
    if count := later(result):
        remarks.append(
            f"Trained again: {plural(count, 'run')}, because the weights were gone, with other numbers than the first "
            "time. The later answer counts; its code ends with ~2, ~3 and so on."
        )
    if result.stale:
        remarks.append(f"Not counted: {plural(result.stale, 'answer')} of other code.")
    return remarks


def _render(name: str, page: Page) -> str:
    templates = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    templates.filters["inline"] = inline
    templates.filters["fenced"] = _fenced
    templates.filters["cell"] = lambda text: " ".join(text.split()).replace("|", "\\|")
    return templates.get_template(name).render(page=page, symbols=SYMBOLS)


def _fenced(text: str) -> str:
    """A block of Python in Markdown, with a fence that is longer than any in the text."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", text)), default=0))
    return f"{fence}python\n{text.rstrip()}\n{fence}"
