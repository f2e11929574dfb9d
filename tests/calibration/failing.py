"""Seeds that fail: to chance, anywhere below, or to a middle level. Verdicts and tables are of all seeds.

Of five seeds of which each fails with the probability .2 none fails in a third of studies. Nobody can tell such a trial
from one that never fails, so no sentence about the mean over all seeds keeps a bar then. What keeps one: sentences
about the typical seed of few seeds, about two trials that fail alike, and where a seed was seen to fail. Ten seeds show
that some fail: then an interval is about the mean, and leaves the typical seed out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from search_spaces.claim import AtChance, AtLeast, Better, NoWorse
from tests.calibration.rows import Row
from tests.calibration.seeds import DECIDED, Found, Kind, above, covers, decided, failing, repeated, supported, word

REPETITIONS = 2000
GOOD, LOWER = 0.97, 0.95
"""What seeds score that learn, in most arms and in one that is lower, but never fails."""
SPREAD = 0.004
LEARNT = 0.93
"""A seed below it failed."""
MARGIN = 0.02
MANY_SEEDS = 10


@dataclass(frozen=True)
class Failures:
    """How often seeds fail, and to what; of how many."""

    q: float
    to: str
    n: int

    @cached_property
    def kind(self) -> Kind:
        """A trial with such seeds."""
        return failing(self.q, self.to, GOOD, SPREAD)

    @property
    def words(self) -> str:
        """How a row begins."""
        return f"{self.q:g} fail to {self.to}, n {self.n:2}"


CASES = (
    Failures(0.2, "chance", 3),
    Failures(0.2, "chance", 10),
    Failures(0.2, "anywhere below", 5),
    Failures(0.2, "0.72", 5),
    Failures(0.5, "chance", 5),
    Failures(0.9, "chance", 5),
    Failures(0.9, "0.72", 5),
)


def rows(repetitions: int) -> Iterator[Row]:
    """All rows."""
    for case in CASES:
        yield from one_arm(repetitions, case)
        if case.q < 0.9 and case.to != "anywhere below":
            yield from two_arms(repetitions, case)
        elif case.q == 0.9 and case.to == "chance":
            yield from near_chance(repetitions, case)
    for n in (5, 10):
        yield from price(repetitions, n)


def price(repetitions: int, n: int) -> Iterator[Row]:
    """What it costs that all seeds count: a fifth of both arms falls to chance, and one learns more."""
    higher, lower = failing(0.2, "chance", 0.95, 0.01), failing(0.2, "chance", 0.9, 0.01)

    def study(rng: np.random.Generator) -> Found:
        arms = {"a": higher.scores(rng, n), "b": lower.scores(rng, n)}
        trained = Better("a", "b", of="seeds that train")
        return {
            "Better SUPPORTED, no bar": supported(Better("a", "b"), arms),
            "Better of seeds that train SUPPORTED, no bar": supported(trained, arms),
        }

    yield from repeated(f"a fifth of both fails, one learns .05 more, n {n:2}", repetitions, study, n)


def one_arm(repetitions: int, case: Failures) -> Iterator[Row]:
    """The mean over all seeds, and the typical one."""
    kind, n = case.kind, case.n

    def study(rng: np.random.Generator) -> Found:
        arms = {"a": kind.scores(rng, n)}
        mixed = len({value > LEARNT for value in arms["a"].values.values()}) > 1
        said = word(AtLeast("a", kind.mean), arms)
        found = {
            "AtLeast(mean of all) SUPPORTED, no bar": said == "SUPPORTED",
            "AtLeast(mean of all) REFUTED, no bar": said == "REFUTED",
            "AtLeast(mean of all) decided where some seeds fail and some learn": said in DECIDED if mixed else None,
            "interval of the mean, no bar": covers(arms["a"], kind.mean),
        }
        if case.q != 0.5:  # else no seed is typical
            said, bar = word(AtLeast("a", kind.typical), arms), "" if n < MANY_SEEDS else ", no bar"
            found["AtLeast(typical seed) SUPPORTED"] = said == "SUPPORTED"
            found[f"AtLeast(typical seed) REFUTED{bar}"] = said == "REFUTED"
            found[f"interval of the typical seed{bar}"] = covers(arms["a"], kind.typical)
        return found

    yield from repeated(case.words, repetitions, study, case.n)


def two_arms(repetitions: int, case: Failures) -> Iterator[Row]:
    """Two arms that fail alike; and one that fails beside one that never does, whose seeds score as much, or less."""
    kind, n = case.kind, case.n
    sound, lower = failing(0, "chance", GOOD, SPREAD), failing(0, "chance", LOWER, SPREAD)

    def study(rng: np.random.Generator) -> Found:
        arms = {name: one.scores(rng, n) for name, one in {"a": kind, "b": kind, "s": sound, "w": lower}.items()}
        seen = min(arms["a"].values.values()) <= LEARNT
        worse = supported(Better("a", "w"), arms), above(arms["a"], arms["w"])
        close = supported(NoWorse("a", "s", MARGIN), arms)
        return {
            "Better of two that fail alike decided": decided(Better("a", "b"), arms),
            "table tells two apart that fail alike": above(arms["a"], arms["b"]) or above(arms["b"], arms["a"]),
            "learners equal, Better(fails, never fails) SUPPORTED": supported(Better("a", "s"), arms),
            "learners higher, mean lower, Better SUPPORTED, no bar": worse[0],
            "learners higher, mean lower, above in the table, no bar": worse[1],
            "the same where one was seen to fail, Better SUPPORTED": worse[0] if seen else None,
            "the same where one was seen to fail, above in the table": worse[1] if seen else None,
            "NoWorse(.02) than one that never fails SUPPORTED, no bar": close,
            "NoWorse(.02) SUPPORTED where a seed was seen to fail": close if seen else None,
        }

    yield from repeated(case.words, repetitions, study, [1, n])


def near_chance(repetitions: int, case: Failures) -> Iterator[Row]:
    """A trial of which few seeds learn is not at chance."""

    def study(rng: np.random.Generator) -> Found:
        arms = {"a": case.kind.scores(rng, case.n)}
        at_chance = supported(AtChance("a", 0.03), arms)
        seen = max(arms["a"].values.values()) > LEARNT
        return {
            "AtChance SUPPORTED, no bar": at_chance,
            "AtChance SUPPORTED where a seed was seen to learn": at_chance if seen else None,
        }

    yield from repeated(case.words, repetitions, study, case.n)
