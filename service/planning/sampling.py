"""Which point a search tries next: the only door to Optuna.

Nothing is kept between two proposals but what the journal has. The sampler is made for each point, seeded by the study
and the point's number, and gets the end of every trial; so a search that was cut anywhere proposes the points of the
undisturbed one.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Iterator
from typing import Any

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from search_spaces.grid import grid, is_finite
from search_spaces.space import Coordinate, Integer, Real
from search_spaces.study import Edition, Search, Trial
from service.storage.history import History, TrialAnswer
from trainables.recipe import Run

ATTEMPTS = 16
"""How many points are drawn from each sampler before an unlimited space counts as exhausted."""


def propose(history: History, number: int) -> dict[str, Any] | None:
    """The values of a new point; None where every point was tried.

    The plan's own first points come first, then those of its sampler. A point with the recipe of an earlier trial would
    train nothing, so another one is drawn instead.
    """
    plan = _search(history.edition)
    if number < len(plan.first):
        return dict(plan.first[number])
    tried = {history.first_run(trial).key for trial in history.of("trial")}
    for point in _candidates(history, number):
        if Run(recipe=history.edition.study.recipe(point), seed=0).key not in tried:
            return point
    return None


def _candidates(history: History, number: int) -> Iterator[dict[str, Any]]:
    """Points to try, the best guess first; all of a finite space come up in the end."""
    edition, plan = history.edition, _search(history.edition)
    if plan.sampler == "grid":
        yield from _shuffled(edition)
        return
    samplers = (plan.sampler, "random") if plan.sampler == "tpe" else ("random",)
    for sampler in samplers:
        for attempt in range(ATTEMPTS):
            yield _draw(history, sampler, f"{edition.id}/{number}" + (f"/{attempt}" if attempt else ""))
    if is_finite(plan.space):
        yield from grid(plan.space, edition.study.base)


def _shuffled(edition: Edition) -> list[dict[str, Any]]:
    """The points of the grid in an order of the study's own: cut short, they still lie all over the space."""
    points = list(grid(_search(edition).space, edition.study.base))
    random.Random(edition.id).shuffle(points)
    return points


def _draw(history: History, sampler: str, seed: str) -> dict[str, Any]:
    """One point of a sampler.

    Source: Bergstra et al. 2011 (TPE). Differs: a diverged trial counts as pruned at step 0 with the chance score,
    because TPE forgets failed trials and would propose their neighborhood again.
    """
    edition, plan = history.edition, _search(history.edition)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    number = zlib.crc32(seed.encode())
    if sampler == "random":
        study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=number), direction="maximize")
    else:
        tpe = optuna.samplers.TPESampler(seed=number, multivariate=False)
        study = optuna.create_study(sampler=tpe, direction="maximize")
        study.add_trials([_finished_trial(edition, trial, history.answer(trial)) for trial in history.of("trial")])
    asked = study.ask()
    return plan.space.point(edition.study.base, lambda name, coordinate: _suggest(asked, name, coordinate))


def _search(edition: Edition) -> Search:
    assert isinstance(edition.study.plan, Search)
    return edition.study.plan


def _finished_trial(edition: Edition, trial: Trial, answer: TrialAnswer) -> FrozenTrial:
    """A trial as TPE gets it."""
    coordinates = _search(edition).space.coordinates(edition.study.base, trial.values)
    params = {name: value for name, (_, value) in coordinates.items()}
    distributions = {name: distribution(coordinate) for name, (coordinate, _) in coordinates.items()}
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


def distribution(coordinate: Coordinate) -> BaseDistribution:
    """A coordinate as Optuna knows it."""
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
