"""The tables of what was trained: what trials differ in, and what they share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from search_spaces.space import Above, Choice, Domain, Real, Subset
from search_spaces.study import Ablation, Search
from search_spaces.words import Setting, configuration, plural, setting_words, value_words
from service.reporting.figures.search.searched import Panel, panels
from service.reporting.figures.search.shares import shares, spreads
from service.reporting.figures.units import axis_label
from service.reporting.table import Column, Table
from service.reporting.tuning_tables import tuned_to
from trainables.own import is_own

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


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
