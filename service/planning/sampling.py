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
from service.planning.forecast import ended_answer
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

    What Optuna was told of trials is kept between two proposals, because a study of 10,000 trials would take half
    a second to tell it again. The journal has all of it.
    """

    def __init__(self, history: History) -> None:
        self.history = history
        self._told: dict[str, _Told] = {}

    def propose(self, number: int, role: Role = "trial") -> dict[str, Any] | None:
        """Returns the values of a new point; None if every point was tried.

        A `rival` is drawn at random from the first.

        The plan's own first points come first, then those of its sampler. A point with the recipe of an earlier trial
        would train nothing, so another one is drawn instead.
        """
        history, plan = self.history, self.history.edition.study.plan
        assert isinstance(plan, Search)
        if role == "trial" and number < len(plan.first):
            return dict(plan.first[number])
        known = {history.first_run(trial).key for trial in history.of(role)}
        seed = FIRST_SEEDS.get(role, 0)
        edition = history.edition
        searched = _Searched(edition.id, history, plan.space, edition.study.base, history.of("trial"))
        sampler = plan.sampler if role == "trial" else "random"
        for point in self._candidates("", searched, sampler, f"{LETTERS[role]}{number}"):
            if Run(recipe=history.edition.study.recipe(point), seed=seed).key not in known:
                return point
        return None

    def propose_tuning(self, arm: str, number: int) -> dict[str, Any]:
        """Returns the values of a new point that may tune an arm.

        What is drawn follows from the study's name and the number, not from the arm: so all arms try the same points,
        until TPE has learned from their scores. Nor does it follow from the budget or the user's own values: so the
        editions of a study try the same points, of which one with fewer trials tries the first ones, and share runs.
        A study whose space has too few points is refused when it is made.
        """
        edition, plan, tune = self.history.edition, self.history.edition.study.plan, tuning_of(self.history.edition)
        assert isinstance(plan, Ablation)
        assert tune is not None
        if number < len(tune.first):
            return dict(tune.first[number])
        earlier = self.history.tuning.trials(arm)
        known = [trial.recipe for trial in earlier]
        searched = _Searched(
            edition.study.name, self.history, tune.space, edition.study.recipe(plan.arms[arm]), earlier
        )
        points = self._candidates(arm, searched, tune.sampler, f"{LETTERS['tuning']}{number}")
        drawn = {}
        for drawn in points:
            if edition.tuning_trial(arm, number, drawn).recipe not in known:
                break
        return drawn

    def _candidates(self, arm: str, searched: _Searched, wanted: str, name: str) -> Iterator[dict[str, Any]]:
        """Yields points to try, the best guess first.

        All of a finite space come up in the end. Of an endless one, points are drawn on at random.
        """
        if wanted == "grid":
            points = list(grid(searched.space, searched.base))
            random.Random(searched.name).shuffle(points)  # cut short, they still lie all over the space
            yield from points
            return
        finite = is_finite(searched.space)
        samplers = (wanted, "random") if wanted == "tpe" else ("random",)
        for sampler in samplers:
            most = MOST_ATTEMPTS if sampler == "random" and not finite else ATTEMPTS
            study = self._told.setdefault(arm, _Told()).study(searched) if sampler == "tpe" else _new_study()
            for attempt in range(most):
                yield _draw(searched, study, sampler, f"{searched.name}/{name}" + (f"/{attempt}" if attempt else ""))
        if finite:
            yield from grid(searched.space, searched.base)


class _Told:
    """The trials of a search as an Optuna study, in the order in which they were planned; those under way are RUNNING.

    So TPE keeps away from points that are being trained (its constant liar), and a study that is filled at once has the
    trials of one that grew.
    """

    def __init__(self) -> None:
        self._reset()

    def _reset(self) -> None:
        self._storage = optuna.storages.InMemoryStorage()
        self._study = _new_study(self._storage)
        self._known: dict[str, tuple[int, TrialAnswer]] = {}

    def study(self, searched: _Searched) -> optuna.Study:
        """Returns the study, with the trials that were planned or have ended since the last call.

        A new study is filled with all trials where an answer that it was told has changed, or does not count any more.
        """
        answers = {trial.label: ended_answer(searched.history, trial) for trial in searched.trials}
        if any(_is_other(answers.get(label), told) for label, (_, told) in self._known.items()):
            self._reset()
        for trial in searched.trials:
            answer, told = answers[trial.label], self._known.get(trial.label)
            if answer.status not in TOLD or (told and told[1].status in (answer.status, *LEARNED)):
                continue
            frozen = _frozen_trial(searched.space, searched.base, trial, answer)
            self._known[trial.label] = self._end(told[0], frozen) if told else self._add(frozen), answer
        return self._study

    def _add(self, trial: FrozenTrial) -> int:
        """Adds a trial; its id in the storage."""
        self._study.add_trial(trial)
        return int(self._study.get_trials(deepcopy=False)[-1]._trial_id)

    def _end(self, id: int, ended: FrozenTrial) -> int:
        """Ends a trial that was RUNNING; its id."""
        for step, value in ended.intermediate_values.items():
            self._storage.set_trial_intermediate_value(id, step, value)
        self._storage.set_trial_state_values(id, ended.state, ended.values)
        return id


def _is_other(answer: TrialAnswer | None, told: TrialAnswer) -> bool:
    """Returns whether an answer is not what was told; a trial that was told as under way may have ended."""
    if told.status == "open":
        return answer is None or answer.status not in TOLD
    return answer != told


def _new_study(storage: optuna.storages.InMemoryStorage | None = None) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(storage=storage, direction="maximize")


def _draw(searched: _Searched, study: optuna.Study, sampler: str, seed: str) -> dict[str, Any]:
    """Returns one point of a sampler. Each point has a new sampler, seeded by `seed`.

    Source: Bergstra et al. 2011 (TPE). Differs: a point that is out of the race counts with the mean of the seeds that
    it has; a diverged trial counts as pruned at step 0 with the chance score, because TPE forgets failed trials and
    would propose their neighborhood again.
    """
    number = zlib.crc32(seed.encode())
    if sampler == "tpe":
        study.sampler = _tpe(number)
    else:
        study.sampler = optuna.samplers.RandomSampler(seed=number)
    asked = study.ask()
    point = searched.space.point(searched.base, lambda name, coordinate: _suggest(asked, name, coordinate))
    study.tell(asked, state=TrialState.FAIL)  # TPE forgets it; the trial itself is told when it has ended
    return point


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
    """Returns a trial as TPE gets it."""
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
    known = space.coordinates(base, trial.values)
    return {
        "params": {name: value for name, (_, value) in known.items()},
        "distributions": {name: distribution(coordinate) for name, (coordinate, _) in known.items()},
    }


def distribution(coordinate: Coordinate) -> BaseDistribution:
    """Returns a coordinate as Optuna knows it."""
    match coordinate:
        case Real(low=low, high=high, log=log):
            return FloatDistribution(low, high, log=log)
        case Integer(low=low, high=high, step=step):
            return IntDistribution(low, high, step=step)
        case _:
            return CategoricalDistribution(coordinate.options)


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

Shares = dict[str, float]
"""The share of the score's variance by coordinate."""


def importances(history: History) -> Shares:
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
    found = optuna.importance.get_param_importances(study, evaluator=evaluator)
    return {name: float(share) for name, share in found.items()}


def scored_points(history: History) -> list[tuple[Trial, TrialAnswer]]:
    """Returns the points whose scores can be compared: those with a last epoch, and diverged ones."""
    points = [(trial, history.answer(trial)) for role in POINTS for trial in history.of(role)]
    return [(trial, answer) for trial, answer in points if answer.raced or answer.status in ("completed", "diverged")]
