"""The race of arms over seeds: how often it loses the best arm, and what it trains of the full grid.

18 arms, 10 seeds; all scores share what a seed does to every arm. In the first rows arms are equal, and the arm that
is asked about may spread more than the others, or seeds may fail. In the last ones the best three arms are equal, and
each further one is lower by so many deviations of a seed. (Where they lie one or two deviations apart, 56 or 51 % is
trained.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from service.planning.stopping import FEWEST, LOST, behind
from tests.calibration.rows import Row, share

REPETITIONS = 1000
ARMS, SEEDS = 18, 10
BASELINE = ARMS // 2
"""The arm that gets all its seeds."""
FAILS = 30.0
"""By how many deviations a seed that fails is lower."""
Scores = np.ndarray
Draw = Callable[[np.random.Generator], Scores]


def raced(scores: Scores) -> list[int]:
    """How many seeds each arm gets. Shapes: (arms, seeds)."""
    got = [SEEDS] * len(scores)
    for seeds in range(FEWEST, SEEDS):
        rows = {f"{arm}": scores[arm, :seeds].tolist() for arm in range(len(scores)) if got[arm] == SEEDS}
        for arm in behind(rows, len(scores)):
            got[int(arm)] = seeds if int(arm) != BASELINE else SEEDS
    return got


def normal(spread: float = 1.0, others: float = 1.0, fails: float = 0.0) -> Draw:
    """Equal arms; `spread`: the deviation of the first one's seeds."""

    def draw(stream: np.random.Generator) -> Scores:
        deviations = np.full((ARMS, 1), others)
        deviations[0] = spread
        scores = stream.normal(size=(1, SEEDS)) + deviations * stream.normal(size=(ARMS, SEEDS))
        return scores - FAILS * (stream.random((ARMS, SEEDS)) < fails)

    return draw


def skewed(sigma: float) -> Draw:
    """Equal arms near a perfect score: lognormal errors."""
    return lambda stream: -np.exp(sigma * stream.normal(size=(ARMS, SEEDS)))


def falling(gap: float) -> Draw:
    """Three equal arms, and each further one lower by `gap`."""
    means = -gap * np.maximum(0, np.arange(ARMS) - 2)[:, None]
    return lambda stream: means + normal()(stream)


EQUAL = {
    "normal": normal(),
    "the arm spreads 1.7 times as much": normal(1.7),
    "the arm spreads 3 times as much": normal(3.0),
    "the arm spreads 10 times as much": normal(3.0, 0.3),
    "a seed in ten fails": normal(fails=0.1),
    "a seed in three fails": normal(fails=0.33),
    "lognormal errors, sigma .7": skewed(0.7),
    "lognormal errors, sigma 1.2": skewed(1.2),
}
"""What all arms alike may score, by name."""
GAPS = (4.0,)


def rows(repetitions: int) -> Iterator[Row]:
    """The share of races that lose an arm as good as the best, and the share of the full grid that is trained."""
    stream = np.random.default_rng(0)
    for name, draw in EQUAL.items():
        lost = [raced(draw(stream))[0] < SEEDS for _ in range(repetitions)]
        yield share(f"an arm as good as the best is out: {name}", lost, LOST)
    for gap in GAPS:
        found = [raced(falling(gap)(stream)) for _ in range(repetitions)]
        yield share(f"one of the three best is out, others lower by {gap:g}", [got[0] < SEEDS for got in found], LOST)
        trained = [sum(got) / (ARMS * SEEDS) for got in found]
        error = float(np.std(trained)) / repetitions**0.5
        yield Row(f"trained of the full grid, others lower by {gap:g}", float(np.mean(trained)), 0.5, error=error)
