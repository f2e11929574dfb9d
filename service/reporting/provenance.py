"""How a study's numbers were made: recipe, code, machines, time; and what each trial cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from statistics import median
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.trial_result import AFFECT_TIME
from service.reporting.pages import Column
from trainables.recipe.cost import estimate_cost

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import RunResult, TrialResult


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
"""What of an environment is shown, in this order, and how a page calls it."""
MEANING = {("workers", "0"): "0 (each run in one process)", ("host_memory_gib", "0.0"): "unknown"}
"""Values that do not explain themselves."""
SHORT = 7
"""How many digits of a digest a page shows, as git does."""


def circumstances(result: StudyResult) -> dict[str, dict[str, int]]:
    """Returns, by setting, each value that occurred and its number of runs; several values are a mixture."""
    tallies: dict[str, Counter[str]] = {name: Counter() for name in SHOWN}
    for run in answered(result):
        for name in SHOWN:
            value = run.answered.environment.get(name) if run.answered else None
            if value not in (None, ""):
                tallies[name][str(value)] += 1
    return {name: dict(counts.most_common()) for name, counts in tallies.items() if counts}


def answered(result: StudyResult) -> list[RunResult]:
    """Returns the runs that have an answer, each once, whatever number of trials share it."""
    runs = {run.run.key: run for row in result.rows for run in row.runs.values() if run.answered is not None}
    return list(runs.values())


def codes(result: StudyResult) -> dict[str, list[str]]:
    """Returns, by the code of the answer that counts, the trials that have such an answer."""
    arms = isinstance(result.edition.study.plan, Ablation)
    by_code: dict[str, list[str]] = {}
    for row in result.rows:
        for code in dict.fromkeys(run.code for run in row.runs.values() if run.answered is not None):
            by_code.setdefault(code, []).append(row.name if arms and row.trial.role == "trial" else row.trial.label)
    return by_code


def seed_rows(result: StudyResult) -> list[tuple[str, str]]:
    """Returns the seeds that have an answer, of trials, confirmations and parents."""
    names = {
        "trial": "seeds",
        "rival": "seeds of random points",
        "confirmation": "seeds of the confirmation",
        "tuning": "seeds of the tuning",
        "parent": "seeds of parents",
    }
    rows = []
    for role, name in names.items():
        known = {run.run.seed for row in result.of(role) for run in row.runs.values() if run.answered is not None}
        if known:
            rows.append((name, ", ".join(map(str, sorted(known)))))
    return rows


def surroundings(result: StudyResult) -> list[tuple[str, str, bool]]:
    """Lists seeds, machines and versions: name, value, whether it is mixed. A mixture counts the runs of each value."""
    rows = [(name, value, False) for name, value in seed_rows(result)]
    for name, counts in circumstances(result).items():
        words = {MEANING.get((name, value), value): count for value, count in counts.items()}
        rows.append((SHOWN[name], _mixture(words), len(words) > 1))
    return rows


def _mixture(counts: dict[str, int]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return "mixed: " + ", ".join(f"{value} ({plural(count, 'run')})" for value, count in counts.items())


def code_rows(result: StudyResult) -> list[tuple[str, str]]:
    """Returns each code that trained an answer, in short, with the trials that it trained."""
    by_code = codes(result)
    return [
        (code[:SHORT], "all trials" if len(by_code) == 1 else listed([*map(quoted, names)]))
        for code, names in by_code.items()
    ]


def trained_s(result: StudyResult) -> float:
    """Returns the time that runs of this study trained, reused ones left out."""
    unique = {(run.run.key, run.code): run for row in result.rows for run in row.runs.values()}
    return sum(run.seconds for run in unique.values() if not run.state.reused)


def wall_s(result: StudyResult) -> float:
    """Returns the time from the first start to the last fact, pauses included; 0 if nothing was started."""
    started = any(state.begun is not None for state in result.history.states.values())  # that of its last try
    return (result.history.last or 0.0) - (result.history.begun or 0.0) if started else 0.0


GROUP = "cost"
UNITS = (("h", 3600.0), ("min", 60.0), ("s", 1.0))
WITHOUT_PARENTS = "The time that a trial's parents trained is not in it."
FUSED = "Of runs that trained as one, each has its part of their time."
MIXED = "The runs trained on different machines or with different settings, so their times cannot be compared exactly."


def training_s(row: TrialResult) -> float | None:
    """Returns the time of all epochs of a completed run, validation included; None for none. Units: seconds.

    It is the median over the runs, because a run may have shared the machine with other programs.
    """
    times = [run.seconds for run in row.runs.values() if run.state.status == "completed" and run.seconds > 0]
    return median(times) if times else None


def train_time_unit(rows: Iterable[TrialResult]) -> tuple[str, float]:
    """Returns the unit for all times of these trials, and its seconds: the largest unit that suits the longest time."""
    longest = max((training_s(row) or 0.0 for row in rows), default=0.0)
    return next(((unit, size) for unit, size in UNITS if longest >= 3 * size), UNITS[-1])


def parameters(row: TrialResult) -> int:
    """Returns how many parameters a trial's model has."""
    return estimate_cost(row.recipe).parameters


def cost_columns(rows: Sequence[TrialResult]) -> list[Column]:
    """Returns the time of a run, where any is known, and under it what else it took.

    Parameters where the trials differ.
    """
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
    """Returns images a second, and the time of all devices where a run had several."""
    costs = {
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
        for head, values in costs.items()
        if any(value is not None for value in values)
    ]


def _several(rows: Iterable[TrialResult]) -> bool:
    """Returns whether a run had more than one device."""
    return any(run.device_s > run.seconds for row in rows for run in row.runs.values())


def sizes(rows: Sequence[TrialResult]) -> list[Column]:
    """Returns how many parameters each trial's model has, and how many learn, where trials differ in that."""
    weights = [estimate_cost(row.recipe) for row in rows]
    counts = {"parameters": [weight.parameters for weight in weights]}
    learnt = [weight.learnt for weight in weights]
    if learnt != counts["parameters"]:
        counts["learnt"] = learnt
    shown = {head: [f"{count:,}" for count in some] for head, some in counts.items() if len({*some}) > 1}
    return [Column(head, cells, GROUP, name=head) for head, cells in shown.items()]


def cost_note(result: StudyResult, rows: Sequence[TrialResult]) -> list[str]:
    """Returns what a reader must know about a table's costs: what a time is, and the size that all models share."""
    notes = []
    if any(training_s(row) is not None for row in rows):
        notes += ["The time is that of all epochs of a run; costs are medians over the completed runs."]
        notes += [WITHOUT_PARENTS] if result.of("parent") else []
        notes += [FUSED] if any(run.together for row in rows for run in row.runs.values()) else []
        notes += [MIXED] if mixed_machines(result) else []
    counts = {parameters(row) for row in rows}
    if len(counts) == 1:
        notes += [f"Every model has {counts.pop():,} parameters."]
    return notes


def mixed_machines(result: StudyResult) -> bool:
    """Returns whether the runs trained on machines, or with settings, that make the same training faster or slower."""
    settings = circumstances(result)
    return any(len(settings.get(name, {})) > 1 for name in AFFECT_TIME)
