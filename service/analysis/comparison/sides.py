"""The two sides of a comparison: what each study, or each code version of one, has to be compared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.study import Ablation, Edition, Trial
from search_spaces.words import plural, quoted
from service.analysis.statistics import Scores
from service.storage.outcomes import Answered
from trainables.spec import digest

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


@dataclass(frozen=True)
class Contender:
    """One trial to be compared. `place`: what it is matched by; `answers`: those that count, by seed."""

    place: str
    name: str
    trial: Trial
    test: Scores
    answers: Mapping[int, Answered]


@dataclass(frozen=True)
class Side:
    """One of the two sides. `label`: what a page calls it; `remarks`: what a reader must know of it.

    `looks`: how many times verdicts on its study could be seen (`History.looks`).
    """

    label: str
    edition: Edition
    contenders: tuple[Contender, ...]
    remarks: tuple[str, ...] = ()
    looks: int = 1


def side(result: StudyResult) -> Side:
    """A study as its report shows it: every arm, or the confirmed points of a search."""
    ablation = isinstance(result.edition.study.plan, Ablation)
    rows = result.of("trial") if ablation else result.confirmed
    found = [_of_row(row, place) for row in rows for place in _places(result, row)]
    remarks = tuple(_remarks(result, rows))
    return Side(result.edition.id, result.edition, tuple(found), remarks, result.history.looks)


def _of_row(row: TrialResult, place: str) -> Contender:
    answers = {seed: run.answered for seed, run in row.runs.items() if run.answered is not None}
    name = row.name if place.startswith(("arm", "point")) else f"{place}: {row.name}"
    return Contender(place, name, row.trial, row.test, answers)


def _places(result: StudyResult, row: TrialResult) -> list[str]:
    """What a row is matched by. The best and the first point of a search may be one trial, which then stands twice."""
    if isinstance(result.edition.study.plan, Ablation):
        return [arm_place(row.trial)]
    names = [name for name, named in result.named.items() if named is row]
    return names or [point_place(row.trial)]


def arm_place(trial: Trial) -> str:
    """Arms are matched by their names."""
    return f"arm {trial.name}"


def point_place(trial: Trial) -> str:
    """Points of searches are matched by all digits of their values."""
    return f"point {digest(trial.values)}"


def _remarks(result: StudyResult, rows: Iterable[TrialResult]) -> list[str]:
    id, remarks = result.edition.id, []
    if result.departure:
        remarks.append(f"{id}: {result.departure.why}")
    if missing := [row.name for row in rows if not row.test.complete]:
        remarks.append(f"{id} lacks seeds of {', '.join(map(quoted, missing))}")
    if not isinstance(result.edition.study.plan, Ablation) and not result.confirmed:
        remarks.append(f"{id} has no confirmed point yet: points are not looked at on the test set before")
    if result.stale:
        remarks.append(f"{id}: {plural(result.stale, 'answer')} of other code not counted (--adopt counts them)")
    return remarks
