"""The runs of a study that are known, those that are still to be chosen, and those whose answers are lost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from search_spaces.plans.grid import grid, is_finite
from search_spaces.roles import CONFIRMED, FIRST_SEEDS, Role
from search_spaces.study import Ablation, Edition, Search, Trial
from service.planning.schedule import Done, next_action, unplanned
from service.storage.history import History, ancestors
from service.storage.journal import FailedWith
from service.storage.outcomes import Outcomes
from service.storage.tuned import tuning_of
from trainables.recipe import Recipe, Run, Use


def known_trials(edition: Edition) -> list[Trial]:
    """The arms of an ablation, or the points that a search tries first."""
    plan = edition.study.plan
    if isinstance(plan, Ablation):
        return edition.arms()
    return [edition.trial(number, point) for number, point in enumerate(plan.first)]


@dataclass(frozen=True)
class Unproposed:
    """A recipe for each run of a point that is not chosen yet, at most, and for each parent that these runs need.

    It is that of the point's arm, or a search's base. Confirmations of a search count, and the arms whose tuning has
    not ended. Parents are those of the base or the arm, once a seed: if a point changes its parent, there are more.
    """

    points: list[Recipe]
    parents: list[Recipe]

    @property
    def recipes(self) -> list[Recipe]:
        """Those of points, then those of parents."""
        return self.points + self.parents


def unproposed(history: History) -> Unproposed:
    """What is ahead beside the runs that a history knows."""
    points = list(_points(history))
    recipes = [recipe for recipe, _ in points]
    if not any(recipe.parents for recipe in {id(one): one for one in recipes}.values()):
        return Unproposed(recipes, [])
    runs = [Run(recipe=recipe, seed=seed) for recipe, seed in points]
    known = {parent.key for trial in history.trials for run in history.asked(trial) for parent in ancestors(run)}
    parents = {parent.key: parent.recipe for run in runs for parent in ancestors(run) if parent.key not in known}
    return Unproposed(recipes, [*parents.values()])


def _points(history: History) -> Iterator[tuple[Recipe, int]]:
    """The recipe and the seed of each run of a point that is not chosen yet."""
    edition, plan = history.edition, history.edition.study.plan
    if isinstance(plan, Ablation):
        tune = tuning_of(edition)
        if tune is None:
            return
        arms = {name: edition.study.recipe(values) for name, values in plan.arms.items()}
        for one in unplanned(history):
            yield from _seeded(arms[one.arm], "tuning", tune.seeds)
        for name in history.tuning.untuned_arms():
            yield from _seeded(arms[name], "trial", history.seeds)
        return
    most, rivals = most_trials(history), min(most_trials(history), history.rival_count)
    points, random = max(most - len(history.of("trial")), 0), max(rivals - len(history.of("rival")), 0)
    if not points + random and (history.confirms or isinstance(next_action(history, set()), Done)):
        return  # where every point diverged, there is nothing to confirm
    confirmed = min(CONFIRMED + bool(plan.first), most)
    counts: dict[Role, int] = {
        "trial": points, "rival": random, "confirmation": confirmed, "rival_confirmation": min(CONFIRMED, rivals)
    }  # fmt: skip
    for role, count in counts.items():
        for _ in range(count):
            yield from _seeded(edition.study.base, role, history.seeds)


def _seeded(recipe: Recipe, role: Role, seeds: int) -> Iterator[tuple[Recipe, int]]:
    first = FIRST_SEEDS.get(role, 0)
    yield from ((recipe, seed) for seed in range(first, first + seeds))


def most_trials(history: History) -> int:
    """How many trials a search can have: as many as asked for, or as its space has points."""
    plan, asked = history.edition.study.plan, history.trial_count
    if not isinstance(plan, Search) or not (is_finite(plan.space) or plan.sampler == "grid"):
        return asked
    extra = len(plan.first) if plan.sampler == "grid" else 0  # the first points need not be points of the grid
    return sum(1 for _ in islice(grid(plan.space, history.edition.study.base), max(asked - extra, 0))) + extra


LOST = "its answer or its weights are gone, damaged or replaced; it is trained again, or takes the answer that is there"


def lost_answers(history: History, outcomes: Outcomes) -> list[FailedWith]:
    """What the journal must be told, so that the runs that count are trained again, or take the answers that are there.

    An answer is replaced when another study trains its run again for its weights, and gets other numbers.
    Of weights only those are read that some run will start from. Cost: 0.1 ms a run, 0.4 ms where it has 100 epochs.
    """
    runs = {run.key: run for trial in history.trials for run in history.runs(trial).values()}
    lost = {
        key: run
        for key, run in runs.items()
        if (state := history.state(run)).status in ("completed", "diverged")
        and outcomes.of_run(run, history.code(run), state.values) is None
    }
    asked = [run for trial in history.trials for run in history.asked(trial)]
    todo = [*lost.values(), *(run for run in asked if not history.state(run).answered)]
    seen = {*lost}
    while todo:
        parents = {parent.key: parent for parent in todo.pop().parents.values() if parent.key not in seen}
        seen |= {*parents}
        found = {key: parent for key, parent in parents.items() if _has_lost_weights(parent, history, outcomes)}
        lost |= found
        todo += found.values()
    return [FailedWith(run=key, code=history.code(run), reason=LOST, counts=False) for key, run in lost.items()]


def _has_lost_weights(run: Run, history: History, outcomes: Outcomes) -> bool:
    completed = history.state(run).status == "completed"
    return completed and not outcomes.has_sound_weights(run.key, history.code(run))


def unlisted_arms(history: History) -> list[Trial]:
    """The arms of an ablation that its journal does not list yet; of tuned arms, those whose values are fixed."""
    if not isinstance(history.edition.study.plan, Ablation):
        return []
    known = {trial.name for trial in history.of("trial")}
    return [arm for arm in history.tuning.known_arms() if arm.name not in known]


def known_runs(history: History) -> list[Run]:
    """The runs whose recipes are known, without doubles."""
    runs = [run for trial in [*history.trials, *unlisted_arms(history)] for run in history.asked(trial)]
    parents = [parent for run in runs for parent in ancestors(run)]
    return list({run.key: run for run in [*runs, *parents]}.values())


def parent_name(parent: Run, use: Use) -> str:
    """The name of a parent's trial: its encoding, its data, and whether it is a teacher."""
    data = parent.recipe.data
    name = f"{parent.recipe.encoding.label} on {getattr(data, 'task', data.kind)}"
    return f"teacher: {name}" if use == "teacher" else name


def planned_runs(history: History) -> int:
    """How many runs the study will have at most, as the plan, `status` and MLflow count them."""
    return len(known_runs(history)) + len(unproposed(history).recipes)
