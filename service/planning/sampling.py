"""Which point to try, and which first seeds to stop: the only door to Optuna.

Nothing is kept between decisions but what the journal says. The sampler is made anew for each point, seeded by the
study and the point's number, and told every trial's end; so a search cut anywhere and rebuilt proposes the points of
the undisturbed one. The pruner is told the first seeds' measurements as they came, and replays to equal decisions.
"""

from __future__ import annotations

import math
import zlib
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from search_spaces.space import Coordinate, Integer, Real
from search_spaces.study import Edition, Search, Trial
from service.storage.history import History, TrialAnswer

FIRST_RUNG = 3
"""The first rung stands no earlier than a third of the epochs: before, good and bad are both at chance."""


def propose(history: History, number: int) -> dict[str, Any]:
    """The values of a new point: the plan's own first ones, then what TPE finds.

    Source: Bergstra et al. 2011 (TPE). Differs: a divergence is told as pruned at step 0 with the chance score, for a
    failed trial would be forgotten and its cliff visited again.
    """
    edition, plan = history.edition, _search(history.edition)
    if number < len(plan.first):
        return dict(plan.first[number])
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = optuna.samplers.TPESampler(seed=zlib.crc32(f"{edition.id}/{number}".encode()), multivariate=False)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.add_trials([_told(edition, trial, history.answer(trial)) for trial in history.of("trial")])
    asked = study.ask()
    return plan.space.point(edition.study.base, lambda name, coordinate: _suggest(asked, name, coordinate))


class EarlyStopper:
    """Successive halving of a search's first seeds. Hears each of their measurements once, in the journal's order.

    Source: Li et al. 2018 (ASHA), as Optuna's SuccessiveHalvingPruner. Differs: the first rung.
    """

    def __init__(self, edition: Edition) -> None:
        plan = _search(edition)
        assert plan.stop is not None
        self.factor = plan.stop.factor
        self.first = math.ceil(edition.study.base.optimizer.epochs / FIRST_RUNG)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        pruner = optuna.pruners.SuccessiveHalvingPruner(min_resource=self.first, reduction_factor=self.factor)
        self._study = optuna.create_study(pruner=pruner, direction="maximize")
        self._trials: dict[int, optuna.Trial] = {}
        self._heard: dict[int, dict[int, float]] = {}

    def report(self, number: int, epoch: int, value: float) -> float | None:
        """Takes one measurement of a trial's first seed; the cut-off where it is to be stopped, else None."""
        heard = self._heard.setdefault(number, {})
        if epoch in heard:
            return None
        heard[epoch] = value
        trial = self._trials.get(number)
        if trial is None:
            trial = self._trials[number] = self._study.ask()
        trial.report(value, epoch)
        if not trial.should_prune():
            return None
        rivals = sorted((values[epoch] for values in self._heard.values() if epoch in values), reverse=True)
        return rivals[max(len(rivals) // self.factor, 1) - 1]


def _search(edition: Edition) -> Search:
    assert isinstance(edition.study.plan, Search)
    return edition.study.plan


def _told(edition: Edition, trial: Trial, answer: TrialAnswer) -> FrozenTrial:
    """A trial as TPE hears of it."""
    coordinates = _search(edition).space.coordinates(edition.study.base, trial.values)
    params = {name: value for name, (_, value) in coordinates.items()}
    distributions = {name: _distribution(coordinate) for name, (coordinate, _) in coordinates.items()}
    chance = edition.study.base.data.chance
    match answer.status:
        case "completed":
            end: dict[str, Any] = {"state": TrialState.COMPLETE, "value": answer.mean}
        case "stopped":
            last = next(iter(answer.values.values()), chance)
            end = {"state": TrialState.PRUNED, "intermediate_values": {answer.epoch: last}}
        case "diverged":
            end = {"state": TrialState.PRUNED, "intermediate_values": {0: chance}}
        case "incomplete":
            end = {"state": TrialState.FAIL}
        case "open":
            end = {"state": TrialState.RUNNING}
    return create_trial(params=params, distributions=distributions, **end)


def _distribution(coordinate: Coordinate) -> BaseDistribution:
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
