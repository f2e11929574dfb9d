"""Proposes the points of a search, and says which coordinates matter for the score. Only this file imports Optuna.

A new sampler is made for each point. Its seed follows from the study and the point's number, and it is told of every
trial, ended or not. So a search that was interrupted anywhere proposes the same points as one that was not.
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
from search_spaces.study import Trial
from service.planning.stopping import ended_answer
from service.storage.facts import TrialAnswer
from service.storage.history import History
from trainables.recipe import Recipe, Run

ATTEMPTS = 16
"""How many points are drawn from a sampler until it counts as one that only repeats earlier points."""
MOST_ATTEMPTS = 4_000
"""How many points are drawn at random before a space with real numbers counts as exhausted. If most kinds of a choice
have no number, many draws in a row repeat a point. 4,000 draws take a few seconds, once."""
LEARNED = ("completed", "stopped", "diverged")
"""The statuses of ended trials from which TPE learns. TPE is the sampler that learns from scores."""
TOLD = ("open", *LEARNED)
"""The statuses of trials that TPE is told of. A trial that failed, but not because of its recipe, is left out."""


@dataclass(frozen=True)
class _Searched:
    """A search: its space, the `base` recipe that a point changes, and the trials from which TPE learns.

    The seeds of all random draws follow from `name`.
    """

    name: str
    history: History
    space: Space
    base: Recipe
    trials: list[Trial]


class Sampler:
    """Proposes the points of one study.

    Optuna keeps its trials between two proposals, because to tell it of 10,000 trials again takes half a second.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._told: dict[str, _Told] = {}

    def propose(self, number: int, role: Role = "trial") -> dict[str, Any] | None:
        """Returns the values of a new point; None if every point was tried.

        For the role `rival` the point is drawn at random. Else the points that the plan lists come first, then those of
        its sampler. A point with the recipe of an earlier trial would train nothing, so another one is drawn instead.
        """
        history, edition, plan = self.history, self.history.edition, self.history.edition.study.plan
        assert plan.space is not None
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

        The point follows from the study's name and the number, not from the arm. So all arms try the same points, until
        TPE has learned from their scores. The point does not depend on the budget or the user's own values either. So
        the editions of a study try the same points and share runs; an edition with fewer trials tries the first ones.
        A study whose space has too few points is refused when it is made.
        """
        history, edition, plan = self.history, self.history.edition, self.history.edition.study.plan
        tune = edition.study.plan.tune
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
        """Yields points to try, the best guess first. Each comes from a new sampler, whose seed follows from `name`.

        In a finite space every point comes in the end. In an endless one, more points are drawn at random.
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
    """Holds the trials of a search as an Optuna study, in the order in which they were planned.

    Trials that have not ended are RUNNING, so TPE keeps away from their points (its constant liar). A study that is
    filled at once has the same trials as one that grew.
    """

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Begins with an empty Optuna study."""
        self._storage = optuna.storages.InMemoryStorage()
        self._study = _new_study(self._storage)
        self._answers: dict[str, tuple[int, TrialAnswer]] = {}
        """The id in Optuna's storage of each trial, and the answer that Optuna was told, by the label of the trial."""

    def study(self, searched: _Searched) -> optuna.Study:
        """Returns the Optuna study, once it was told of the trials that were planned or have ended since the last call.

        If an answer that it was told has changed, or no longer counts, a new study is filled with all trials.
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
    """Returns a TPE sampler that looks at all coordinates together.

    Coordinates that a point has only for some values of another one form groups of their own (`group`).

    Source: Bergstra et al. 2011; Falkner et al. 2018 (multivariate). Differs: chosen by `tests/calibration/search.py`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)  # of `group`
        return optuna.samplers.TPESampler(
            seed=seed, multivariate=True, group=True, constant_liar=True, n_startup_trials=STARTUP_TRIALS
        )


def _frozen_trial(space: Space, base: Recipe, trial: Trial, answer: TrialAnswer) -> FrozenTrial:
    """Returns a trial with its answer in the form in which TPE is told of it.

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
    """Returns the values of a trial and their distributions, as arguments of Optuna's `create_trial`."""
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
    """Returns the value that Optuna's sampler chooses for a coordinate."""
    match coordinate:
        case Real(low=low, high=high, log=log):
            return trial.suggest_float(name, low, high, log=log)
        case Integer(low=low, high=high, step=step):
            return trial.suggest_int(name, low, high, step=step)
        case _:
            return trial.suggest_categorical(name, coordinate.options)


FEWEST_POINTS = 40
"""The fewest points for importances. From 12 points, a coordinate without effect is shown above one with a fifth of the
variance in a third of cases."""
MOST_POINTS = 100
"""The most points for importances; of more, so many are drawn. 100 points take 0.2 s, 1,000 take 12 s."""
TREES = 16
"""The number of trees in the forest of fANOVA. Optuna's default, 64, takes four times as long."""


def importances(history: History) -> dict[str, float]:
    """Returns which share of the score's variance comes from each coordinate that every point has; the sum is 1.

    The search's own points and its random rivals count. Points that completed or are out of the race count with the
    mean of their seeds, diverged points with the chance score. Points that were stopped at a rung have no comparable
    score. Of more than `MOST_POINTS` points, so many are drawn, always the same.
    The result is empty for fewer than `FEWEST_POINTS` points, one coordinate or equal scores, or without scikit-learn.
    Source: Hutter et al. 2014, An efficient approach for assessing hyperparameter importance (fANOVA).
    """
    plan, base = history.edition.study.plan, history.edition.study.base
    if plan.space is None or find_spec("sklearn") is None:
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
    """Returns the points whose scores can be compared (with a last epoch, or diverged), and their answers."""
    points = [(trial, history.answer(trial)) for role in POINTS for trial in history.of(role)]
    return [(trial, answer) for trial, answer in points if answer.raced or answer.status in ("completed", "diverged")]
