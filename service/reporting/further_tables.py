"""The further tables of results: a search's points, parents, and what did not run to the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from search_spaces.roles import Role
from search_spaces.space import Above, Choice, Domain, Real, Subset
from search_spaces.study import Ablation, Search
from search_spaces.words import Setting, configuration, duration, listed, plural, quoted, setting_words, value_words
from service.analysis.best import ranked
from service.analysis.estimates.tuning import ArmTuning, tunings
from service.analysis.format import metric_words, spread, two
from service.analysis.trial_result import TrialResult
from service.reporting.costs import cost_columns
from service.reporting.figures.searched import Panel, axis_label, panels, shares, spreads
from service.reporting.results_table import score_columns, seeds
from service.reporting.table import Column, Table
from service.storage.history import ancestors
from trainables.own import is_own
from trainables.spec import SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


def points(result: StudyResult) -> Table | None:
    """Every point of a search on validation, best first, then by how far it came."""
    return None if isinstance(result.edition.study.plan, Ablation) else _points(result, "trial", "point", "points")


def random_points(result: StudyResult) -> Table | None:
    """The same of the random points that a search is compared with."""
    return _points(result, "rival", "random point", "random")


def _points(result: StudyResult, role: Role, noun: str, name: str) -> Table | None:
    places = {trial.label: place for place, trial in enumerate(ranked(result.history))}
    rows = sorted(result.of(role), key=lambda row: places[row.trial.label])
    metric = metric_words(result.edition.study.score.metric)
    columns = [
        Column("point", [f"#{row.trial.label} {row.name}" for row in rows], words=True),
        Column("mean ± SD", [spread(row.validation.mean, row.validation.std) for row in rows], metric),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
        *cost_columns(rows),
    ]
    if not rows:
        return None
    best = result.winners if role == "trial" else [result.random] if result.random else []
    confirmed = {row.trial.number for row in best}
    strong = frozenset(place for place, row in enumerate(rows) if row.trial.number in confirmed)
    return Table(name, f"All {plural(len(rows), noun)} on {metric}", columns, strong, folded=True)


def rungs(result: StudyResult) -> Table | None:
    """Whether the order of a search's trials at each rung was that of their final scores."""
    found = result.rungs
    plan = result.edition.study.plan
    known = any(rung.correlation is not None for rung in found) or str(result.saved)
    if isinstance(plan, Ablation) or not found or not known:
        return None
    columns = [
        Column("after epoch", [str(rung.epoch) for rung in found]),
        Column("trials measured", [str(rung.reached) for rung in found]),
        Column("completed", [str(rung.ended) for rung in found]),
        Column("rank correlation", ["" if one.correlation is None else two(one.correlation) for one in found]),
    ]
    any_stopped = any(row.answer.status == "stopped" for row in result.of("trial"))
    stopped = (
        "Trials that were stopped have no final score: the correlation is that among the better ones, which is lower "
        "than among all."
    )
    note = (
        "Rank correlation (Spearman) of the first seed's validation score there with the trial's final mean over all "
        f"seeds, over the trials that completed. {stopped if any_stopped else 'No trial was stopped.'}"
        f" {result.saved}".rstrip()
    )
    title = "How well early scores order the trials" if plan.stop is None else "How early stopping did"
    return Table("rungs", title, columns, note=note)


def parents(result: StudyResult) -> Table | None:
    """The runs that other runs start from or learn from, on their own data; None if there are none."""
    rows = result.of("parent")
    if not rows:
        return None
    metrics = [metric_words(row.trial.score.test) for row in rows]
    mixed = len({*metrics}) > 1
    group = "test score" if mixed else metrics[0]
    columns = [
        Column("parent", [f"{row.trial.label} {row.name}" for row in rows], words=True),
        *score_columns(group, [row.test for row in rows]),
        *([Column("metric", metrics, group, words=True)] if mixed else []),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
        Column("needed by", [listed(_children(result, row)) for row in rows], words=True),
        *cost_columns(rows),
    ]
    note = "Other trials start from a parent's weights, or learn from them. Its score is that of its own data."
    return Table("parents", f"{plural(len(rows), 'parent')} of trials", columns, note=note)


def _children(result: StudyResult, parent: TrialResult) -> list[str]:
    """The trials with a run that needs a parent, the parent's own parents left out."""
    keys = {run.run.key for run in parent.runs.values()}
    return [
        quoted(row.name) if isinstance(result.edition.study.plan, Ablation) else f"#{row.trial.label}"
        for row in result.rows
        if row.trial.role != "parent"
        and any(one.key in keys for run in row.runs.values() for one in ancestors(run.run))
    ]


