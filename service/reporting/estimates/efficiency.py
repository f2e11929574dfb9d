"""The table of data efficiency: power laws over the number of training images, and how many images a score needs."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from search_spaces.words import plural
from service.analysis.estimates.data_efficiency import LEVELS, Curve, Needed
from service.analysis.format import between, fixed, metric_words, number
from service.reporting.table import Column, Table

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
    """The power laws, and how many images each level needs; None where no trials form a curve with a shared seed."""
    found = [curve for curve in result.efficiency if curve.laws]
    if not found:
        return None
    columns = [
        Column("trials", [curve.name for curve in found], words=True),
        Column("images tried", [f"{min(curve.scores):,} to {max(curve.scores):,}" for curve in found]),
        *_over_seeds(found, "limit"),
        *_over_seeds(found, "exponent"),
        Column("residual", [fixed(one.mean) if (one := curve.over_seeds("error")) else "" for curve in found], LAW),
    ]
    for share in LEVELS:
        columns += _images(number(found[0].level(share)), [curve.needed(share) for curve in found])
    intervals = any(column.head.endswith(INTERVAL) for column in columns)
    title = f"How the {metric_words(result.edition.study.score.test)} grows with the number of training images"
    note = NOTE.format(", with Student's 95 % interval" * intervals)
    if any(scores.diverged for curve in found for scores in curve.scores.values()):
        note += " A seed that diverged at some number of images has no law."
    return Table("efficiency", title, columns, note=note)


def _over_seeds(found: list[Curve], name: str) -> list[Column]:
    """A number of the laws over seeds, with its interval."""
    known = [curve.over_seeds(name) for curve in found]
    columns = [Column(name, [fixed(one.mean) if one else "" for one in known], LAW)]
    if any(one is not None and one.testable for one in known):
        intervals = [between(one.interval()) if one else "" for one in known]
        columns.append(Column(f"{name}, {INTERVAL}", intervals, LAW, under=True))
    return columns


def _images(level: str, needed: list[Needed | None]) -> list[Column]:
    """How many images a level needs, with the interval over seeds where every seed reaches it."""
    columns = [Column(level, [_needed_images(one) for one in needed], IMAGES)]
    intervals = [one.estimate.interval() if one and one.estimate else None for one in needed]
    if any(intervals):
        cells = [f"{math.exp(one[0]):,.0f} to {math.exp(one[1]):,.0f}" if one else "" for one in intervals]
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
