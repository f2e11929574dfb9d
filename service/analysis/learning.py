"""How many seeds of a trial learn, and how many of all seeds may not: exact, for few seeds. Needs no scipy."""

from __future__ import annotations

import math

from service.analysis.statistics import ALPHA, Scores


def most_that_fail(failed: int, seeds: int, level: float = ALPHA) -> float:
    """The largest share of all seeds that may not learn, where `failed` of `seeds` did not; one-sided.

    Where none failed, it is 1 - level^(1 / seeds): 63 % for 3 seeds, 45 % for 5, 26 % for 10.
    Source: Clopper and Pearson 1934. Differs: nothing.
    """
    if failed >= seeds:
        return 1.0
    low, high = failed / seeds, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(failed, seeds, middle) > level else (low, middle)
    return high


def most_unlike(scores: Scores, level: float = ALPHA) -> float:
    """The largest share of all seeds that may be unlike those that are judged; one-sided.

    Where some seeds learn, it is the share that may not; where none does, the share that may.
    """
    learnt = len(scores.learnt)
    return most_that_fail(scores.n - learnt if learnt else 0, scores.n, level)


def _at_most(failed: int, seeds: int, share: float) -> float:
    """The probability that at most `failed` of `seeds` fail, each with the probability `share`."""
    terms = (math.comb(seeds, k) * share**k * (1 - share) ** (seeds - k) for k in range(failed + 1))
    return math.fsum(terms)


def fails_more(who: Scores, than: Scores) -> float:
    """The one-sided p of the null hypothesis that `who` fails to learn no more often than `than`.

    Source: Fisher 1935, the exact test of a table of two by two. Differs: nothing.
    """
    failed, other = who.n - len(who.learnt), than.n - len(than.learnt)
    both, seeds = failed + other, who.n + than.n
    ways = sum(math.comb(who.n, k) * math.comb(than.n, both - k) for k in range(failed, min(both, who.n) + 1))
    return ways / math.comb(seeds, both)
