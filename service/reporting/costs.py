"""What a trial costs: the time of a run's training, and the parameters of its model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from service.reporting.provenance import circumstances
from service.reporting.table import Column
from trainables.recipe.cost import estimate_cost

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult

GROUP = "cost"
UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))
AFFECT_TIME = ("device", "host_cpu", "machine", "threads", "workers", "matmul_fp32_precision", "conv_fp32_precision")
"""What of an environment makes the same training faster or slower."""
WITHOUT_PARENTS = "The time that a trial's parents trained is not in it."
MIXED = "The runs trained on different machines or with different settings, so their times cannot be compared exactly."


def training_s(row: TrialResult) -> float | None:
    """The time of all epochs of a completed run, validation included; None for none. Units: seconds.

    It is the median over the runs, because a run may have shared the machine with other programs.
    """
    times = [run.seconds for run in row.runs.values() if run.state.status == "completed" and run.seconds > 0]
    return median(times) if times else None


def train_time_unit(rows: Iterable[TrialResult]) -> tuple[str, float]:
    """The unit in which all times of these trials are written, and its seconds: the largest that suits the longest."""
    longest = max((training_s(row) or 0.0 for row in rows), default=0.0)
    return next(((unit, size) for unit, size in UNITS if longest >= 3 * size), UNITS[-1])


def parameters(row: TrialResult) -> int:
    """How many parameters a trial's model has."""
    return estimate_cost(row.recipe).parameters


def cost_columns(rows: Sequence[TrialResult]) -> list[Column]:
    """The time of a run, where any is known, and under it what else it took; parameters where the trials differ."""
    return [*_time(rows), *_further(rows), *sizes(rows)]


def _time(rows: Sequence[TrialResult]) -> list[Column]:
    times = [training_s(row) for row in rows]
    if not any(time is not None for time in times):
        return []
    unit, size = train_time_unit(rows)
    longest = max(time or 0.0 for time in times) / size
    digits = 0 if longest >= 100 else 1 if longest >= 10 else 2
    cells = ["" if time is None else f"{time / size:.{digits}f}" for time in times]
    return [Column(f"time ({unit})", cells, GROUP, name="time")]


def _further(rows: Sequence[TrialResult]) -> list[Column]:
    """Images a second, and the time of all devices where a run had several."""
    found = {
        "images/s": [row.median_cost(lambda run: run.images_per_s) for row in rows],
        "device-seconds": [row.median_cost(lambda run: run.device_s) for row in rows] if _several(rows) else [],
    }
    return [
        Column(
            head,
            ["" if value is None else f"{value:,.0f}" for value in values],
            GROUP,
            under=True,
            name=head,
        )
        for head, values in found.items()
        if any(value is not None for value in values)
    ]


def _several(rows: Iterable[TrialResult]) -> bool:
    """Whether a run had more than one device."""
    return any(run.device_s > run.seconds for row in rows for run in row.runs.values())


def sizes(rows: Sequence[TrialResult]) -> list[Column]:
    """How many parameters each trial's model has, and how many learn, where trials differ in that."""
    weights = [estimate_cost(row.recipe) for row in rows]
    counts = {"parameters": [weight.parameters for weight in weights]}
    learnt = [weight.learnt for weight in weights]
    if learnt != counts["parameters"]:
        counts["learnt"] = learnt
    shown = {head: [f"{count:,}" for count in some] for head, some in counts.items() if len({*some}) > 1}
    return [Column(head, cells, GROUP, name=head) for head, cells in shown.items()]


def cost_note(result: StudyResult, rows: Sequence[TrialResult]) -> list[str]:
    """What a reader must know about the costs of a table: what a time is, and the size that all models share."""
    found = []
    if any(training_s(row) is not None for row in rows):
        found += ["The time is that of all epochs of a run; costs are medians over the completed runs."]
        found += [WITHOUT_PARENTS] if result.of("parent") else []
        found += [MIXED] if mixed_machines(result) else []
    counts = {parameters(row) for row in rows}
    if len(counts) == 1:
        found += [f"Every model has {counts.pop():,} parameters."]
    return found


def mixed_machines(result: StudyResult) -> bool:
    """Whether the runs trained on machines, or with settings, that make the same training faster or slower."""
    found = circumstances(result)
    return any(len(found.get(name, {})) > 1 for name in AFFECT_TIME)
