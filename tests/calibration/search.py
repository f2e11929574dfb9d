"""How many images a search needs beside random search, and how often it stops its best point.

The schedule, the sampler and the early stopping are the real ones; scores come from surrogates, whose truth is known.
A search is compared with random search whose runs all train to the end. A search has reached its goal when the point
with the highest mean of all seeds is truly within `CLOSE` of the best score that is possible.
"""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import fmean, median, stdev
from typing import Any

from search_spaces.space import Above, Choice, Integer, Real, Space, Subset
from search_spaces.study import Edition, Halving, Search, Study, Trial
from service.execution.driver import EarlyStops
from service.planning.schedule import Assign, Confirm, Decisions, Done, Wait, next_action
from service.storage.facts import Counts, Ended, Measured, StoppedAt
from service.storage.history import History
from tests.calibration.rows import Row, share
from trainables.encodings import IRPE, PEG, Fourier
from trainables.recipe import Recipe, Run

REPETITIONS = 40
PROCESSES = 2
SLOTS = (1, 8, 64)
"""How many runs train together."""
POINTS = 40
"""Of a search; with 64 runs together it has more, else all points would be proposed before one has ended."""
MANY_POINTS, MOST_POINTS = 128, 400
"""Of a search with 64 runs together; of a random search that does not reach its goal."""
SEEDS, EPOCHS = 3, 12
CLOSE = 0.01
"""How far from the best a score may be: 1 % of a perfect one."""
SEED_STD, EPOCH_STD = 0.01, 0.004
"""The standard deviations of a score over seeds and, beside it, over epochs."""
LATE, SUDDEN = 7, 0.7
"""The epoch at which the last seed has learned half; the width of the logistic curve on which it does, in epochs."""
CHANCE, TOP = 0.5, 0.95
"""What a useless point scores, and the best one."""
FEW_POINTS = 10
"""Where random search needs no more points than that, any search is as good."""
DRAWS = 400
"""Bootstrap draws for the error of a ratio of medians."""

Values = dict[str, Any]


@dataclass(frozen=True)
class Surrogate:
    """A space, the recipe that its points are put on, and what a point truly scores with a seed that learns.

    `fails`: the share of a point's seeds that do not learn, and score `failed` instead. `late`: the epoch at
    which the last seeds begin to learn, each at one of its own, and suddenly; 0: seeds of a point are alike.
    """

    base: Recipe
    space: Space
    score: Callable[[Values], float]
    fails: Callable[[Values], float] = lambda values: 0.0
    failed: float = CHANCE
    late: int = 0

    def truth(self, values: Values) -> float:
        """The mean over all seeds."""
        fails = self.fails(values)
        return (1 - fails) * self.score(values) + fails * self.failed

    def edition(self, repetition: int, *, points: int, plain: bool = False) -> Edition:
        """A search of the space; `plain`: of random points, and all runs train to the end."""
        plan = Search(
            space=self.space,
            trials=points,
            sampler="random" if plain else "tpe",
            stop=None if plain else Halving(),
        )
        base = self.base.put({"optimizer.epochs": EPOCHS})
        return Study(name="surrogate", question="?", base=base, plan=plan, seeds=SEEDS).at(name=f"{repetition}")


def _hill(*distances: float) -> float:
    return CHANCE + (TOP - CHANCE) * math.exp(-sum(one**2 for one in distances))


def _plateau(values: Values) -> float:
    """Chance far below 1, flat from 1 to 5, a little lower above: as gamma was found to be."""
    log = math.log(values["encoding.gamma"])
    return _hill(min(log, 0.0), 0.12 * max(log - math.log(5), 0.0))


def _branin(values: Values) -> float:
    x = -5 + 15 * math.log(values["encoding.gamma"] / 0.1) / math.log(400)
    y = 15 * math.log(values["optimizer.lr"] / 1e-4) / math.log(1000)
    bowl = (y - 5.1 * (x / math.pi) ** 2 / 4 + 5 * x / math.pi - 6) ** 2
    found = bowl + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10 - 0.397887
    return _hill(math.sqrt(max(found, 0.0) / 40))


def _ordered(values: Values) -> float:
    alpha, beta, gamma = (values[f"encoding.index.{name}"] for name in ("alpha", "beta", "gamma"))
    return _hill(0.45 * math.log(alpha / 1.5), 0.6 * math.log(beta / alpha / 2.0), 0.4 * math.log(gamma / beta / 3.0))


