"""The table of how scores grow with the number of training images."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from search_spaces.words import plural
from service.analysis.data_efficiency import LEVELS, Curve, Needed
from service.analysis.format import between, fixed, metric_words, number
from service.reporting.pages import Column, Table

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


LAW, IMAGES, INTERVAL = "power law", "images for a score of", "95 % interval"
NOTE = (
    "For each seed the power law limit − fall × images^(−exponent) was fitted to its scores (least squares; the limit "
    "at most a perfect score). Limit and exponent: means over seeds{}. Residual: the root of the mean squared distance "
    "of scores from the law; where it is large, the law does not hold. Images for a score: the geometric mean over "
    "seeds of where the law reaches it, within the numbers of images that were tried."
)


def efficiency(result: StudyResult) -> Table | None:
    """Returns the power laws, and how many images each level needs.

    None if no trials form a curve with a shared seed.
    """
    curves = [curve for curve in result.efficiency if curve.laws]
    if not curves:
        return None
    columns = [
        Column("trials", [curve.name for curve in curves], words=True),
        Column("images tried", [f"{min(curve.scores):,} to {max(curve.scores):,}" for curve in curves]),
        *_over_seeds(curves, "limit"),
        *_over_seeds(curves, "exponent"),
        Column(
            "residual",
            [fixed(residual.mean) if (residual := curve.over_seeds("error")) else "" for curve in curves],
            LAW,
        ),
    ]
    for share in LEVELS:
        columns += _images(number(curves[0].level(share)), [curve.needed(share) for curve in curves])
    intervals = any(column.head.endswith(INTERVAL) for column in columns)
    title = f"How the {metric_words(result.edition.study.score.test)} grows with the number of training images"
    note = NOTE.format(", with their 95 % intervals" * intervals)
    if any(scores.diverged for curve in curves for scores in curve.scores.values()):
        note += " A seed that diverged at some number of images has no law."
    return Table("efficiency", title, columns, note=note)


def _over_seeds(curves: list[Curve], name: str) -> list[Column]:
    """Returns a number of the laws over seeds, with its interval."""
    known = [curve.over_seeds(name) for curve in curves]
    columns = [Column(name, [fixed(estimate.mean) if estimate else "" for estimate in known], LAW)]
    if any(estimate is not None and estimate.testable for estimate in known):
        intervals = [between(estimate.interval()) if estimate else "" for estimate in known]
        columns.append(Column(f"{name}, {INTERVAL}", intervals, LAW, under=True))
    return columns


def _images(level: str, needed: list[Needed | None]) -> list[Column]:
    """Returns how many images a level needs, with the interval over seeds where every seed reaches it."""
    columns = [Column(level, [_needed_images(need) for need in needed], IMAGES)]
    intervals = [need.estimate.interval() if need and need.estimate else None for need in needed]
    if any(intervals):
        cells = [f"{math.exp(ends[0]):,.0f} to {math.exp(ends[1]):,.0f}" if ends else "" for ends in intervals]
        columns.append(Column(f"{level}, {INTERVAL}", cells, IMAGES, under=True))
    return columns


def _needed_images(needed: Needed | None) -> str:
    if needed is None:
        return ""
    count = len(needed.sizes)
    for outside, end in ((needed.beyond, f"over {needed.most:,}"), (needed.below, f"below {needed.least:,}")):
        if outside:
            return end + (f" ({outside} of {plural(count, 'seed')})" if outside < count else "")
    return f"{math.exp(needed.estimate.mean):,.0f}" if needed.estimate else ""
