"""How a study's numbers were made: recipe, code, machines, time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from search_spaces.space import Above, Choice, Domain, Real, Subset
from search_spaces.study import Ablation, Search
from search_spaces.words import Setting, configuration, listed, plural, quoted, setting_words, value_words
from service.reporting.figures.searched import Panel, axis_label, panels, shares, spreads
from service.reporting.further_tables import tuned_to
from service.reporting.table import Column, Table
from trainables.own import is_own

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
    """The time from the first start to the last fact, pauses included; 0 where nothing was started."""
    begun = [state.begun for state in result.history.states.values() if state.begun is not None]
    return (result.history.last or 0.0) - min(begun) if begun else 0.0


def varied(result: StudyResult) -> Table:
    """What the study changes: each arm's values, or each searched path with what it may be and how much it matters."""
    plan = result.edition.study.plan
    if isinstance(plan, Ablation):
        sets = ["; ".join(setting_words(values)) or "base" for values in plan.arms.values()]
        columns = [Column("arm", list(plan.arms), words=True), Column("sets", sets, words=True), *tuned_to(result)]
        return Table("arms", "What each arm changes", columns, note=_base_note(result))
    searched = panels(plan.space)
    recipes = [row.recipe for row in result.rows]
    columns = [
        Column("searched", [_path(panel, axis_label(panel.path, recipes)) for panel in searched], words=True),
        Column("may be", [_domain(panel.domain) for panel in searched], words=True),
    ]
    known = shares(result)
    if not known:
        return Table("space", "What the search may change", columns)
    known_to = spreads(result)
    cells = [f"{known[panel]:.2f} ± {known_to[panel]:.2f}" if panel in known else "" for panel in searched]
    columns.append(Column("importance", cells))
    return Table("space", "What the search may change, and how much it matters", columns, note=_importance_note(result))


def _base_note(result: StudyResult) -> str:
    """What arms have that do not set what others set: where the base differs from the defaults."""
    plan, common = result.edition.study.plan, {one.path for one in _shared(result)}
    assert isinstance(plan, Ablation)
    own = [one for one in configuration(result.edition.study.base) if one.default is not None]
    some = [one for one in own if one.path not in common and any(one.path not in arm for arm in plan.arms.values())]
    said = "; ".join(f"{one.path} = {one.value}" for one in some)
    return f"An arm that does not set one of these has the base's value: {said}." if said else ""


def _path(panel: Panel, label: str) -> str:
    return f"{label}, where {panel.given[0]} is {panel.given[1]}" if panel.given else label


def _importance_note(result: StudyResult) -> str:
    from service.planning.search.importance import DRAWS, MOST_POINTS, scored_points  # Optuna takes a while to import

    plan = result.edition.study.plan
    count = len(scored_points(result.history))
    some = f"{MOST_POINTS} of " if count > MOST_POINTS else ""
    learns = isinstance(plan, Search) and plan.sampler == "tpe"
    chosen = ", and the sampler chose these near good ones" if learns else ""
    return (
        "Importance: the share of the score's variance that a path explains (fANOVA of Optuna), estimated from "
        f"{some}the {plural(count, 'point')} that were not stopped at a rung; random points count, too. ± is its "
        f"standard deviation over {DRAWS} draws of these points, with replacement{chosen}."
    )


def _domain(domain: Domain) -> str:
    match domain:
        case Above(other=other, factor=factor):
            return f"{value_words(factor.low)} to {value_words(factor.high)} times {other}"
        case Choice(options=options):
            return f"one of {value_words(options)}"
        case Subset(of=of):
            return f"any of {value_words(of)}"
        case _:
            scale = ", on a log scale" if isinstance(domain, Real) and domain.log else ""
            return f"{value_words(domain.low)} to {value_words(domain.high)}{scale}"


def _shared(result: StudyResult) -> list[Setting]:
    """The settings that no trial changes."""
    changed = result.paths
    nodes = tuple(path.removesuffix("kind") for path in changed if path.endswith(".kind"))
    return [
        one
        for one in configuration(result.edition.study.base)
        if one.path not in changed and not one.path.startswith(nodes)
    ]


def shared(result: StudyResult) -> list[Table]:
    """What all trials share: where it differs from the defaults, and all of it."""
    settings = _shared(result)
    own = [one for one in settings if one.default is not None]
    differs = [
        Column("setting", [one.path for one in own], words=True),
        Column("here", [one.value for one in own], words=True),
        Column("default", [one.default or "" for one in own], words=True),
    ]
    every = [
        Column("setting", [one.path for one in settings], words=True),
        Column("value", [one.value for one in settings], words=True),
    ]
    count = plural(len(settings), "setting")
    return [
        *([Table("settings", "What every trial shares, where it differs from the defaults", differs)] if own else []),
        Table("recipe", f"All that the trials share, {count}", every, folded=True),
    ]


def own_sources(result: StudyResult) -> list[tuple[str, str]]:
    """The files of the user's own specs with their text, each once."""
    return list(dict.fromkeys(_sources(result.edition.study.plain())))


def _sources(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for path, kind in node.items():
            text = node.get(path.removesuffix("kind") + "source")
            if path.rpartition(".")[2] == "kind" and is_own(kind) and isinstance(text, str):
                yield kind.partition(":")[0], text
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _sources(item)
