"""Which point a search tries next, and which coordinates matter for the score: the only door to Optuna.

The sampler is made for each point, seeded by the study and the point's number, and is told of every trial, whether it
has ended or not; so a search that was cut anywhere proposes the points of the undisturbed one.
"""

from __future__ import annotations

import random
import warnings
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from search_spaces.plans.grid import grid, is_finite
from search_spaces.plans.search import STARTUP_TRIALS
from search_spaces.roles import FIRST_SEEDS, LETTERS, POINTS, Role
from search_spaces.space import Coordinate, Integer, Real, Space
from search_spaces.study import Ablation, Search, Trial
from service.planning.stopping import ended_answer
from service.storage.facts import TrialAnswer, tuning_of
from service.storage.history import History
from trainables.recipe import Recipe, Run

ATTEMPTS = 16
"""How many points are drawn from each sampler before its proposals count as repetitions."""
MOST_ATTEMPTS = 4_000
"""How many points are drawn at random before a space with real numbers counts as exhausted. Where most kinds of a
choice have no number, many draws in a row repeat a point. 4,000 take a few seconds, once."""
LEARNED = ("completed", "stopped", "diverged")
"""The ends of trials from which TPE learns."""
TOLD = ("open", *LEARNED)
"""What TPE is told of; a trial that failed for another reason than its recipe's is no point of its own."""


@dataclass(frozen=True)
class _Searched:
    """What is searched: a space, the recipe that its points are put on, and the trials from which TPE learns.

    `name` seeds what is drawn by chance.
    """

    name: str
    history: History
    space: Space
    base: Recipe
    trials: list[Trial]


