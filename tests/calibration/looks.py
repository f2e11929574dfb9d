"""Seeds that are added until one likes what is found: equal arms, looked at after 3, 5, 8, 12 and 20 seeds."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from search_spaces.claim import Better
from tests.calibration.rows import Row
from tests.calibration.seeds import Found, beta, decided, failing, normal, repeated, scored, told_apart

REPETITIONS = 2000
LOOKS = (3, 5, 8, 12, 20)
KINDS = (normal(), failing(0.2, "chance"), beta(0.97, 30))


def rows(repetitions: int) -> Iterator[Row]:
    """Whether a claim, or a table, finds a difference at any look."""
    for kind in KINDS:

        def study(rng: np.random.Generator, kind=kind) -> Found:
            seeds = {name: kind.values(rng, LOOKS[-1]) for name in "ab"}
            looks = [
                (look, {name: scored(values[:n]) for name, values in seeds.items()}) for look, n in enumerate(LOOKS, 1)
            ]
            table = any(told_apart({"pair": (arms["a"], arms["b"])}, look) for look, arms in looks)
            found = {"table tells equal arms apart in five looks": table}
            if kind is KINDS[0]:
                decides = any(decided(Better("a", "b"), arms, look) for look, arms in looks[:3])
                found["Better of equal arms decided in three looks"] = decides
            return found

        yield from repeated(f"{kind.name}, 3 to 20 seeds", repetitions, study, len(kind.name))
