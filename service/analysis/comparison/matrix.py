"""A matrix filled with what the studies of a home found."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from search_spaces import library
from search_spaces.matrix import Mark, Matrix, Property
from search_spaces.study import Ablation, Study
from search_spaces.words import plural
from service.analysis.claims.verdicts import Verdict
from service.analysis.format import fixed
from service.analysis.study_result import StudyResult
from service.storage.home import Home
from trainables.recipe.code_digest import CodeDigests


@dataclass(frozen=True)
class FilledCell:
    """What the paper printed, and what was found: the verdicts of claims, or a number of parameters.

    `parameters`: the encoding's parameters that are trained; None where the row counts none. `study_ran`: whether the
    home has the row's study at this budget; without it there are no verdicts.
    """

    row: str
    encoding: str
    published: Mark
    study: str
    study_ran: bool
    verdicts: tuple[Verdict, ...] = ()
    parameters: int | None = None

    @property
    def found(self) -> list[str]:
        """What was found, a line each."""
        if self.parameters is not None:
            return [f"{plural(self.parameters, 'parameter')} learn" if self.parameters != 1 else "1 parameter learns"]
        if not self.study_ran:
            return [f"{self.study} was not run"]
        return [_line(verdict) for verdict in self.verdicts] or ["not tested"]

    def plain(self) -> dict[str, Any]:
        """As plain values."""
        claims = [
            {"claim": str(one.claim), "verdict": one.word, "measured": one.measured, "seeds": one.n}
            for one in self.verdicts
        ]
        return {
            "property": self.row,
            "encoding": self.encoding,
            "published": self.published,
            "study": self.study,
            "ran": self.study_ran,
            "claims": claims,
            "parameters": self.parameters,
        }


@dataclass(frozen=True)
class FilledMatrix:
    """A matrix at a budget. `cells`: row by row; `missing`: the studies that the home does not have at this budget."""

    matrix: Matrix
    budget: str
    cells: tuple[tuple[FilledCell, ...], ...]
    missing: tuple[str, ...]

    @property
    def id(self) -> str:
        """NAME@BUDGET."""
        return f"{self.matrix.name}@{self.budget}"

    @property
    def commands(self) -> list[str]:
        """What fills the rest."""
        return [f"locus run {study} --budget {self.budget}" for study in self.missing]

    @property
    def headline(self) -> str:
        """How many of the claims hold, in a sentence."""
        words = [verdict.word for row in self.cells for cell in row for verdict in cell.verdicts]
        if not words:
            return f"No claim is judged yet at {self.budget}."
        counts = {word: words.count(word) for word in dict.fromkeys(words)}
        said = ", ".join(f"{count} {word}" for word, count in counts.items())
        return f"Of {plural(len(words), 'claim')} behind the table, at {self.budget}: {said}."

    def plain(self) -> dict[str, Any]:
        """As plain values."""
        rows = [cell.plain() for row in self.cells for cell in row]
        return {"matrix": self.id, "paper": self.matrix.paper, "cells": rows, "missing": list(self.missing)}


def fill(home: Home, matrix: Matrix, budget: str, *, adopt: bool = False) -> FilledMatrix:
    """A matrix with the verdicts of the studies that a home has at a budget. `adopt`: answers of older code count."""
    codes = CodeDigests()
    ids = home.ids()
    ran = [study for study in matrix.studies if f"{study}@{budget}" in ids]
    results = {study: StudyResult.open(home, f"{study}@{budget}", adopt=adopt, codes=codes) for study in ran}
    rows = tuple(
        tuple(_cell(row, encoding, budget, results.get(row.study)) for encoding in matrix.encodings)
        for row in matrix.rows
    )
    missing = {row.study: None for row in matrix.rows if row.shown_by != "parameters" and row.study not in results}
    return FilledMatrix(matrix, budget, rows, tuple(missing))


def _cell(row: Property, encoding: str, budget: str, result: StudyResult | None) -> FilledCell:
    cell = row.cells[encoding]
    known = FilledCell(row.name, encoding, cell.published, row.study, result is not None)
    if row.shown_by == "parameters":
        study = library.find(row.study).at(budget).study
        return replace(known, parameters=_trained_parameters(study, cell.arms[0]))
    if result is None:
        return known
    asked = row.claims(encoding, result.edition.study)
    verdicts = tuple(verdict for verdict in result.claims if verdict.claim in asked)
    return replace(known, verdicts=verdicts)


def _trained_parameters(study: Study, arm: str) -> int:
    """The parameters of an arm's encoding that are trained."""
    assert isinstance(study.plan, Ablation)
    recipe = study.recipe(study.plan.arms[arm])
    return sum(recipe.encoding.trainable_parameters(shape) for shape in recipe.shapes)


def _line(verdict: Verdict) -> str:
    measured = "" if verdict.measured is None else f" {fixed(verdict.measured)}"
    return f"{verdict.claim}: {verdict.label}{measured}"
