"""A matrix filled with what the studies of a home found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from search_spaces import library
from search_spaces.matrix import Mark, Matrix, Property
from search_spaces.study import Ablation, Study
from search_spaces.words import plural
from service.analysis.evidence import Word
from service.analysis.format import fixed, p_text
from service.analysis.multiple_testing import holm
from service.analysis.statistics import ALPHA, share_of
from service.analysis.study_result import StudyResult
from service.analysis.verdicts import DECIDED, Verdict, judge
from service.storage.home import Home
from trainables.recipe.code_digest import CodeDigests


@dataclass(frozen=True)
class CellVerdict:
    """The verdict of a claim in its study, and whether it holds over all claims of the matrix.

    `p`: of the test that decided it in its study, adjusted for the study's looks, and for all claims of the matrix in
    place of those of the study; None if its study leaves it undecided.
    """

    verdict: Verdict
    p: float | None

    @property
    def holds(self) -> bool:
        """Whether what the study decided is still decided; True if it decided nothing."""
        return self.p is None or self.p < ALPHA

    @property
    def word(self) -> Word:
        """The word of the study; INCONCLUSIVE where it does not hold over all claims of the matrix."""
        return self.verdict.word if self.holds else "INCONCLUSIVE"

    @property
    def label(self) -> str:
        """The word, with where a claim is not judged."""
        return self.verdict.label if self.holds else self.word

    @property
    def note(self) -> str:
        """What the study said, where it does not hold; else nothing."""
        return "" if self.holds else f" ({self.verdict.word} in its study; p {p_text(self.p)} over all claims here)"


@dataclass(frozen=True)
class FilledCell:
    """What the paper printed, and what was found: the verdicts of claims, or a number of parameters.

    `parameters`: the encoding's parameters that are trained; None if the row counts none. `id`: of the newest start of
    the row's study at this budget; empty if the home has none: then there are no verdicts.
    """

    row: str
    encoding: str
    published: Mark
    study: str
    id: str
    verdicts: tuple[CellVerdict, ...] = ()
    parameters: int | None = None

    @property
    def found(self) -> list[str]:
        """What was found, a line each."""
        if self.parameters is not None:
            return [f"{plural(self.parameters, 'parameter')} learn" if self.parameters != 1 else "1 parameter learns"]
        if not self.id:
            return [f"{self.study} was not run"]
        return [_line(verdict) for verdict in self.verdicts] or ["not tested"]

    def plain(self) -> dict[str, Any]:
        """Returns plain values."""
        claims = [
            {
                "claim": str(verdict.verdict.claim),
                "verdict": verdict.word,
                "in_study": verdict.verdict.word,
                "p": verdict.p,
                "measured": verdict.verdict.measured,
                "seeds": verdict.verdict.n,
            }
            for verdict in self.verdicts
        ]
        return {
            "property": self.row,
            "encoding": self.encoding,
            "published": self.published,
            "study": self.study,
            "ran": bool(self.id),
            "id": self.id,
            "claims": claims,
            "parameters": self.parameters,
        }


@dataclass(frozen=True)
class FilledMatrix:
    """A matrix at a budget. `cells`: row by row; `missing`: the studies that the home does not have at this budget.

    `unfinished`: what the other studies lack, by name: `2 of 5 seeds`, `60 answers of other code do not count`.
    """

    matrix: Matrix
    budget: str
    cells: tuple[tuple[FilledCell, ...], ...]
    missing: tuple[str, ...]
    unfinished: Mapping[str, str]

    @property
    def id(self) -> str:
        """NAME@BUDGET."""
        return f"{self.matrix.name}@{self.budget}"

    @property
    def commands(self) -> list[str]:
        """What fills the rest."""
        return [f"locus run {study} --budget {self.budget}" for study in (*self.missing, *self.unfinished)]

    @property
    def lacks(self) -> list[str]:
        """What each unfinished study lacks, a line each."""
        return [f"{study}: {what}" for study, what in self.unfinished.items()]

    @property
    def headline(self) -> str:
        """How many of the claims hold, in a sentence."""
        verdicts = [verdict for row in self.cells for cell in row for verdict in cell.verdicts]
        if not verdicts:
            return f"No claim is judged yet at {self.budget}."
        words = [verdict.word for verdict in verdicts]
        counts = {word: words.count(word) for word in dict.fromkeys(words)}
        tally = ", ".join(f"{count} {word}" for word, count in counts.items())
        adjusted = any(verdict.p is not None for verdict in verdicts) and len(verdicts) > 1
        how = ", adjusted over all of them (Holm)" if adjusted else ""
        return f"Of {plural(len(verdicts), 'claim')} behind the table, at {self.budget}: {tally}{how}."

    def plain(self) -> dict[str, Any]:
        """Returns plain values."""
        rows = [cell.plain() for row in self.cells for cell in row]
        return {
            "matrix": self.id,
            "paper": self.matrix.paper,
            "cells": rows,
            "missing": list(self.missing),
            "unfinished": dict(self.unfinished),
        }


def fill(home: Home, matrix: Matrix, budget: str) -> FilledMatrix:
    """Returns a matrix with the verdicts of the studies that a home has at a budget."""
    codes = CodeDigests()
    ids = {study: f"{study}@{budget}" for study in matrix.studies}
    results = {study: StudyResult.open(home, id, codes=codes) for study, id in ids.items() if id in home.ids()}
    rows = tuple(
        tuple(_cell(row, encoding, budget, results.get(row.study)) for encoding in matrix.encodings)
        for row in matrix.rows
    )
    judged = dict.fromkeys(row.study for row in matrix.rows if row.shown_by != "parameters")
    missing = tuple(study for study in judged if study not in results)
    unfinished = {study: lacks for study in judged if study in results and (lacks := _lacks(results[study]))}
    return FilledMatrix(matrix, budget, _held(rows), missing, unfinished)


def _lacks(result: StudyResult) -> str:
    """Returns why verdicts of a study are still missing, in words; empty if each arm has ended."""
    plan, answers = result.edition.study.plan, {name: row.answer for name, row in result.named.items()}
    arms = plan.arms if isinstance(plan, Ablation) else answers
    left = [name for name in arms if name not in answers or answers[name].status in ("open", "incomplete")]
    if not left:
        return ""
    if result.stale:
        return f"{plural(result.stale, 'answer')} of other code {'does' if result.stale == 1 else 'do'} not count"
    done = min(len(answers[name].values) if name in answers else 0 for name in left)
    return f"{done} of {plural(result.history.seeds, 'seed')}"


def _held(rows: tuple[tuple[FilledCell, ...], ...]) -> tuple[tuple[FilledCell, ...], ...]:
    """Returns the cells, with the p of each verdict adjusted over the claims of all of them."""
    ps = iter(_adjusted([verdict for row in rows for cell in row for verdict in cell.verdicts]))
    return tuple(
        tuple(replace(cell, verdicts=tuple(replace(verdict, p=next(ps)) for verdict in cell.verdicts)) for cell in row)
        for row in rows
    )


def _adjusted(verdicts: Sequence[CellVerdict]) -> list[float | None]:
    """Adjusts the ps by Holm's correction over all claims; they are adjusted for looks already.

    A claim that its study leaves undecided counts as a test that found nothing.
    """
    share = share_of(1)
    tests = holm({str(place): share if one.p is None else share * one.p for place, one in enumerate(verdicts)})
    return [None if one.p is None else tests[str(place)].p for place, one in enumerate(verdicts)]


def _cell(row: Property, encoding: str, budget: str, result: StudyResult | None) -> FilledCell:
    cell = row.cells[encoding]
    known = FilledCell(row.name, encoding, cell.published, row.study, result.edition.id if result else "")
    if row.shown_by == "parameters":
        study = library.find(row.study).at(budget).study
        return replace(known, parameters=_trained_parameters(study, cell.arms[0]))
    if result is None:
        return known
    asked = row.claims(encoding, result.edition.study)
    places = [place for place, verdict in enumerate(result.claims) if verdict.claim in asked]
    verdicts = tuple(CellVerdict(result.claims[place], _alone(place, result)) for place in places)
    return replace(known, verdicts=verdicts)


def _alone(place: int, result: StudyResult) -> float | None:
    """Returns the p of a claim that its study decided, at the look that did, without the other claims of the study.

    None of another one.
    """
    verdict = result.claims[place]
    if verdict.word not in DECIDED:
        return None
    if verdict.later is not None and result.previous is not None:
        return _alone(place, result.previous)
    (alone,) = judge([verdict.claim], result.scores_of, result.departure, look=result.history.looks)
    return alone.p


def _trained_parameters(study: Study, arm: str) -> int:
    """Returns the parameters of an arm's encoding that are trained."""
    assert isinstance(study.plan, Ablation)
    recipe = study.recipe(study.plan.arms[arm])
    return sum(recipe.encoding.trainable_parameters(shape) for shape in recipe.shapes)


def _line(verdict: CellVerdict) -> str:
    measured = "" if verdict.verdict.measured is None else f" {fixed(verdict.verdict.measured)}"
    return f"{verdict.verdict.claim}: {verdict.label}{measured}{verdict.note}"