class Sampler:
    """Proposes the points of one study.

    What Optuna was told is kept between two proposals, because to tell it 10,000 trials again takes half a second.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._told: dict[str, _Told] = {}

    def propose(self, number: int, role: Role = "trial") -> dict[str, Any] | None:
        """Returns the values of a new point, for a `rival` one drawn at random; None if every point was tried.

        The plan's own first points come first, then those of its sampler. A point with the recipe of an earlier trial
        would train nothing, so another one is drawn instead.
        """
        history, edition, plan = self.history, self.history.edition, self.history.edition.study.plan
        assert isinstance(plan, Search)
        if role == "trial" and number < len(plan.first):
            return dict(plan.first[number])
        keys = {history.first_run(trial).key for trial in history.of(role)}
        seed = FIRST_SEEDS.get(role, 0)
        searched = _Searched(edition.id, history, plan.space, edition.study.base, history.of("trial"))
        sampler = plan.sampler if role == "trial" else "random"
        for point in self._candidates("", searched, sampler, f"{LETTERS[role]}{number}"):
            if Run(recipe=edition.study.recipe(point), seed=seed).key not in keys:
                return point
        return None

    def propose_tuning(self, arm: str, number: int) -> dict[str, Any]:
        """Returns the values of a new point that may tune an arm.

        What is drawn follows from the study's name and the number, not from the arm: so all arms try the same points,
        until TPE has learned from their scores. Nor does it follow from the budget or the user's own values: so the
        editions of a study try the same points, of which one with fewer trials tries the first ones, and share runs.
        A study whose space has too few points is refused when it is made.
        """
        history, edition, plan = self.history, self.history.edition, self.history.edition.study.plan
        tune = tuning_of(edition)
        assert isinstance(plan, Ablation)
        assert tune is not None
        if number < len(tune.first):
            return dict(tune.first[number])
        earlier = history.tuning.trials(arm)
        recipes = [trial.recipe for trial in earlier]
        searched = _Searched(edition.study.name, history, tune.space, edition.study.recipe(plan.arms[arm]), earlier)
        point: dict[str, Any] = {}
        for point in self._candidates(arm, searched, tune.sampler, f"{LETTERS['tuning']}{number}"):
            if edition.tuning_trial(arm, number, point).recipe not in recipes:
                break
        return point

    def _candidates(self, arm: str, searched: _Searched, sampler: str, name: str) -> Iterator[dict[str, Any]]:
        """Yields points to try, the best guess first. Each has a new sampler, seeded by its name.

        All of a finite space come up in the end. Of an endless one, points are drawn on at random.
        """
        space, base = searched.space, searched.base
        if sampler == "grid":
            points = list(grid(space, base))
            random.Random(searched.name).shuffle(points)  # cut short, they still lie all over the space
            yield from points
            return
        finite = is_finite(space)
        for kind in ("tpe", "random") if sampler == "tpe" else ("random",):
            most = MOST_ATTEMPTS if kind == "random" and not finite else ATTEMPTS
            study = self._told.setdefault(arm, _Told()).study(searched) if kind == "tpe" else _new_study()
            for attempt in range(most):
                seed = zlib.crc32((f"{searched.name}/{name}" + (f"/{attempt}" if attempt else "")).encode())
                study.sampler = _tpe(seed) if kind == "tpe" else optuna.samplers.RandomSampler(seed=seed)
                trial = study.ask()
                point = space.point(base, partial(_suggest, trial))
                study.tell(trial, state=TrialState.FAIL)  # TPE forgets it; the point is told when its trial has ended
                yield point
        if finite:
            yield from grid(space, base)


class _Told:
    """The trials of a search as an Optuna study, in the order in which they were planned; those under way are RUNNING.

    So TPE keeps away from points that are being trained (its constant liar), and a study that is filled at once has the
    trials of one that grew.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        self._storage = optuna.storages.InMemoryStorage()
        self._study = _new_study(self._storage)
        self._answers: dict[str, tuple[int, TrialAnswer]] = {}
        """Of each trial its id in the storage, and what was told of it."""

    def study(self, searched: _Searched) -> optuna.Study:
        """Returns the study, with the trials that were planned or have ended since the last call.

        A new study is filled with all trials where an answer that it was told has changed, or does not count any more.
        """
        answers = {trial.label: ended_answer(searched.history, trial) for trial in searched.trials}
        for label, (_, earlier) in self._answers.items():
            answer = answers.get(label)
            may_have_ended = earlier.status == "open" and answer is not None and answer.status in TOLD
            if answer != earlier and not may_have_ended:
                self._forget()
                break
        for trial in searched.trials:
            answer, before = answers[trial.label], self._answers.get(trial.label)
            if answer.status not in TOLD or (before and before[1].status in (answer.status, *LEARNED)):
                continue
            frozen = _frozen_trial(searched.space, searched.base, trial, answer)
            if before is None:
                self._study.add_trial(frozen)
                number = int(self._study.get_trials(deepcopy=False)[-1]._trial_id)
            else:  # it was RUNNING
                number = before[0]
                for step, value in frozen.intermediate_values.items():
                    self._storage.set_trial_intermediate_value(number, step, value)
                self._storage.set_trial_state_values(number, frozen.state, frozen.values)
            self._answers[trial.label] = number, answer
        return self._study


def _new_study(storage: optuna.storages.InMemoryStorage | None = None) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(storage=storage, direction="maximize")


