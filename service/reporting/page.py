"""What the report of a study shows: texts, tables and figures, each with its number."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from search_spaces.words import duration, listed, plural, quoted
from service.analysis.advice import advice
from service.analysis.claims.verdicts import images_words, written_words
from service.analysis.estimates.tuning import tunings
from service.analysis.format import ordinal
from service.analysis.headline import headline
from service.analysis.recorded import recorded
from service.analysis.statistics import level_of
from service.analysis.tables import costs
from service.reporting.all_figures import FIGURES, PROBE_FIGURES, figures
from service.reporting.figures.plot import Drawn
from service.reporting.further_tables import (
    own_sources,
    parents,
    points,
    random_points,
    rungs,
    shared,
    tuned,
    tuning_points,
    unfinished,
    varied,
)
from service.reporting.league_tables import efficiency, league_tables
from service.reporting.probe_tables import probe_tables
from service.reporting.provenance import adopted, code_rows, surroundings, trained_s, wall_s
from service.reporting.results_table import measured
from service.reporting.snippet import command, snippet
from service.reporting.table import Table
from trainables.recipe.code_digest import CodeDigests

if TYPE_CHECKING:
    from service.analysis.claims.verdicts import Verdict
    from service.analysis.study_result import StudyResult


@dataclass(frozen=True)
class Page:
    """Everything that a report shows, as text, tables and figures.

    `found`: what came out at this budget before, a paragraph an entry. `results`: tables of results before the
    figures; `more`: those after them; `known`, `known_figures`: what the encodings know. `snippet`: the lines of
    Python with the best encoding; `command`: what writes the best model as a file. `links`: by name, the addresses of
    the study in MLflow.
    """

    id: str
    question: str
    paper: str
    date: str
    headline: str
    advice: list[str]
    expected: str
    found: list[str]
    verdicts: list[Verdict]
    verdicts_note: str
    results: list[Table]
    figures: list[Drawn]
    more: list[Table]
    known: list[Table]
    known_figures: list[Drawn]
    unfinished: list[Table]
    recipe: list[Table]
    gaps: tuple[str, ...]
    published: list[str]
    own_sources: list[tuple[str, str]]
    surroundings: list[tuple[str, str, bool]]
    codes: list[tuple[str, str]]
    effort: str
    remarks: list[str]
    snippet: str
    command: str
    links: Mapping[str, str]

    @property
    def tables(self) -> list[Table]:
        """Every table, in the order of the page."""
        return [*self.results, *self.more, *self.known, *self.unfinished, *self.recipe]

    @property
    def all_figures(self) -> list[Drawn]:
        """Every figure, in the order of the page."""
        return [*self.figures, *self.known_figures]

    def number(self, name: str) -> str:
        """What a figure or a table is called: `Figure 2`, `Table 1`."""
        for word, things in (("Table", self.tables), ("Figure", self.all_figures)):
            names = [thing.name for thing in things]
            if name in names:
                return f"{word} {names.index(name) + 1}"
        raise KeyError(name)


def page(result: StudyResult, links: Mapping[str, str]) -> Page:
    """The page of a result. `links`: by name, the addresses of the study in MLflow."""
    study = result.edition.study
    take, *more = advice(result) or [""]
    return Page(
        id=result.edition.id,
        question=study.question,
        paper=study.paper,
        date=datetime.fromtimestamp(result.history.last or 0.0, UTC).strftime("%-d %B %Y"),
        headline=" ".join(filter(None, (take, headline(result)))),
        advice=more,
        expected=study.expected,
        found=recorded(result.edition, study.name, CodeDigests()),
        verdicts=result.claims,
        verdicts_note=_verdicts_note(result),
        results=_known(*league_tables(result), measured(result), tuned(result), efficiency(result)),
        figures=figures(result, FIGURES),
        more=_known(
            points(result),
            random_points(result),
            tuning_points(result),
            rungs(result),
            parents(result),
        ),
        known=probe_tables(result),
        known_figures=figures(result, PROBE_FIGURES) if study.probes else [],
        unfinished=_known(unfinished(result)),
        recipe=[varied(result), *shared(result)],
        gaps=study.gaps,
        published=_published(result),
        own_sources=own_sources(result),
        surroundings=surroundings(result),
        codes=code_rows(result),
        effort=_effort(result),
        remarks=_remarks(result),
        snippet=snippet(result),
        command=command(result),
        links=links,
    )


def _known(*tables: Table | None) -> list[Table]:
    return [table for table in tables if table is not None]


def _published(result: StudyResult) -> list[str]:
    """The sources of the published numbers, one line a source."""
    by_source: dict[str, list[str]] = {}
    for known in result.edition.study.published:
        by_source.setdefault(known.source, []).append(quoted(known.who))
    return [f"{listed(names)}: {source}" for source, names in by_source.items()]


def _effort(result: StudyResult) -> str:
    runs = list({(run.run.key, run.code): run for row in result.rows for run in row.runs.values()}.values())
    trained = sum(run.epochs > 0 and not run.state.reused for run in runs)
    reused = sum(run.state.reused for run in runs)
    text = f"{plural(trained, 'run')} trained here, {duration(trained_s(result))} of training, summed over runs"
    here = costs(run for run in runs if not run.state.reused)
    if (here["device_s"] or 0.0) > (here["time_s"] or 0.0):
        text += f", {duration(here['device_s'] or 0.0)} of devices"
    text += f"; {plural(reused, 'answer')} reused" if reused else ""
    return f"{text}; {duration(wall_s(result))} from the first start to the last result."


def _remarks(result: StudyResult) -> list[str]:
    """What a careful reader must know before believing a number."""
    remarks = [one.remark for one in tunings(result) if one.remark]
    if adopted(result):
        remarks.append(f"Adopted: {plural(adopted(result), 'run')} of other code.")
    if result.stale:
        remarks.append(f"Not counted: {plural(result.stale, 'answer')} of other code.")
    return remarks


def _verdicts_note(result: StudyResult) -> str:
    """What verdicts cover, and at which level they are: each look at a growing study spends a part of it."""
    look = result.history.looks
    level = f"one-sided tests at {result.alpha:.3g}"
    looks = f", in place of {level_of(1):.3g}, as this is the {ordinal(look)} look at the study" if look > 1 else ""
    draws = [verdict.draws for verdict in result.claims if verdict.measured is not None]
    images = images_words(draws, result.edition.study.base.data)
    return f"Verdicts are {level} over seeds{looks}. {images} {written_words(result.history)}".rstrip()
