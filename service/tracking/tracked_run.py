"""What MLflow has of one row of a study."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.tracking.rows import MlflowStatus, Row, RunId

LARGEST = 1.7976931348623157e308
"""What MLflow keeps of an infinite number."""
Curve = list[tuple[int, float]]
"""The steps and values of a metric."""


@dataclass
class TrackedRun:
    """What MLflow has of one row. `step`: the last one with points. `latest`: every metric's last value."""

    id: str
    status: MlflowStatus
    params: dict[str, str]
    tags: dict[str, str]
    latest: dict[str, float]
    step: int
    experiment: str = ""
    files: str = ""

    @classmethod
    def of(cls, run: Any) -> TrackedRun:
        """From MLflow's own entity."""
        step = max((metric.step for metric in run.data._metric_objs), default=-1)
        info, data = run.info, run.data
        where = info.experiment_id, info.artifact_uri
        return cls(info.run_id, info.status, data.params, data.tags, data.metrics, step, *where)

    @property
    def row_id(self) -> RunId | None:
        """The row it shows; None if its tags are not those that locus writes."""
        level, seed = self.tags.get("locus.level"), self.tags.get("locus.seed")
        if level is None or not (seed is None or seed.isdecimal()):
            return None
        return level, self.tags.get("locus.number", ""), None if seed is None else int(seed)

    def differs(self, row: Row, curves: Mapping[str, Curve]) -> tuple[set[str], set[str]]:
        """The metrics that are not as a row has them: those with a wrong point, and those that lack the last points.

        `curves`: all points that MLflow has, by metric.
        """
        wanted: dict[str, Curve] = {}
        for point in row.points:
            for name, value in point.values.items():
                wanted.setdefault(name, []).append((point.step, value))
        wrong, lacks = set[str](), set[str]()
        for name, curve in wanted.items():
            there, last = curves.get(name, []), self.latest.get(name)
            begins = len(there) <= len(curve) and all(map(_equal_points, there, curve))
            if not begins or (there and last is not None and not equal(last, there[-1][1])):
                wrong.add(name)
            elif len(there) < len(curve):
                lacks.add(name)
        return wrong, lacks

    def other_params(self, row: Row) -> set[str]:
        """The params that have another value than a row's."""
        return {name for name, value in self.params.items() if row.params.get(name, value) != value}


def equal(one: float, other: float) -> bool:
    """Whether MLflow's number is the journal's. In a damaged database it may be a text."""
    kept = math.copysign(LARGEST, other) if math.isinf(other) else other
    return one in (kept, other) or (isinstance(one, float) and math.isnan(one) and math.isnan(other))


def _equal_points(one: tuple[int, float], other: tuple[int, float]) -> bool:
    return one[0] == other[0] and equal(one[1], other[1])
