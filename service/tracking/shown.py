"""What MLflow has of a row, and what it lacks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from mlflow.entities import Experiment
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME
from mlflow.utils.uri import append_to_uri_path

from service.tracking.row_contents import Point
from service.tracking.rows import IDENTITY, Row, RunId

LARGEST = 1.7976931348623157e308
"""What MLflow keeps of an infinite number."""


@dataclass
class Shown:
    """What MLflow has of a row. `step`: the last one with points. `latest`: every metric's last value."""

    id: str
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    latest: dict[str, float]
    step: int
    experiment: str
    files: str

    @classmethod
    def of(cls, run: Any) -> Shown:
        """Converts MLflow's own entity."""
        info, data = run.info, run.data
        step = max((metric.step for metric in data._metric_objs), default=-1)
        where = info.experiment_id, info.artifact_uri
        return cls(info.run_id, info.status, data.params, data.tags, data.metrics, step, *where)

    @property
    def row_id(self) -> RunId | None:
        """The row it shows; None if its tags are not those that locus writes."""
        level, seed = self.tags.get("locus.level"), self.tags.get("locus.seed")
        if level is None or not (seed is None or seed.isdecimal()):
            return None
        return level, self.tags.get("locus.number", ""), None if seed is None else int(seed)

    @classmethod
    def draft(cls, row: Row, tags: dict[str, str], place: Experiment) -> Shown:
        """Returns what MLflow will have of a row once it is inserted."""
        id = uuid4().hex
        files = append_to_uri_path(place.artifact_location, id, SqlAlchemyStore.ARTIFACTS_FOLDER_NAME)
        tags = tags | {MLFLOW_RUN_NAME: row.name}
        return cls(id, row.status, {**row.params}, tags, {}, -1, str(place.experiment_id), files)

    def add(self, points: Iterable[Point]) -> None:
        """Notes that points were sent."""
        for point in points:
            self.step = max(self.step, point.step)
            self.latest |= point.values

    def shows(self, row: Row) -> bool:
        """Returns whether its numbers and params are those of a row's training."""
        same = all(self.tags.get(name, "") == row.tags.get(name, "") for name in IDENTITY)
        return same and all(row.params.get(name, value) == value for name, value in self.params.items())

    def news(self, row: Row) -> list[Point]:
        """Returns the points of a row that were not sent, and its last numbers where they differ."""
        points = [point for point in row.points if point.step > self.step]
        if row.values is not None:
            values = {k: v for k, v in row.values.values.items() if not _equal(self.latest.get(k), v)}
            points += [Point(max(row.values.step, self.step), row.values.time, values)] if values else []
        return points


def _equal(shown: float | None, value: float) -> bool:
    kept = math.copysign(LARGEST, value) if math.isinf(value) else value
    return shown in (kept, value) or (shown is not None and math.isnan(shown) and math.isnan(value))
