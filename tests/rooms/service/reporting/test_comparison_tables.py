"""The table of a comparison: B minus A in numbers, and drawn in the same direction on one axis."""

import re

import pytest

from service.analysis.comparison import Comparison, Contender, Side
from service.analysis.format import signed
from service.analysis.statistics import Scores
from service.reporting.pages import scores
from tests.rooms.by_hand import ablation

A = {"none": (0.70, 0.72, 0.71, 0.70), "learnable": (0.90, 0.93, 0.91, 0.92)}
B = {"none": (0.74, 0.80, 0.76, 0.75), "learnable": (0.88, 0.91, 0.92, 0.87)}


def side(label: str, values: dict[str, tuple[float, ...]], fallen: frozenset[int] = frozenset()) -> Side:
    edition = ablation().at()
    found = (
        Contender(arm.name, arm.name, arm, Scores(dict(enumerate(values[arm.name])), 4, diverged=fallen), {})
        for arm in edition.arms()
        if arm.name in values
    )
    return Side(label, edition, tuple(found))


def test_what_is_better_in_b_is_drawn_right_of_zero() -> None:
    comparison = Comparison(side("a", A), side("b", B, frozenset({3})))
    cells = {column.full_head: column.cells for column in scores(comparison).columns}
    assert cells["B minus A, mean"] == [signed(gap.mean) for gap in comparison.differences.values()]
    scales = []
    for place, drawing in enumerate(cells["B minus A"]):
        gap, name = comparison.differences[place], comparison.matches[place].name
        seeds = [b - a for a, b in zip(A[name], B[name], strict=True)]
        zero = float(re.search(r'<line x1="([\d.]+)" x2="\1" y1="0"', drawing)[1])
        drawn = [*map(float, re.search(r'<line x1="([\d.]+)" x2="([\d.]+)" y1="7"', drawing).groups())]
        drawn += map(float, re.findall(r'<circle cx="([\d.]+)"', drawing))
        drawn += [2 + float(x) for x in re.findall(r'<path d="M([\d.]+) 14', drawing)]
        told = [*gap.interval, gap.mean, *seeds]
        scales += [(x - zero) / value for x, value in zip(drawn, told, strict=True) if abs(value) > 0.03]
        assert [x > zero for x in drawn] == [value > 0 for value in told]
    assert min(scales) > 0
    assert scales == pytest.approx([scales[0]] * len(scales), rel=0.01), "one axis for all"
