"""What the seeds of a trial score, with the truth about them, and what locus says of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from search_spaces.claim import Claim
from service.analysis.multiple_testing import subtracted, together
from service.analysis.statistics import ALPHA, CONFIDENCE, Scale, Scores
from tests.calibration.rows import Row, share
from tests.rooms.by_hand import judge

Array = np.ndarray
Draw = Callable[[np.random.Generator, int], Array]
"""The scores of so many seeds."""
Found = Mapping[str, bool | None]
"""What happened in a repetition, by row; None where it does not count."""

IMAGES = 1000
SCALE = Scale(0.5, 0.0, 1.0, 1 / IMAGES)
CHANCE, MIDDLE = 0.5, 0.72
FAILED = {
    "chance": lambda rng, seeds: rng.binomial(IMAGES, CHANCE, seeds) / IMAGES,
    "anywhere below": lambda rng, seeds: rng.uniform(CHANCE, 0.9, seeds),
    "0.72": lambda rng, seeds: MIDDLE + 0.004 * rng.standard_normal(seeds),
}
"""What seeds score that fail."""
MANY = 400_000
"""With so many seeds the truth is known."""


@dataclass(frozen=True)
class Kind:
    """Trials whose seeds score so. `draw`: their scores, which are rounded to the steps of `scale`."""

    name: str
    draw: Draw
    scale: Scale = SCALE

    def values(self, rng: np.random.Generator, seeds: int) -> Array:
        """Scores in whole steps, between the ends of the scale."""
        drawn = self.draw(rng, seeds)
        step = self.scale.step
        return np.clip(np.round(drawn / step) * step if step else drawn, self.scale.low, self.scale.high)

    def scores(self, rng: np.random.Generator, seeds: int) -> Scores:
        """A trial of so many seeds."""
        return scored(self.values(rng, seeds), self.scale)

    @cached_property
    def _many(self) -> Array:
        return self.values(np.random.default_rng(0), MANY)

    @cached_property
    def mean(self) -> float:
        """The mean over all seeds that there may be."""
        return float(self._many.mean())

    @cached_property
    def typical(self) -> float:
        """The score of the typical seed: the median."""
        return float(np.median(self._many))


def scored(values: Array, scale: Scale = SCALE) -> Scores:
    """Scores of seeds 0, 1 and so on, in whole steps."""
    if scale.step:
        values = np.clip(np.round(values / scale.step) * scale.step, scale.low, scale.high)
    return Scores(dict(enumerate(map(float, values))), len(values), scale)


def normal(mean: float = 0.8, spread: float = 0.02, scale: Scale = SCALE) -> Kind:
    """Seeds around a mean."""
    return Kind(f"normal {mean:g}", lambda rng, seeds: mean + spread * rng.standard_normal(seeds), scale)


def failing(q: float, to: str, good: float = 0.99, spread: float = 0.004) -> Kind:
    """Seeds of which each fails with the probability q."""

    def draw(rng: np.random.Generator, seeds: int) -> Array:
        learnt = good + spread * rng.standard_normal(seeds)
        return np.where(rng.random(seeds) < q, FAILED[to](rng, seeds), learnt)

    return Kind(f"{q:g} fail to {to}", draw)


def beta(mean: float, size: float, shift: float = 0.0, scale: Scale = SCALE) -> Kind:
    """Seeds crowded at the upper end. `shift`: how much lower all of them are."""
    a, b = mean * size, (1 - mean) * size
    return Kind(f"beta({mean:g}, {size:g})", lambda rng, seeds: rng.beta(a, b, seeds) - shift, scale)


def lognormal(median: float, sigma: float, scale: Scale = SCALE) -> Kind:
    """Seeds whose errors are lognormal."""
    name = f"lognormal errors of {median:g}, sigma {sigma:g}"
    return Kind(name, lambda rng, seeds: 1 - median * np.exp(sigma * rng.standard_normal(seeds)), scale)


DECIDED = ("SUPPORTED", "REFUTED")


def word(claim: Claim, trials: Mapping[str, Scores], look: int = 1) -> str:
    """The verdict on the only claim of a study."""
    return judge([claim], lambda _: trials, look=look)[0].word


def supported(claim: Claim, trials: Mapping[str, Scores], look: int = 1) -> bool:
    """Whether the only claim of a study is supported."""
    return word(claim, trials, look) == "SUPPORTED"


def decided(claim: Claim, trials: Mapping[str, Scores], look: int = 1) -> bool:
    """Whether the only claim of a study is supported or refuted: both are wrong at its edge."""
    return word(claim, trials, look) in DECIDED


def above(who: Scores, than: Scores, look: int = 1) -> bool:
    """Whether a table of this pair alone says that the first is significantly above the second."""
    return any(gap.significant and gap.mean > 0 for gap in together(subtracted({"": (who, than)}), look).values())


def told_apart(pairs: Mapping[str, tuple[Scores, Scores]], look: int = 1) -> bool:
    """Whether a table of these pairs finds any difference."""
    return any(gap.significant for gap in together(subtracted(pairs), look).values())


def covers(scores: Scores, truth: float, confidence: float = CONFIDENCE) -> bool:
    """Whether the interval of a trial holds the truth; a trial without one says nothing wrong."""
    estimate = scores.estimate
    interval = estimate.interval(confidence) if estimate else None
    return interval is None or (interval[0] <= truth + 1e-9 and truth - 1e-9 <= interval[1])


def repeated(
    what: str, repetitions: int, study: Callable[[np.random.Generator], Found], seed: int | list[int] = 0
) -> Iterator[Row]:
    """The rows of a study that is drawn so many times.

    The names say the bars: "no bar" has none; "interval" is of how often it holds the truth; else of how often
    something false is said.
    """
    rng, hits = np.random.default_rng(seed), dict[str, list[bool]]()
    for _ in range(repetitions):
        for name, hit in study(rng).items():
            hits.setdefault(name, [])
            if hit is not None:
                hits[name].append(bool(hit))
    for name, found in hits.items():
        whole = f"{what}: {name}"
        if "no bar" in name:
            yield share(whole, found)
        elif "interval" in name:
            yield share(whole, found, CONFIDENCE, at_most=False)
        else:
            yield share(whole, found, ALPHA)