def _places(values: Values) -> float:
    """Six places help, by less and less; the others harm a little."""
    useful = (0.5, 0.4, 0.35, 0.3, 0.25, 0.2)
    missing = sum(weight for place, weight in enumerate(useful) if place not in values["encoding.places"])
    return _hill(0.5 * missing, 0.05 * math.sqrt(sum(place >= len(useful) for place in values["encoding.places"])))


def _branches(values: Values) -> float:
    if values["encoding.kind"] == "none":
        return CHANCE
    if values["encoding.kind"] == "peg":
        return _hill(0.35, 0.2 * (2 - len(values["encoding.places"])))
    return _hill(0.5 * math.log(values["encoding.gamma"] / 3), 0.02 * (values["encoding.hidden"] - 48) / 8)


def _beyond_the_grid(values: Values) -> float:
    return 0.5 if values["encoding.gamma"] > 10 else 0.0


def _more_and_more(values: Values) -> float:
    return 0.8 * max(math.log(values["encoding.gamma"]), 0.0) / math.log(40)


FOURIER = Recipe(encoding=Fourier(gamma=2.5))
GAMMA = {"encoding.gamma": Real(low=0.1, high=40, log=True)}
TWO = Space({**GAMMA, "optimizer.lr": Real(low=1e-4, high=0.1, log=True)})
ORDERED = Space(
    {
        "encoding.index.alpha": Real(low=0.3, high=5.0, log=True),
        "encoding.index.beta": Above("encoding.index.alpha", Real(low=1.1, high=4.5, log=True)),
        "encoding.index.gamma": Above("encoding.index.beta", Real(low=1.1, high=8.0, log=True)),
    }
)
BRANCHES = Space(
    {"encoding.kind": Choice(("none", "peg", "fourier"))},
    {
        "encoding.kind": {
            "peg": {"encoding.places": Subset((-1, 0, 1))},
            "fourier": {**GAMMA, "encoding.hidden": Integer(low=8, high=64, step=8)},
        }
    },
)
SURROGATES = {
    "plateau, seeds fail": Surrogate(FOURIER, Space(GAMMA), _plateau, _beyond_the_grid, 0.65),
    "plateau, more and more seeds fail, late starts": Surrogate(
        FOURIER, Space(GAMMA), _plateau, _more_and_more, late=LATE
    ),
    "branin": Surrogate(FOURIER, TWO, _branin),
    "branin, seeds start late": Surrogate(FOURIER, TWO, _branin, late=LATE),
    "ordered": Surrogate(Recipe(encoding=IRPE()), ORDERED, _ordered),
    "12 blocks": Surrogate(
        Recipe(encoding=PEG()).put({"model.depth": 13}), Space({"encoding.places": Subset(tuple(range(12)))}), _places
    ),
    "branches": Surrogate(FOURIER.put({"model.depth": 3}), BRANCHES, _branches),
}


@dataclass(frozen=True)
class Searched:
    """What one search did.

    `reached`: the epochs that were trained before the goal was reached, infinite where it was not. `epochs`: all of
    them. `regret`: of the point with the highest mean at the end. `lost`: whether the best proposed point was stopped.
    """

    reached: float
    epochs: int
    regret: float
    lost: bool


def measured_score(surrogate: Surrogate, trial: Trial, run: Run, epoch: int) -> float:
    """The score after an epoch: each seed and each point learns as fast as chance decides."""
    seeded, pointed = random.Random(run.key), random.Random(trial.run(0).key)
    learns = seeded.random() >= surrogate.fails(trial.values)
    final = (surrogate.score(trial.values) if learns else surrogate.failed) + seeded.gauss(0, SEED_STD)
    slowness, begin = EPOCHS * (0.1 + 0.4 * pointed.random()), seeded.uniform(1, surrogate.late)

    def rise(at: int) -> float:
        if surrogate.late:  # flat, until it rises within some epochs
            return 1 / (1 + math.exp((begin - at) / SUDDEN))
        return 1 - math.exp(-at / slowness)  # from the first epoch on, by less and less

    done = (rise(epoch) - rise(0)) / (rise(EPOCHS) - rise(0))
    return CHANCE + (final - CHANCE) * done + random.Random(f"{run.key} {epoch}").gauss(0, EPOCH_STD)


