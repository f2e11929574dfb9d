"""What runs measure that train nothing: curves by formula, so that the same run always has the same numbers."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from search_spaces.space import Coordinate, Integer, Real
from search_spaces.study import Edition, Search, Trial

CEILING = 0.9
"""The share of the way from chance to a perfect score that the best point goes."""
WIDTH = 0.35
"""How far from the best point, in the share of a domain, a score falls to 1/e of its height."""
NOISE = 0.01
"""The standard deviation of a score over seeds and epochs."""
JITTER = 0.1
"""How much longer or shorter the epochs of a run may take than those of others."""


@dataclass(frozen=True)
class FakeRuns:
    """The curves of an edition's runs. A search has one best point, an ablation draws a score for each arm.

    Trials learn at different speeds, so their order at a rung differs from that at the end, as in real studies.
    """

    edition: Edition

    @property
    def epochs(self) -> int:
        """How long a run trains."""
        return self.edition.study.base.optimizer.epochs

    def quality(self, trial: Trial) -> float:
        """How good a trial is: 1 at the best point, near 0 far from it."""
        plan = self.edition.study.plan
        if not isinstance(plan, Search) or trial.role == "parent":
            return self._chance_of("arm", trial.name)
        coordinates = plan.space.coordinates(self.edition.study.base, trial.values)
        apart = [self._place(name, *found) - self._chance_of("best", name) for name, found in coordinates.items()]
        return math.exp(-sum((one / WIDTH) ** 2 for one in apart) / len(apart))

    def values(self, trial: Trial, seed: int, epoch: int) -> dict[str, float]:
        """What an epoch of a run measures. Epochs count from 1."""
        final = self._chance + (1 - self._chance) * CEILING * self.quality(trial)
        slowness = self.epochs * (0.1 + 0.5 * self._chance_of("slowness", trial.run(0).key))
        share = (1 - math.exp(-epoch / slowness)) / (1 - math.exp(-self.epochs / slowness))
        noise = self._random(trial.run(seed).key, epoch).gauss(0, NOISE)
        value = self._chance + (final - self._chance) * share + noise
        tests = {trial.score.test: value} if epoch == self.epochs else {}
        return {"train/loss": 1 - value, trial.score.metric: value, **tests}

    def pace(self, key: str) -> float:
        """How long the epochs of a run take beside those of others; about 1."""
        return 1 + JITTER * (2 * self._chance_of("pace", key) - 1)

    @cached_property
    def _chance(self) -> float:
        return self.edition.study.base.data.chance("val")

    def _place(self, name: str, coordinate: Coordinate, value: Any) -> float:
        """Where a value lies in its domain, from 0 to 1; the options of a choice lie anywhere."""
        match coordinate:
            case Real(low=low, high=high, log=True):
                return math.log(value / low) / math.log(high / low)
            case Real(low=low, high=high) | Integer(low=low, high=high):
                return float((value - low) / (high - low))
            case _:
                return self._chance_of("option", name, value)

    def _chance_of(self, *words: object) -> float:
        return self._random(*words).random()

    def _random(self, *words: object) -> random.Random:
        return random.Random(f"{self.edition.study.name} {' '.join(map(str, words))}")
