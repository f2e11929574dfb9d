"""The runs that a study will have and whose points are not chosen yet: of a search, and of arms that are tuned."""

from __future__ import annotations

from itertools import islice

from search_spaces.grid import grid, is_finite
from search_spaces.roles import CONFIRMED
from search_spaces.study import Ablation, Search
from service.planning.tuning import unplanned
from service.storage.history import History
from service.storage.tuned import tuning_of
from trainables.recipe import Recipe


def unproposed(history: History) -> list[Recipe]:
    """A recipe for each run of a point that is not chosen yet, at most: that of its arm, or a search's base.

    Confirmations of a search count, and the arms whose tuning has not ended.
    """
    edition, plan = history.edition, history.edition.study.plan
    if isinstance(plan, Ablation) and (tune := tuning_of(edition)):
        arms = {name: edition.study.recipe(values) for name, values in plan.arms.items()}
        tuned = [arms[one.arm] for one in unplanned(history) for _ in range(tune.seeds)]
        return tuned + [arms[name] for name in history.tuning.untuned_arms() for _ in range(history.seeds)]
    if isinstance(plan, Ablation):
        return []
    most, rivals = most_trials(history), min(most_trials(history), history.rival_count)
    points = max(most - len(history.of("trial")), 0) + max(rivals - len(history.of("rival")), 0)
    if history.confirms and not points:
        return []
    ahead = min(CONFIRMED + bool(plan.first), most) + min(CONFIRMED, rivals)
    return [edition.study.base] * ((points + ahead) * history.seeds)


def most_trials(history: History) -> int:
    """How many trials a search can have: as many as asked for, or as its space has points."""
    plan, asked = history.edition.study.plan, history.trial_count
    if not isinstance(plan, Search) or not (is_finite(plan.space) or plan.sampler == "grid"):
        return asked
    extra = len(plan.first) if plan.sampler == "grid" else 0  # the first points need not be points of the grid
    return sum(1 for _ in islice(grid(plan.space, history.edition.study.base), max(asked - extra, 0))) + extra
