"""How much each searched path matters: the importance of its coordinates together."""

from __future__ import annotations

from statistics import stdev
from typing import TYPE_CHECKING

from search_spaces.space import Subset
from search_spaces.study import Search
from service.reporting.figures.search.searched import Panel, panels

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


def shares(result: StudyResult) -> dict[Panel, float]:
    """The importance of each path for which it is known; empty where the points are too few for it."""
    return _by_path(result, result.importances[0]) if result.importances else {}


def spreads(result: StudyResult) -> dict[Panel, float]:
    """The standard deviation of each path's importance over draws of the points."""
    draws = [_by_path(result, found) for found in result.importances[1:]]
    return {panel: stdev(found.get(panel, 0.0) for found in draws) for panel in shares(result)}


def _by_path(result: StudyResult, found: dict[str, float]) -> dict[Panel, float]:
    plan = result.edition.study.plan
    assert isinstance(plan, Search)
    known: dict[Panel, float] = {}
    for panel in panels(plan.space):
        names = _coordinate_names(result, panel.path) if panel.given is None else set()
        of_subset = isinstance(panel.domain, Subset)
        some = [
            share for name, share in found.items()
            if name in names or (of_subset and name.rpartition(".")[0] in names)
        ]  # fmt: skip
        if some:
            known[panel] = sum(some)
    return known


def _coordinate_names(result: StudyResult, path: str) -> set[str]:
    """What the sampler calls a path: the path, or with the kind of its node in it (`encoding.fourier.gamma`)."""
    node, _, last = path.rpartition(".")
    kinds = {getattr(row.value(node), "kind", None) for row in result.of("trial")} if node else set()
    return {path} | {f"{node}.{kind}.{last}" for kind in kinds}
