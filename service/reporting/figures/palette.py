"""One look for each trial on the whole page: a color, and beyond eight trials a line style and a marker.

An arm has the color of its place among the arms; arms that differ in the number of training images alone share a color,
and differ in the line style and the marker. Of a search the confirmed points have colors, and all other points
are gray. No color means "best": the best trial is marked by weight and by ink.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from search_spaces.roles import RIVALS
from search_spaces.study import Ablation
from service.reporting.figures.style import POINT, SERIES

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult

DASHES: tuple[Any, ...] = ("-", (0, (5, 1.6)), (0, (1.6, 1.4)), (0, (6, 1.5, 1.5, 1.5)))
MARKERS = ("o", "s", "^", "D")


@dataclass(frozen=True)
class Look:
    """How a trial is drawn."""

    color: str
    dash: Any = "-"
    marker: str = "o"


GRAY = Look(POINT)
"""A point of a search that was not confirmed."""


@dataclass(frozen=True)
class Palette:
    """The look of each trial, by its number. A point and its confirmation look alike; random points are gray."""

    looks: dict[int, Look]

    @classmethod
    def of(cls, result: StudyResult) -> Palette:
        """The looks of a study's trials; of a search without a confirmation, the best so far has a color."""
        if isinstance(result.edition.study.plan, Ablation):
            if result.by_size:
                return cls(_by_curve(result))
            numbers = [row.trial.number for row in result.of("trial")]
        else:
            numbers = sorted(result.history.confirms or [row.trial.number for row in result.winners])
        return cls({number: _look(place) for place, number in enumerate(numbers)})

    def __getitem__(self, row: TrialResult) -> Look:
        return self.looks.get(row.trial.number, GRAY) if row.trial.role not in RIVALS else GRAY

    def named(self, row: TrialResult) -> bool:
        """Whether a trial has a color of its own."""
        return row.trial.number in self.looks and row.trial.role not in RIVALS


def _look(place: int) -> Look:
    again = place // len(SERIES)
    return Look(SERIES[place % len(SERIES)], DASHES[again % len(DASHES)], MARKERS[again % len(MARKERS)])


def _by_curve(result: StudyResult) -> dict[int, Look]:
    """A color a curve; arms of no curve have one each. Sixteen looks of a color differ."""
    numbers = [[row.trial.number for row in rows] for rows in result.by_size]
    inside = {number for some in numbers for number in some}
    numbers += [[row.trial.number] for row in result.of("trial") if row.trial.number not in inside]
    numbers.sort(key=min)
    most = max(map(len, numbers))
    looks = {}
    for place, some in enumerate(numbers):
        for step, number in enumerate(some, place // len(SERIES) * most):
            marker = MARKERS[(step + step // len(DASHES)) % len(MARKERS)]
            looks[number] = Look(SERIES[place % len(SERIES)], DASHES[step % len(DASHES)], marker)
    return looks
