"""How a study's numbers were made: recipe, code, machines, time."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import RunResult

SHOWN = {
    "device": "device",
    "host_cpu": "CPU",
    "host_cores": "cores",
    "host_memory_gib": "memory (GiB)",
    "machine": "architecture",
    "threads": "threads a run",
    "workers": "workers a run",
    "compile": "compiled",
    "graphs": "compiled graphs",
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
    """By name of a setting: each value that occurred, with the number of runs; several values are a mixture."""
    found: dict[str, Counter[str]] = {name: Counter() for name in SHOWN}
    for run in answered(result):
        for name in SHOWN:
            value = run.answered.environment.get(name) if run.answered else None
            if value not in (None, ""):
                found[name][str(value)] += 1
    return {name: dict(counts.most_common()) for name, counts in found.items() if counts}


def answered(result: StudyResult) -> list[RunResult]:
    """The runs that have an answer, each once, whatever number of trials share it."""
    runs = {run.run.key: run for row in result.rows for run in row.runs.values() if run.answered is not None}
    return list(runs.values())


def codes(result: StudyResult) -> dict[str, list[str]]:
    """By the code of the answer that counts: the trials that have such an answer."""
    arms = isinstance(result.edition.study.plan, Ablation)
    found: dict[str, list[str]] = {}
    for row in result.rows:
        for code in dict.fromkeys(run.code for run in row.runs.values() if run.answered is not None):
            found.setdefault(code, []).append(row.name if arms and row.trial.role == "trial" else row.trial.label)
    return found


def seed_rows(result: StudyResult) -> list[tuple[str, str]]:
    """The seeds that have an answer, of trials, confirmations and parents."""
    names = {
        "trial": "seeds",
        "rival": "seeds of random points",
        "confirmation": "seeds of the confirmation",
        "tuning": "seeds of the tuning",
        "parent": "seeds of parents",
    }
    found = []
    for role, name in names.items():
        known = {run.run.seed for row in result.of(role) for run in row.runs.values() if run.answered is not None}
        if known:
            found.append((name, ", ".join(map(str, sorted(known)))))
    return found


def surroundings(result: StudyResult) -> list[tuple[str, str, bool]]:
    """Seeds, machines and versions: name, value, and whether it is mixed. A mixture counts the runs of each value."""
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
    """Each code that trained an answer, in short, with the trials that it trained."""
    found = codes(result)
    return [
        (code[:SHORT], "all trials" if len(found) == 1 else listed([*map(quoted, names)]))
        for code, names in found.items()
    ]


def adopted(result: StudyResult) -> int:
    """How many runs count although other code trained them."""
    return sum(run.adopted for run in answered(result))


def trained_s(result: StudyResult) -> float:
    """The time that runs of this study trained, reused ones left out."""
    unique = {(run.run.key, run.code): run for row in result.rows for run in row.runs.values()}
    return sum(run.seconds for run in unique.values() if not run.state.reused)


def wall_s(result: StudyResult) -> float:
    """The time from the first start to the last fact, pauses included; 0 if nothing was started."""
    begun = [state.begun for state in result.history.states.values() if state.begun is not None]
    return (result.history.last or 0.0) - min(begun) if begun else 0.0
