"""Says how a study's numbers were made (seeds, code, machines, versions, time), and what each trial cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median

from search_spaces.roles import Role
from search_spaces.words import duration, plural
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import AFFECT_TIME, TrialResult
from service.reporting.pages import Column
from trainables.recipe.cost import estimate_cost

SHOWN = {
    "device": "device",
    "host_cpu": "CPU",
    "host_cores": "cores",
    "host_memory_gib": "memory (GiB)",
    "machine": "architecture",
    "threads": "threads a run",
    "workers": "workers a run",
    "compile": "compiled",
    "fused": "runs trained as one",
    "graphs": "compiled graphs",
    "grad_checkpointing": "gradient checkpointing",
    "deterministic": "deterministic",
    "accumulate": "parts of a batch",
    "matmul_fp32_precision": "matrix products in float32",
    "conv_fp32_precision": "convolutions in float32",
    "init_sha256": "SHA-256 of initial weights",
    "init_entry": "place of initial weights in their file",
    "init_left_out": "left out of that file",
    "init_image_size": "image size of initial weights",
    "python": "Python",
    "torch": "PyTorch",
    "timm": "timm",
    "ray": "Ray",
    "optuna": "Optuna",
    "mlflow": "MLflow",
    "commit": "commit",
}
"""By each entry of a run's stored environment that a page shows, in this order: the page's word for it."""
MEANING = {("workers", "0"): "0 (each run in one process)", ("host_memory_gib", "0.0"): "unknown"}
"""By entry and value: the words for a value that does not explain itself."""
SEEDS: dict[Role, str] = {
    "trial": "seeds",
    "rival": "seeds of random points",
    "confirmation": "seeds of the confirmation",
    "tuning": "seeds of the tuning",
    "parent": "seeds of parents",
}
"""By the role of trials: a page's words for their seeds."""
GROUP = "cost"
UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))
MIXED = "The runs trained on different machines or with different settings, so their times cannot be compared exactly."


def circumstances(result: StudyResult) -> dict[str, dict[str, int]]:
    """Returns, by entry of the environment, each value that occurred, with the number of runs that had it."""
    runs = {run.run.key: run.answered for row in result.rows for run in row.runs.values() if run.answered is not None}
    tallies = {}
    for name in SHOWN:
        values = (answered.environment.get(name) for answered in runs.values())
        counts = Counter(str(value) for value in values if value not in (None, ""))
        if counts:
            tallies[name] = dict(counts.most_common())
    return tallies


def surroundings(result: StudyResult) -> list[tuple[str, str, bool]]:
    """Returns seeds, machines and versions, as rows of a name, a value, and whether the value is mixed.

    A mixed value lists all values that occurred, each with its number of runs.
    """
    rows = []
    for role, name in SEEDS.items():
        runs = [run for row in result.of(role) for run in row.runs.values() if run.answered is not None]
        if runs:
            rows.append((name, ", ".join(map(str, sorted({run.run.seed for run in runs}))), False))
    for name, counts in circumstances(result).items():
        texts = {MEANING.get((name, value), value): count for value, count in counts.items()}
        mixture = ", ".join(f"{value} ({plural(count, 'run')})" for value, count in texts.items())
        rows.append((SHOWN[name], f"mixed: {mixture}" if len(texts) > 1 else next(iter(texts)), len(texts) > 1))
    return rows


def effort(result: StudyResult) -> str:
    """Returns a sentence on how many runs were trained and reused, and how long this took, with pauses."""
    from service.analysis.tables import costs  # pandas takes a while to import

    runs = list({(run.run.key, run.code): run for row in result.rows for run in row.runs.values()}.values())
    trained = [run for run in runs if not run.state.reused]
    count = plural(sum(run.epochs > 0 for run in trained), "run")
    text = f"{count} trained here, {duration(sum(run.seconds for run in trained))} of training, summed over runs"
    spent = costs(trained)
    if (spent["device_s"] or 0.0) > (spent["time_s"] or 0.0):
        text += f", {duration(spent['device_s'] or 0.0)} of devices"
    text += f"; {plural(len(runs) - len(trained), 'answer')} reused" if len(trained) < len(runs) else ""
    started = any(state.begun is not None for state in result.history.states.values())  # the start of its last try
    wall_s = (result.history.last or 0.0) - (result.history.begun or 0.0) if started else 0.0
    return f"{text}; {duration(wall_s)} from the first start to the last result."


def training_s(row: TrialResult) -> float | None:
    """Returns the median time of a trial's completed runs, with validation; None if there are none. Units: seconds."""
    times = [run.seconds for run in row.runs.values() if run.state.status == "completed" and run.seconds > 0]
    return median(times) if times else None


def train_time_unit(rows: Iterable[TrialResult]) -> tuple[str, float]:
    """Returns the unit in which all times of these trials are shown, and the number of seconds in it.

    It is the largest unit of which the longest time has at least three.
    """
    longest = max((training_s(row) or 0.0 for row in rows), default=0.0)
    return next(((unit, size) for unit, size in UNITS if longest >= 3 * size), UNITS[-1])


def cost_columns(rows: Sequence[TrialResult]) -> list[Column]:
    """Returns the columns of costs: time, images/s and device-seconds, where known; parameters, where trials differ."""
    columns = []
    times = [training_s(row) for row in rows]
    if any(time is not None for time in times):
        unit, size = train_time_unit(rows)
        longest = max(time or 0.0 for time in times) / size
        digits = 0 if longest >= 100 else 1 if longest >= 10 else 2
        cells = ["" if time is None else f"{time / size:.{digits}f}" for time in times]
        columns.append(Column(f"time ({unit})", cells, GROUP, name="time"))

    speeds = {"images/s": [row.median_cost(lambda run: run.images_per_s) for row in rows]}
    if any(run.device_s > run.seconds for row in rows for run in row.runs.values()):
        speeds["device-seconds"] = [row.median_cost(lambda run: run.device_s) for row in rows]
    for head, values in speeds.items():
        if any(value is not None for value in values):
            cells = ["" if value is None else f"{value:,.0f}" for value in values]
            columns.append(Column(head, cells, GROUP, under=True, name=head))

    weights = [estimate_cost(row.recipe) for row in rows]
    counts = {"parameters": [weight.parameters for weight in weights], "learnt": [weight.learnt for weight in weights]}
    if counts["learnt"] == counts["parameters"]:
        del counts["learnt"]
    for head, numbers in counts.items():
        if len({*numbers}) > 1:
            columns.append(Column(head, [f"{number:,}" for number in numbers], GROUP, name=head))
    return columns


def cost_warning(result: StudyResult) -> str:
    """Returns a warning if machines or settings differ that change the times of runs; else an empty text."""
    settings = circumstances(result)
    return MIXED if any(len(settings.get(name, {})) > 1 for name in AFFECT_TIME) else ""