def _tpe(seed: int) -> optuna.samplers.TPESampler:
    """Returns TPE of all coordinates together, those that are open for a value of another one apart (`group`).

    Source: Bergstra et al. 2011; Falkner et al. 2018 (multivariate). Differs: chosen by `tests/calibration/search.py`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of `group`
        return optuna.samplers.TPESampler(
            seed=seed, multivariate=True, group=True, constant_liar=True, n_startup_trials=STARTUP_TRIALS
        )


def _frozen_trial(space: Space, base: Recipe, trial: Trial, answer: TrialAnswer) -> FrozenTrial:
    """Returns a trial as TPE gets it.

    Source: Bergstra et al. 2011 (TPE). Differs: a point that is out of the race counts with the mean of the seeds that
    it has; a diverged trial counts as pruned at step 0 with the chance score, because TPE forgets failed trials and
    would propose their neighborhood again.
    """
    chance = base.data.chance("val")
    match answer.status:
        case "open":
            end: dict[str, Any] = {"state": TrialState.RUNNING}
        case "stopped" if not answer.raced:
            last = next(iter(answer.values.values()), chance)
            end = {"state": TrialState.PRUNED, "intermediate_values": {answer.epoch: last}}
        case "completed" | "stopped":
            end = {"state": TrialState.COMPLETE, "value": answer.mean}
        case "diverged":
            end = {"state": TrialState.PRUNED, "intermediate_values": {0: chance}}
        case _:
            raise AssertionError(f"a trial that is {answer.status} teaches nothing")
    return create_trial(**_coordinates(space, base, trial), **end)


def _coordinates(space: Space, base: Recipe, trial: Trial) -> dict[str, Any]:
    """Returns the coordinates of a trial as Optuna creates one with them."""
    distributions: dict[str, BaseDistribution] = {}
    coordinates = space.coordinates(base, trial.values)
    for name, (coordinate, _) in coordinates.items():
        match coordinate:
            case Real(low=low, high=high, log=log):
                distributions[name] = FloatDistribution(low, high, log=log)
            case Integer(low=low, high=high, step=step):
                distributions[name] = IntDistribution(low, high, step=step)
            case _:
                distributions[name] = CategoricalDistribution(coordinate.options)
    return {"params": {name: value for name, (_, value) in coordinates.items()}, "distributions": distributions}


def _suggest(trial: optuna.Trial, name: str, coordinate: Coordinate) -> Any:
    match coordinate:
        case Real(low=low, high=high, log=log):
            return trial.suggest_float(name, low, high, log=log)
        case Integer(low=low, high=high, step=step):
            return trial.suggest_int(name, low, high, step=step)
        case _:
            return trial.suggest_categorical(name, coordinate.options)


FEWEST_POINTS = 40
"""From 12 points a coordinate that does nothing is shown above one with a fifth of the variance in a third of cases."""
MOST_POINTS = 100
"""The time grows with the square of the points: 100 take 0.2 s, 1,000 take 12 s. Of more, so many are drawn."""
TREES = 16
"""Of the forest. Optuna's default, 64, takes four times as long."""


def importances(history: History) -> dict[str, float]:
    """Returns the share of the score's variance by coordinate, of those that every point has; their sum is 1.

    The search's own points count, and its random rivals: those that completed, or are out of the race, with the mean of
    their seeds, diverged ones with chance. Points that were stopped at a rung have no comparable score. Of more than
    `MOST_POINTS` points, so many are drawn, always the same.
    Empty for fewer than `FEWEST_POINTS` points, one coordinate, or equal scores, and where scikit-learn is missing.
    Source: Hutter et al. 2014, An efficient approach for assessing hyperparameter importance (fANOVA).
    """
    plan, base = history.edition.study.plan, history.edition.study.base
    if not isinstance(plan, Search) or find_spec("sklearn") is None:
        return {}
    points = scored_points(history)
    if len(points) > MOST_POINTS:
        points = random.Random(0).sample(points, MOST_POINTS)
    trials = [
        create_trial(
            state=TrialState.COMPLETE,
            value=base.data.chance("val") if answer.status == "diverged" else answer.mean,
            **_coordinates(plan.space, base, trial),
        )
        for trial, answer in points
    ]
    shared = set.intersection(*({*trial.params} for trial in trials)) if trials else set()
    if len(trials) < FEWEST_POINTS or len(shared) < 2 or len({trial.value for trial in trials}) < 2:
        return {}
    study = _new_study()
    study.add_trials(trials)
    evaluator = optuna.importance.FanovaImportanceEvaluator(n_trees=TREES, seed=0)
    shares = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in shares.items()}


def scored_points(history: History) -> list[tuple[Trial, TrialAnswer]]:
    """Returns the points whose scores can be compared: those with a last epoch, and diverged ones."""
    points = [(trial, history.answer(trial)) for role in POINTS for trial in history.of(role)]
    return [(trial, answer) for trial, answer in points if answer.raced or answer.status in ("completed", "diverged")]
