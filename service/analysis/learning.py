"""How many seeds of a trial learn, and how many of all seeds may not: exact, for few seeds. Needs no scipy."""

from __future__ import annotations

import math

from service.analysis.statistics import ALPHA, Scores


def most_that_fail(failed: int, seeds: int, level: float = ALPHA) -> float:
    """The largest share of all seeds that may not learn, where `failed` of `seeds` did not; one-sided.

    If none failed, it is 1 - level^(1 / seeds): 63 % for 3 seeds, 45 % for 5, 26 % for 10.
    Source: Clopper and Pearson 1934. Differs: nothing.
    """
    if failed >= seeds:
        return 1.0
    low, high = failed / seeds, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _at_most(failed, seeds, middle) > level else (low, middle)
    return high


def counts(scores: Scores) -> tuple[int, int]:
    """How many runs learn, and of how many: of the seeds, and over tasks of those on tasks where some do."""
    cells = [one for _, one in scores.cells]
    tried = [one for one in cells if one.learnt] or cells
    return sum(len(one.learnt) for one in tried), sum(one.n for one in tried)


def most_unlike(learnt: int, runs: int, level: float = ALPHA) -> float:
    """The largest share of all runs that may be unlike those judged, where `learnt` of `runs` learn; one-sided.

    If some learn, it is the share that may not; if none does, the share that may.
    """
    return most_that_fail(runs - learnt if learnt else 0, runs, level)


def shifts(scores: Scores, level: float) -> list[float]:
    """By how much the runs that may be unlike those that are judged may move the mean, up and down; signed.

    As many may fail as the seeds allow, and those are at chance. If no seed learns, one that does may be perfect.
    Over several tasks all failures may be on the task that moves the mean most. `level`: of all together.
    """
    groups = [[cell for cell in scores.cells if cell[1].learnt], [cell for cell in scores.cells if not cell[1].learnt]]
    groups = [group for group in groups if group]
    return [_shift(group, level / len(groups)) for group in groups]


def _shift(group: list[tuple[float, Scores]], level: float) -> float:
    unlike = most_unlike(sum(len(one.learnt) for _, one in group), sum(one.n for _, one in group), level)
    moves = [
        share * ((one.scale.chance if one.learnt else one.scale.high) - (one.sound.mean or 0.0)) for share, one in group
    ]
    largest = max(moves, key=abs)
    return min(sum(moves), unlike * len(group) * largest, key=abs)


def _at_most(failed: int, seeds: int, share: float) -> float:
    """The probability that at most `failed` of `seeds` fail, each with the probability `share`."""
    terms = (math.comb(seeds, k) * share**k * (1 - share) ** (seeds - k) for k in range(failed + 1))
    return math.fsum(terms)


def fails_more(who: Scores, than: Scores) -> float:
    """The one-sided p of the null hypothesis that `who` fails to learn no more often than `than`.

    Source: Fisher 1935, the exact test of a table of two by two. Differs: nothing.
    """
    (learn, runs), (others, of) = counts(who), counts(than)
    failed, both = runs - learn, runs - learn + of - others
    ways = sum(math.comb(runs, k) * math.comb(of, both - k) for k in range(failed, min(both, runs) + 1))
    return ways / math.comb(runs + of, both)


def opposing_p(better: Scores, worse: Scores, level: float) -> float | None:
    """The p with which the numbers of seeds that learn say the opposite of the scores; None if they do not.

    `better`: of two trials the one with the higher scores. They say the opposite where it fails to learn more often
    than the other one, by Fisher's exact test at `level`.
    """
    p = fails_more(better, worse)
    return p if p < level else None
