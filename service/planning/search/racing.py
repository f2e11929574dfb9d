"""Which points of a search get their next seed: those that may still be among the best. Pure."""

from __future__ import annotations

from search_spaces.roles import CONFIRMED, POINTS
from search_spaces.study import Search, Trial
from service.storage.history import History
from trainables.recipe import Run


def race_cutoff(history: History, trial: Trial, run: Run) -> float | None:
    """The mean that a point would need for its next seed; None where it gets that seed.

    It is the lowest mean of the points that would be confirmed now. A point is out where its mean would be lower even
    if each seed that it lacks scored as high as the best seed so far, of its own and theirs.
    Source: Maron and Moore 1994 (races). Differs: the bound is the best seed seen, and not one of a distribution,
    because the seeds of a point may lie in two groups.
    """
    plan = history.edition.study.plan
    if not isinstance(plan, Search) or plan.stop is None or trial.role not in POINTS:
        return None
    best = [history.answer(one) for one in history.highest(CONFIRMED, trial.role)]
    answer = history.answer(trial)
    if len(best) < CONFIRMED or run == history.first_run(trial):
        return None
    cutoff = best[-1].mean or 0.0
    top = max(value for one in (*best, answer) for value in one.values.values())
    lacks = answer.asked - len(answer.values)
    reachable = (sum(answer.values.values()) + lacks * top) / answer.asked
    return cutoff if reachable < cutoff else None
