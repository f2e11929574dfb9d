"""Claims of each kind at their edge, published values, and Welch's test."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from search_spaces.claim import Equivalent, KeepsMore, NoWorse, Rising
from search_spaces.study import Published
from service.analysis.comparison import unpaired
from service.analysis.multiple_testing import together
from service.analysis.scores import kept
from service.analysis.verdicts import judge_published
from tests.calibration.rows import Row
from tests.calibration.seeds import Found, Kind, beta, decided, failing, normal, repeated, supported

REPETITIONS = 2000
MARGIN = 0.02


def rows(repetitions: int) -> Iterator[Row]:
    """All rows."""
    for n in (3, 10):
        yield from edges(repetitions, n)
    yield from published(repetitions)
    for name, kinds, counts in (
        ("normal", (normal(), normal()), (3, 10)),
        ("sd .05 beside .005", (normal(0.8, 0.05), normal(0.8, 0.005)), (3, 3)),
        ("a fifth fails", (failing(0.2, "chance"), failing(0.2, "chance")), (5, 5)),
        ("beta(.97, 30)", (beta(0.97, 30), beta(0.97, 30)), (5, 10)),
    ):
        yield from welch(f"{name}, {counts[0]} seeds beside {counts[1]}", repetitions, kinds, counts)


def edges(repetitions: int, n: int) -> Iterator[Row]:
    """Arms that lie a margin apart, and what two arms keep that keep as much."""

    def study(rng: np.random.Generator) -> Found:
        arms = {name: normal().scores(rng, n) for name in "abcd"}
        lower = arms | {"b": normal(0.8 - MARGIN).scores(rng, n)}
        shares = {name: kept(normal(0.7).scores(rng, n), own) for name, own in arms.items()}
        return {
            "Rising of four equal arms decided": decided(Rising(("a", "b", "c", "d")), arms),
            "NoWorse at its edge decided": decided(NoWorse("b", "a", MARGIN), lower),
            "Equivalent at its edge SUPPORTED": supported(Equivalent("b", "a", MARGIN), lower),
            "KeepsMore of two that keep as much decided": decided(KeepsMore("a", "b", 64), shares),
        }

    yield from repeated(f"claims at their edge, n {n:2}", repetitions, study, n)


def published(repetitions: int) -> Iterator[Row]:
    """A published value that lies a margin away; and one that is a mean of three seeds of our own truth."""
    known = {0: Published("a", 0.8 + MARGIN, None, "a paper", margin=MARGIN)}

    def study(rng: np.random.Generator) -> Found:
        arms = {"a": normal().scores(rng, 5)}
        said = judge_published(known, arms)[0].word
        theirs = float(normal().values(rng, 3).mean())
        close = judge_published({0: Published("a", theirs, None, "a paper", margin=0.001)}, arms)[0].word
        return {
            "a value at the margin is equal": said == "equal",
            "a value at the margin differs": said == "differs",
            "a mean of three of our own seeds differs, no bar": close == "differs",
        }

    yield from repeated("published, n  5", repetitions, study)


def welch(what: str, repetitions: int, kinds: tuple[Kind, Kind], counts: tuple[int, int]) -> Iterator[Row]:
    """Two equal trials without common seeds."""

    def study(rng: np.random.Generator) -> Found:
        one, other = (kind.scores(rng, n) for kind, n in zip(kinds, counts, strict=True))
        gap = unpaired(one, other)
        assert gap is not None
        return {"told apart by Welch's test": together({"pair": (one, other, gap)})["pair"].significant}

    yield from repeated(what, repetitions, study, list(counts))
