"""The scores of a trial by seed, with the scale of its data, and how many of its seeds learn. Needs no scipy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean

from search_spaces.study import Trial
from service.analysis.statistics import ALPHA, Estimate, Scale, Scores, difference
from service.storage.history import History
from service.storage.states import TrialAnswer
from trainables.data import Data
from trainables.data.dataset import SplitName


def score_scale(data: Data, split: SplitName) -> Scale:
    """Returns what a score on a split can be: accuracy comes in steps of one image, R² has no lower end."""
    if data.metric == "r2":
        return Scale(data.chance(split), high=1.0, overlap=data.overlap)
    low = data.score(0.0, split)
    return Scale(data.chance(split), low, 1.0, (1 - low) * data.step(split), overlap=data.overlap)


def diverged_seeds(history: History, trial: Trial) -> frozenset[int]:
    """Returns the seeds of a trial that diverged."""
    return frozenset(seed for seed, run in history.runs(trial).items() if history.state(run).status == "diverged")


def scores_of(
    trial: Trial, split: SplitName, finals: Mapping[int, float | None], diverged: frozenset[int], asked: int
) -> Scores:
    """Returns the scores of a trial on a split, in the order of its seeds; a diverged one at chance.

    `finals`: the last score of each seed that completed; a seed without one is left out. `asked`: how many seeds there
    should be.
    """
    data = trial.recipe.data
    known = {seed: value for seed, value in finals.items() if value is not None}
    values = dict(sorted((known | dict.fromkeys(diverged, data.chance(split))).items()))
    return Scores(values, asked, score_scale(data, split), diverged)


def validation_scores(history: History, trial: Trial, answer: TrialAnswer | None = None) -> Scores:
    """Returns the validation scores of a trial's answered seeds, a diverged one at chance."""
    answer = answer or history.answer(trial)
    scale = score_scale(trial.recipe.data, "val")
    return Scores(dict(answer.values), answer.asked, scale, diverged_seeds(history, trial))


@dataclass(frozen=True, kw_only=True)
class ScoresOverTasks(Scores):
    """The mean over tasks of one method's scores, by seed. `tasks`: its scores on each; `shares`: what each counts.

    A run that does not learn is put at the mean of those of its task that do (`_filled`).
    """

    tasks: Mapping[str, Scores]
    shares: Mapping[str, float]

    @cached_property
    def learnt(self) -> frozenset[int]:
        """All seeds where some run learns: what runs that do not learn score is not in the values."""
        return frozenset(self.values if any(scores.learnt for scores in self.tasks.values()) else ())

    @property
    def cells(self) -> list[tuple[float, Scores]]:
        """The scores on each task, with what they count."""
        return [(self.shares[task], scores) for task, scores in self.tasks.items()]

    @property
    def fewest(self) -> tuple[int, str]:
        """The number of seeds that learn on the task where fewest do, and the task."""
        return min((scores.sound.n, task) for task, scores in self.tasks.items())


def over_tasks(tasks: Mapping[str, Scores], families: Mapping[str, str]) -> ScoresOverTasks:
    """Returns a method's scores over tasks: each family counts the same, and in it each task. `families`: by task."""
    names = [families.get(task, task) for task in tasks]
    shares = {task: 1 / len({*names}) / names.count(name) for task, name in zip(tasks, names, strict=True)}
    answered = [{*scores.values} for scores in tasks.values() if scores.sound.n]
    seeds = sorted(set.intersection(*answered)) if len(answered) == len(tasks) else []
    parts = [(shares[task], _filled(scores, seeds)) for task, scores in tasks.items()]
    values = {seed: math.fsum(share * filled[seed] for share, filled in parts) for seed in seeds}
    scales = [(shares[task], scores.scale) for task, scores in tasks.items()]
    scale = Scale(
        math.fsum(share * scale.chance for share, scale in scales),
        math.fsum(share * scale.low for share, scale in scales),
        math.fsum(share * scale.high for share, scale in scales),
        math.hypot(*(share * scale.step for share, scale in scales)),
        overlap=max(scale.overlap for _, scale in scales),
    )
    fallen = frozenset().union(*(scores.diverged for scores in tasks.values()))
    asked = max(scores.asked for scores in tasks.values())
    return ScoresOverTasks(values, asked, scale, fallen, tasks=tasks, shares=shares)


def _filled(scores: Scores, seeds: list[int]) -> dict[int, float]:
    """Returns a score for every seed, with the mean of the seeds that learn; their spread gives the error of this mean.

    Of n seeds k learn; so that the spread of n values gives the error of a mean of k, they are moved away from their
    mean by the square root of n (n - 1) / (k (k - 1)).
    """
    own = {seed: value for seed, value in scores.sound.values.items() if seed in seeds}
    n, k = len(seeds), len(own)
    if k == n or not own:
        return own
    center = fmean(own.values())
    wider = math.sqrt(n * (n - 1) / (k * (k - 1))) if k > 1 else 1.0
    return {seed: center + wider * (own[seed] - center) if seed in own else center for seed in seeds}