def search(surrogate: Surrogate, edition: Edition, slots: int, *, until_reached: bool = False) -> Searched:
    """Conducts a search up to its confirmation, with so many runs at a time."""
    history = History(edition)
    decisions, early = Decisions(history), EarlyStops(edition, history)
    history.add(Counts(seeds=edition.study.seeds, trials=history.trials_asked))
    reports: list[tuple[float, int, int]] = []
    jobs: list[tuple[Trial, Run]] = []
    in_flight: set[str] = set()
    now, epochs, reached = 0.0, 0, math.inf
    while True:
        while len(in_flight) < slots:
            action = next_action(history, in_flight)
            if isinstance(action, Wait | Confirm | Done):
                break
            if isinstance(action, Assign):
                in_flight.add(action.run.key)
                jobs.append((action.trial, action.run))
                heapq.heappush(reports, (now + _pace(action.run), len(jobs) - 1, 1))
            else:
                for fact in decisions.facts(action):
                    history.add(fact)
        if not reports:
            break
        now, number, epoch = heapq.heappop(reports)
        trial, run = jobs[number]
        epochs += 1
        values = {"val/accuracy": measured_score(surrogate, trial, run, epoch)}
        measured = Measured(run=run.key, code=history.code(run), epoch=epoch, values=values)
        history.add(measured)
        cutoff = early.cutoff(run.key, history.code(run), measured)
        if cutoff is not None:
            history.add(StoppedAt(run=run.key, code=history.code(run), epoch=epoch, cutoff=cutoff))
        elif epoch == EPOCHS:
            history.add(Ended(run=run.key, code=history.code(run), outcome="completed", epoch=epoch))
        else:
            heapq.heappush(reports, (now + _pace(run), number, epoch + 1))
            continue
        in_flight.remove(run.key)
        if reached == math.inf and history.answer(trial).status == "completed":
            chosen = history.highest()[0]
            if TOP - surrogate.truth(chosen.values) <= CLOSE:
                reached = epochs
                if until_reached:
                    break
    first_best = max(history.of("trial"), key=lambda trial: surrogate.truth(trial.values))
    return Searched(
        reached=reached,
        epochs=epochs,
        regret=TOP - surrogate.truth(history.highest()[0].values),
        lost=history.answer(first_best).status == "stopped",
    )


def _pace(run: Run) -> float:
    """How long an epoch of a run takes."""
    return 0.9 + 0.2 * random.Random(f"pace {run.key}").random()


def _repeat(task: tuple[str, int, int, bool]) -> Searched:
    name, repetition, slots, plain = task
    surrogate, many = SURROGATES[name], MANY_POINTS if slots > POINTS else POINTS
    edition = surrogate.edition(repetition, points=MOST_POINTS if plain else many, plain=plain)
    return search(surrogate, edition, slots, until_reached=plain)


def rows(repetitions: int) -> Iterator[Row]:
    """The bars of each surrogate. Cost: 20 minutes for a full table, on 2 cores that others use, too."""
    with ProcessPoolExecutor(PROCESSES) as pool:
        for name in SURROGATES:
            regrets = {}
            for slots in SLOTS:
                tasks = [(name, one, slots, plain) for plain in (False, True) for one in range(repetitions)]
                found = list(pool.map(_repeat, tasks))
                yield from _bars(f"{name}, {slots} at a time", found[:repetitions], found[repetitions:])
                regrets[slots] = [one.regret for one in found[:repetitions]]
            yield _ratio(f"{name}: regret with 8 at a time over 1", regrets[8], regrets[1])


def _bars(what: str, found: list[Searched], plain: list[Searched]) -> Iterator[Row]:
    """The images to the goal beside those of random search, where it needs many points; and the best lost."""
    if median(one.reached for one in plain) > FEW_POINTS * SEEDS * EPOCHS:
        ours, theirs = ([search.reached for search in side] for side in (found, plain))
        draw = random.Random(what)
        drawn = [
            median(draw.choices(ours, k=len(ours))) / median(draw.choices(theirs, k=len(theirs))) for _ in range(DRAWS)
        ]
        finite = [ratio for ratio in drawn if math.isfinite(ratio)]
        error, ratio = stdev(finite) if len(finite) > 1 else 0.0, median(ours) / median(theirs)
        yield Row(f"{what}: images to within 1 % of the best over random's", ratio, 0.5, error=error)
    yield share(f"{what}: best proposed point stopped", [one.lost for one in found], 0.1)


def _ratio(what: str, regrets: list[float], alone: list[float]) -> Row:
    """The ratio of two mean regrets, with its error to first order."""
    ratio = fmean(regrets) / fmean(alone)
    errors = [stdev(side) / fmean(side) / len(side) ** 0.5 for side in (regrets, alone)]
    return Row(what, ratio, 1.3, error=ratio * math.hypot(*errors))
