"""Verdicts and intervals on scores whose truth is known: seeds that fail, looks, winners, accuracies near 1, power."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from scipy.stats import t as student

from search_spaces.claim import AtLeast, Better, BetterOverTasks, Claim, Equivalent, NoWorse, Rising
from service.analysis.comparison import unpaired
from service.analysis.multiple_testing import compare_best, together
from service.analysis.scores import over_tasks
from service.analysis.statistics import Scale, Scores, level_of
from service.analysis.verdicts import Verdict, judge
from tests.calibration.rows import Row, share

REPETITIONS = 2000
IMAGES = 1000
SCALE = Scale(0.5, 0.0, 1.0, 1 / IMAGES)
GOOD, SPREAD, FAILED = 0.99, 0.004, 0.5
"""What seeds score that learn, their spread, and what the others score: as studies of red-green images report it."""
SHARES, SEEDS = (0.05, 0.1, 0.2, 0.33), (3, 5, 10, 20)
LEARN = "of seeds that learn"


def scored(values: np.ndarray) -> Scores:
    """Scores of seeds 0, 1 and so on, in whole images."""
    values = np.clip(np.round(values * IMAGES) / IMAGES, 0, 1)
    return Scores(dict(enumerate(map(float, values))), len(values), SCALE)


def failing(rng: np.random.Generator, seeds: int, q: float, good: float = GOOD) -> Scores:
    """Seeds of which each fails with the probability q."""
    learnt = good + SPREAD * rng.standard_normal(seeds)
    return scored(np.where(rng.random(seeds) < q, FAILED, learnt))


def verdict(claim: Claim, trials: Mapping[str, Scores], look: int = 1) -> Verdict:
    """The verdict on the only claim of a study."""
    return judge([claim], lambda _: trials, look=look)[0]


def outright(found: Verdict) -> bool:
    """Whether a claim is supported for all seeds, those that fail with them."""
    return found.word == "SUPPORTED" and not found.scope


def rows(repetitions: int) -> Iterator[Row]:
    """All rows."""
    yield from seeds_that_guess(repetitions)
    yield from seeds_that_fail(repetitions)
    yield from looks(repetitions)
    yield from winners(repetitions)
    yield from near_one(repetitions)
    yield from near_one_on_draws(repetitions)
    yield from tasks(repetitions)
    yield from images(repetitions)
    yield from power(repetitions)


def seeds_that_guess(repetitions: int) -> Iterator[Row]:
    """A trial at chance: none of its seeds must seem to learn."""
    for n in SEEDS:
        rng = np.random.default_rng(n)
        found = [bool(scored(rng.binomial(IMAGES, 0.5, n) / IMAGES).learnt) for _ in range(repetitions)]
        yield share(f"n {n:2}: at chance, some seed seems to learn", found, 0.05)


def seeds_that_fail(repetitions: int) -> Iterator[Row]:
    """A share of seeds never learns: for all seeds, verdicts must not say more than their seeds show."""
    for q in SHARES:
        for n in SEEDS:
            rng = np.random.default_rng([n, round(100 * q)])
            mean = GOOD - q * (GOOD - FAILED)
            hits: dict[str, list[bool]] = {}
            for _ in range(repetitions):
                arms = {
                    "a": failing(rng, n, q),
                    "b": failing(rng, n, 0),
                    "c": failing(rng, n, 0),
                    "d": failing(rng, n, 0),
                }
                worse = {"a": arms["a"], "b": failing(rng, n, 0, 0.98)}
                edge = {"a": failing(rng, n, q, GOOD - 0.03), "b": arms["b"]}
                least = verdict(AtLeast("a", mean), arms)
                own = verdict(AtLeast("a", GOOD), arms)
                better = verdict(Better("a", "b"), worse)
                said = {
                    "AtLeast(mean of all) SUPPORTED for all": outright(least),
                    "AtLeast(.99) SUPPORTED of seeds that learn": own.word == "SUPPORTED",
                    "NoWorse(.03) SUPPORTED for all": outright(verdict(NoWorse("a", "b", 0.03), arms)),
                    "NoWorse(.03), at its edge, SUPPORTED": verdict(NoWorse("a", "b", 0.03), edge).word == "SUPPORTED",
                    "Equivalent(.03) SUPPORTED for all": outright(verdict(Equivalent("a", "b", 0.03), arms)),
                    "Equivalent(.03), at its edge, SUPPORTED": verdict(Equivalent("a", "b", 0.03), edge).word
                    == "SUPPORTED",
                    "Rising, last arm fails, SUPPORTED for all": outright(verdict(Rising(("b", "c", "d", "a")), arms)),
                    "Better, the worse arm SUPPORTED for all": outright(better),
                }
                for what, hit in said.items():
                    hits.setdefault(what, []).append(hit)
                interval = arms["a"].interval
                holds = interval is None or interval[0] <= GOOD <= interval[1]
                hits.setdefault("interval of the seeds that learn holds", []).append(holds)
            for what, found in hits.items():
                interval_row = what.startswith("interval")
                yield share(f"q {q}, n {n:2}: {what}", found, 0.93 if interval_row else 0.05, at_most=not interval_row)


def looks(repetitions: int) -> Iterator[Row]:
    """Two equal arms; seeds are added until one is better."""
    for name, counts in (("3", [3]), ("3, 5, 8, 12", [3, 5, 8, 12]), ("3 to 20 by one", [*range(3, 21)])):
        rng = np.random.default_rng(len(counts))
        found = []
        for _ in range(repetitions):
            a, b = 0.8 + 0.02 * rng.standard_normal((2, counts[-1]))
            found.append(
                any(
                    verdict(Better("a", "b"), {"a": scored(a[:n]), "b": scored(b[:n])}, look).word == "SUPPORTED"
                    for look, n in enumerate(counts, 1)
                )
            )
        yield share(f"seeds added until SUPPORTED ({name})", found, 0.05)


def winners(repetitions: int) -> Iterator[Row]:
    """Equal arms of which the best by validation is reported: by the same runs, or by fresh seeds."""
    arms, n, r = 12, 5, 0.9
    rng = np.random.default_rng(12)
    apart, holds, least = [], [], []
    for _ in range(repetitions):
        both = rng.standard_normal((arms, n))
        tests = 0.8 + 0.02 * both
        validation = r * both + math.sqrt(1 - r * r) * rng.standard_normal((arms, n))
        trials = {f"{arm}": scored(tests[arm]) for arm in range(arms)}
        best = f"{validation.mean(1).argmax()}"
        apart.append(any(gap.significant for gap in compare_best(best, trials).values()))
        chosen = trials[best].estimate
        assert chosen is not None
        interval = chosen.interval(1 - 0.05 / arms)
        assert interval is not None
        holds.append(interval[0] <= 0.8 <= interval[1])
        fresh = {"best": scored(0.8 + 0.02 * rng.standard_normal(n))}  # a search: other seeds than those that chose
        least.append(verdict(AtLeast("best", 0.8), fresh).word == "SUPPORTED")
    yield share("best of 12 equal arms, 5 seeds: told apart from another one", apart, 0.05)
    yield share("best of 12 equal arms, 5 seeds: interval of the winner holds", holds, 0.94, at_most=False)
    yield share("best of 12 equal points, on fresh seeds: AtLeast(truth) SUPPORTED", least, 0.05)


def near_one(repetitions: int) -> Iterator[Row]:
    """Errors that are skewed, at the score of the typical seed; and scores that are mostly perfect."""
    skewed = {"errors lognormal, sigma .7": (0.005, 0.7), "errors lognormal, sigma 1.2": (0.01, 1.2)}
    for n in SEEDS:
        rng = np.random.default_rng(n)
        for name, (median, sigma) in skewed.items():
            trials = [scored(1 - median * np.exp(sigma * rng.standard_normal(n))) for _ in range(repetitions)]
            yield from _both_sides(f"n {n:2}: {name}", trials, 1 - median)
        for wrong in (3.0, 0.3):
            trials = [scored(1 - rng.poisson(wrong, n) / IMAGES) for _ in range(repetitions)]
            yield from _both_sides(f"n {n:2}: {wrong:g} of 1,000 images wrong", trials, 1 - wrong / IMAGES)
        (a, s), (b, t) = skewed.values()
        pairs = [
            [scored(1 - median * np.exp(sigma * rng.standard_normal(n))) for median, sigma in ((a, s), (b, t))]
            for _ in range(repetitions)
        ]
        words = [verdict(NoWorse("b", "a", b - a), {"a": one, "b": other}).word for one, other in pairs]
        yield share(
            f"n {n:2}: sigma 1.2 beside .7, NoWorse at its edge SUPPORTED", [w == "SUPPORTED" for w in words], 0.06
        )
        yield share(f"n {n:2}: sigma 1.2 beside .7, NoWorse at its edge REFUTED", [w == "REFUTED" for w in words], 0.06)


def _both_sides(name: str, trials: list[Scores], truth: float) -> Iterator[Row]:
    words = [verdict(AtLeast("a", truth), {"a": one}).word for one in trials]
    for word in ("SUPPORTED", "REFUTED"):
        yield share(f"{name}, AtLeast(truth) {word}", [found == word for found in words], 0.06)


DRAWS = 5


def images(repetitions: int) -> Iterator[Row]:
    """Two arms that are equal over all images, on a few draws of them: each draw favors one arm for all its seeds."""
    for share_of_images in (0.0, 0.5, 1.0, 2.0):
        for n in (3, 5, 10):
            rng = np.random.default_rng([DRAWS, n, round(10 * share_of_images)])
            found, alone = [], []
            for _ in range(repetitions):
                arms = {}
                for name in "ab":
                    seeds, draws = 0.004 * rng.standard_normal(n), 0.004 * rng.standard_normal(DRAWS)
                    both = 0.9 + seeds[:, None] + share_of_images * draws + 0.002 * rng.standard_normal((n, DRAWS))
                    further = {seed: (*map(float, row[1:]),) for seed, row in enumerate(both)}
                    arms[name] = replace(scored(both[:, 0]), further=further)
                found.append(verdict(Better("a", "b"), arms).word == "SUPPORTED")
                gap = unpaired(arms["a"], arms["b"])
                assert gap is not None
                alone.append(together({"b": (arms["a"], arms["b"], gap)}, level_of(1))["b"].significant)
            what = f"n {n:2}: images move an arm by {share_of_images:g} of seeds"
            yield share(f"{what}: one of equals better", found, 0.06)
            yield share(f"{what}: equals told apart by Welch's test", alone, 0.06)


def near_one_on_draws(repetitions: int) -> Iterator[Row]:
    """Skewed errors near a perfect score, seen on a few draws of images: each draw finds a few of them."""
    for n in (3, 5, 10):
        rng = np.random.default_rng([DRAWS, n])
        for median, sigma in ((0.0005, 0.7), (0.002, 0.7), (0.002, 1.2), (0.005, 0.7)):
            trials = []
            for _ in range(repetitions):
                wrong = np.minimum(median * np.exp(sigma * rng.standard_normal(n)), 0.5)
                seen = 1 - rng.binomial(IMAGES, wrong[:, None], (n, DRAWS)) / IMAGES
                further = {seed: (*map(float, row[1:]),) for seed, row in enumerate(seen)}
                trials.append(replace(scored(seen[:, 0]), further=further))
            yield from _both_sides(f"n {n:2}: {DRAWS} draws, errors of {median:g}, sigma {sigma}", trials, 1 - median)
            if n == 5:
                wide = [trial.estimate.interval()[0] < 0.9 for trial in trials]
                yield share(
                    f"n {n:2}: {DRAWS} draws, errors of {median:g}, sigma {sigma}, interval below 0.9", wide, 0.02
                )


TASKS = 7
ONE_APART = {f"{task}": "alike" for task in range(TASKS - 1)}
"""Seven tasks of two families, one of which is a single task: as the atlas has them."""


def tasks(repetitions: int) -> Iterator[Row]:
    """Two methods over seven tasks that are equal where seeds learn, or in the mean over all seeds."""
    for q in (0.0, *SHARES):
        for n in (3, 5, 10):
            rng = np.random.default_rng([TASKS, n, round(100 * q)])
            equal, worse = [], []
            for _ in range(repetitions):
                a, b, low = (
                    over_tasks({f"{task}": failing(rng, n, share, good) for task in range(TASKS)}, ONE_APART)
                    for share, good in ((q, GOOD), (0, GOOD), (0, 0.98))
                )
                claim = BetterOverTasks("a", "b")
                equal.append(verdict(claim, {"a": a, "b": b}).word == "SUPPORTED")
                worse.append(outright(verdict(claim, {"a": a, "b": low})))
            yield share(f"over 7 tasks, q {q}, n {n:2}: of two equal methods one better", equal, 0.05)
            if q >= 0.05:
                yield share(f"over 7 tasks, q {q}, n {n:2}: the worse method better for all", worse, 0.05)


def power(repetitions: int) -> Iterator[Row]:
    """Normal scores: the power that a first look loses beside a plain one-sided t-test at 0.05."""
    std = 0.02
    for n in (3, 5, 10):
        rng = np.random.default_rng(n)
        for effect in (1, 2, 3):
            # pairs whose difference has the standard deviation `std`
            half = std / math.sqrt(2)
            for claim, middle, margin in (
                (Better("a", "b"), effect * std, 0.0),
                (NoWorse("a", "b", effect * std), 0.0, effect * std),
                (Equivalent("a", "b", effect * std), 0.0, effect * std),
            ):
                ours, plain = [], []
                for _ in range(repetitions):
                    a, b = (
                        scored(0.8 + middle + half * rng.standard_normal(n)),
                        scored(0.8 + half * rng.standard_normal(n)),
                    )
                    ours.append(verdict(claim, {"a": a, "b": b}).word == "SUPPORTED")
                    gaps = np.array([*a.values.values()]) - np.array([*b.values.values()])
                    error, far = gaps.std(ddof=1) / math.sqrt(n), student.ppf(0.95, n - 1)
                    low, high = gaps.mean() - far * error, gaps.mean() + far * error
                    plain.append(low > -margin and (high < margin or not isinstance(claim, Equivalent)))
                lost = float(np.mean(plain) - np.mean(ours))
                name = f"n {n:2}: {type(claim).__name__} at {effect} sd, power lost of {np.mean(plain):.2f}"
                both = np.asarray(plain) & ~np.asarray(ours)
                yield Row(name, lost, 0.05, error=math.sqrt(both.mean() / repetitions))