def difference_over_tasks(who: ScoresOverTasks, than: ScoresOverTasks) -> Estimate | None:
    """Returns `who` minus `than`, paired by seed; its degrees of freedom are of the task where fewest seeds learn."""
    gap = difference(who, than)
    if gap is None:
        return None
    freedom = min(who.fewest[0], than.fewest[0], gap.n) - 1
    return replace(gap, df=freedom, twin=replace(gap.twin, df=freedom) if gap.twin else None)


def most_that_fail(failed: int, seeds: int, level: float = ALPHA) -> float:
    """Returns the largest share of all seeds that may not learn, where `failed` of `seeds` did not; one-sided.

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
    """Returns how many runs learn, and of how many: of the seeds, and over tasks of those on tasks where some do."""
    cells = [cell for _, cell in scores.cells]
    tried = [cell for cell in cells if cell.learnt] or cells
    return sum(len(cell.learnt) for cell in tried), sum(cell.n for cell in tried)


def most_unlike(learnt: int, runs: int, level: float = ALPHA) -> float:
    """Returns the largest share of all runs that may be unlike those judged, where `learnt` of `runs` learn; one-sided.

    If some learn, it is the share that may not; if none does, the share that may.
    """
    return most_that_fail(runs - learnt if learnt else 0, runs, level)


def shifts(scores: Scores, level: float) -> list[float]:
    """Returns by how much runs unlike those that are judged may move the mean, up and down; signed.

    As many may fail as the seeds allow, and those are at chance. If no seed learns, one that does may be perfect.
    Over several tasks all failures may be on the task that moves the mean most. `level`: of all together.
    """
    groups = [[cell for cell in scores.cells if cell[1].learnt], [cell for cell in scores.cells if not cell[1].learnt]]
    groups = [group for group in groups if group]
    return [_shift(group, level / len(groups)) for group in groups]


def _shift(group: list[tuple[float, Scores]], level: float) -> float:
    unlike = most_unlike(sum(len(scores.learnt) for _, scores in group), sum(scores.n for _, scores in group), level)
    moves = [
        share * ((scores.scale.chance if scores.learnt else scores.scale.high) - (scores.sound.mean or 0.0))
        for share, scores in group
    ]
    largest = max(moves, key=abs)
    return min(sum(moves), unlike * len(group) * largest, key=abs)


def _at_most(failed: int, seeds: int, share: float) -> float:
    """Returns the probability that at most `failed` of `seeds` fail, each with the probability `share`."""
    terms = (math.comb(seeds, k) * share**k * (1 - share) ** (seeds - k) for k in range(failed + 1))
    return math.fsum(terms)


def fails_more(who: Scores, than: Scores) -> float:
    """Returns the one-sided p of the null hypothesis that `who` fails to learn no more often than `than`.

    Source: Fisher 1935, the exact test of a table of two by two. Differs: nothing.
    """
    (learn, runs), (others, of) = counts(who), counts(than)
    failed, both = runs - learn, runs - learn + of - others
    ways = sum(math.comb(runs, k) * math.comb(of, both - k) for k in range(failed, min(both, runs) + 1))
    return ways / math.comb(runs + of, both)


def opposing_p(better: Scores, worse: Scores, level: float) -> float | None:
    """Returns the p with which the numbers of seeds that learn say the opposite of the scores; None if they do not.

    `better`: of two trials the one with the higher scores. They say the opposite where it fails to learn more often
    than the other one, by Fisher's exact test at `level`.
    """
    p = fails_more(better, worse)
    return p if p < level else None


LEAST_GAIN = 0.05
"""The share of the way from chance to a perfect score that a seed needs before one asks how much of it is kept."""


def kept(after: Scores, before: Scores) -> Scores:
    """Returns the share that a trial keeps of what it has above chance, by seed: 1 if nothing changes, 0 at chance.

    Seeds near chance before have nothing to keep, and are left out: the share of a gain of almost 0 may be any number.
    So are those of the lower group, where seeds split in two before: they do not learn.
    """
    chance, high = before.scale.chance, before.scale.high
    least = chance + max(before.scale.luck, LEAST_GAIN * (high - chance) if math.isfinite(high) else 0.0)
    had = {seed: own - chance for seed, own in before.sound.values.items() if own > least and seed in after.values}
    values = {seed: (after.values[seed] - chance) / own for seed, own in had.items()}
    steps = math.hypot(after.scale.step, before.scale.step)
    scale = Scale(step=steps / min(had.values(), default=1.0), overlap=before.scale.overlap)
    return Scores(values, before.asked, scale)