def _who(result: StudyResult, row: TrialResult) -> str:
    """An arm by its name; a point, a confirmation or a parent with its number."""
    if row.trial.role != "trial":
        return f"{row.trial.label} {row.name}"
    return row.name if isinstance(result.edition.study.plan, Ablation) else f"#{row.trial.label} {row.name}"


def unfinished(result: StudyResult) -> Table | None:
    """Runs that were stopped, diverged, or failed, and why. Folded where early stopping is all that happened."""
    ends = ("failed", "diverged", "stopped")
    runs = [(row, run) for row in result.rows for run in row.runs.values() if run.state.status in ends]
    runs.sort(key=lambda pair: ends.index(pair[1].state.status))
    if not runs:
        return None
    columns = [
        Column("trial", [_who(result, row) for row, _ in runs], words=True),
        Column("seed", [str(run.run.seed) for _, run in runs]),
        Column("end", [run.state.status for _, run in runs], words=True),
        Column("why", [run.reason for _, run in runs], words=True),
    ]
    planned = {run.state.status for _, run in runs} == {"stopped"}
    return Table("unfinished", f"{plural(len(runs), 'run')} that did not run to the end", columns, folded=planned)


def tuned(result: StudyResult) -> Table | None:
    """What the tuning chose for each arm; None if arms are not tuned."""
    found, plan = tunings(result), result.edition.study.plan
    if not found or not isinstance(plan, Ablation) or plan.tune is None:
        return None
    metric = metric_words(result.edition.study.score.metric)
    chosen = [one.chosen for one in found]
    columns = [
        Column("arm", [one.arm for one in found], words=True),
        Column("trials", [one.trials_words for one in found]),
        Column("chosen", [f"#{row.trial.label}" if row else "" for row in chosen], words=True),
        Column("tuned to", [_values(one) for one in found], words=True),
        Column("given", [_given(result, one.arm) for one in found], words=True, under=True),
        Column("mean ± SD", [_score(row) for row in chosen], metric),
        Column("time of all trials", [duration(one.seconds) if one.seconds else "" for one in found]),
    ]
    count, paths = plural(plan.tune.trials, "trial"), plural(len(plan.tune.paths), "path")
    return Table("tuned", f"Each arm is tuned over {count} of {paths}", columns, note=_note(result, plan, metric))


def tuning_points(result: StudyResult) -> Table | None:
    """Every trial of the tuning on validation: arm by arm, in the order in which they were tried."""
    found = tunings(result)
    rows = [row for one in found for row in one.rows]
    if not rows:
        return None
    chosen = [one.chosen for one in found]
    columns = [
        Column("trial", [f"#{row.trial.label} {row.name}" for row in rows], words=True),
        Column("mean ± SD", [_score(row) for row in rows], metric_words(result.edition.study.score.metric)),
        Column("seeds", [seeds(row) for row in rows]),
        Column("epochs", [str(row.answer.epoch) for row in rows]),
        Column("state", [row.answer.status for row in rows], words=True),
    ]
    strong = frozenset(place for place, row in enumerate(rows) if row in chosen)
    return Table("tuning", f"All {plural(len(rows), 'trial')} of the tuning", columns, strong, folded=True)


def tuned_to(result: StudyResult) -> list[Column]:
    """A column with the values of each arm that were tuned, for the table of what arms change."""
    cells = [f"{one.values} (#{one.chosen.trial.label})" if one.chosen else "" for one in tunings(result)]
    return [Column("tuned to", cells, words=True)] if any(cells) else []


def _score(row: TrialResult | None) -> str:
    return spread(row.validation.mean, row.validation.std) if row else ""


def _values(one: ArmTuning) -> str:
    if one.settled and one.chosen is None:
        return "not tuned"
    return one.values or ("left out" if one.ended == one.asked else "not yet")


def _given(result: StudyResult, arm: str) -> str:
    """The values that the study gives an arm at the tuned paths; what was chosen replaces them."""
    plan = result.edition.study.plan
    assert isinstance(plan, Ablation)
    assert plan.tune is not None
    recipe = result.edition.study.recipe(plan.arms[arm])
    values = {}
    for path in plan.tune.paths:
        try:
            values[path] = recipe.get(path)
        except SpecError:  # a path that opens with a value of another one
            continue
    return ", ".join(setting_words(values))


def _note(result: StudyResult, plan: Ablation, metric: str) -> str:
    assert plan.tune is not None
    every = [seed for one in tunings(result) for row in one.rows for seed in row.runs]
    on = f" ({min(every)}{f' to {max(every)}' if max(every) > min(every) else ''})" if every else ""
    return (
        f"A trial is scored by its {metric} over {plural(plan.tune.seeds, 'seed')}{on}, on which no arm is compared. "
        "An arm gets the values of its highest trial, of equal ones of the first. The time is that of all runs that "
        "tuned the arm; no other table counts it."
    )


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
    """What all trials share: if it differs from the defaults, and all of it."""
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
