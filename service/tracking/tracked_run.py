"""What MLflow has of one row of a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from service.tracking.rows import MlflowStatus, RunId


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
        """The row it shows; None where its tags are not those that locus writes."""
        level, seed = self.tags.get("locus.level"), self.tags.get("locus.seed")
        if level is None or not (seed is None or seed.isdecimal()):
            return None
        return level, self.tags.get("locus.number", ""), None if seed is None else int(seed)
