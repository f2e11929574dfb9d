"""What several trials show together: means over tasks, scores over the length of training, the tuning of each arm."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import setting_words
from service.analysis.findings import Finding, finding
from service.analysis.format import fixed
from service.analysis.statistics import Estimate, Scores, estimate

if TYPE_CHECKING:
    from service.analysis.trial_result import TrialResult
    from service.storage.history import History

MOST = 3
"""How many methods a sentence names."""


def mean_over_families(means: Mapping[str, float], families: Mapping[str, str]) -> float:
    """Returns the mean over families of tasks: each family counts the same, and in it each task.

    `means`: by task; `families`: by task, where it is not one by itself.
    """
    by_family: dict[str, list[float]] = {}
    for task, mean in means.items():
        by_family.setdefault(families.get(task, task), []).append(mean)
    return fmean(map(fmean, by_family.values()))


@dataclass(frozen=True)
class Methods:
    """The methods of an ablation over tasks, by their names in the order of the study.

    `tasks`: by task, then by method, its test scores; a method that is not there was left out of the study. `families`:
    by task, where it is not one by itself.
    """

    names: tuple[str, ...]
    tasks: Mapping[str, Mapping[str, Scores]]
    families: Mapping[str, str]

    @cached_property
    def counted(self) -> list[str]:
        """The tasks that the means are over: on them every method has all its seeds."""
        return [
            task
            for task, scores in self.tasks.items()
            if {*scores} == {*self.names} and all(of_task.complete and of_task.n > 0 for of_task in scores.values())
        ]

    @property
    def in_families(self) -> bool:
        """Whether some of the tasks that count share a family."""
        return len({self.families.get(task, task) for task in self.counted}) < len(self.counted)

    @cached_property
    def means(self) -> dict[str, float]:
        """The mean over families of each method, the highest first, of all its seeds; empty if no task counts."""
        means = {
            name: mean_over_families({task: self.tasks[task][name].mean or 0.0 for task in self.counted}, self.families)
            for name in self.names
            if self.counted
        }
        return dict(sorted(means.items(), key=lambda item: -item[1]))


def highest_mean(methods: Methods) -> Finding:
    """Returns which method has the highest mean, or which ones in the digits that are shown, and which one the next."""
    if not methods.means:
        return finding("headline.tasks unfinished")
    (best, *others) = [[*names] for _, names in groupby(methods.means, lambda name: fixed(methods.means[name]))]
    mean = methods.means[best[0]]
    if len(best) > 1:
        names = [finding("part.arm", name=name) for name in best[:MOST]]
        names += [finding("part.more methods", count=len(best) - MOST)] if len(best) > MOST else []
        return finding("headline.task means", names=names, mean=mean)
    after = others[0][0] if others else None
    return finding("headline.task mean", name=best[0], mean=mean, next=after, next_mean=methods.means.get(after or ""))


def length_scores(row: TrialResult) -> dict[int, dict[int, float]]:
    """Returns the validation score by length, then by seed, of the lengths that are reached. Units: epochs.

    A diverged seed is at chance from there on, a failed one is left out.
    """
    metric, chance = row.trial.score.metric, row.recipe.data.chance("val")
    scores: dict[int, dict[int, float]] = {}
    for length, epoch in row.recipe.optimizer.measured_at.items():
        for seed, run in row.runs.items():
            if run.state.status != "failed" and metric in run.curve.get(epoch, {}):
                scores.setdefault(length, {})[seed] = run.curve[epoch][metric]
            elif run.state.status == "diverged" and run.epochs < epoch:
                scores.setdefault(length, {})[seed] = chance
    return scores


@dataclass(frozen=True)
class Lengths:
    """What the length of training changes, over the seeds that have every length in all trials that have one.

    `ahead`: the name of the trial with the highest mean, by length. `gain`: what a doubling brings between the last two
    lengths, the mean over trials; of seeds. Units: epochs.
    """

    ahead: dict[int, str]
    gain: Estimate

    @property
    def rising(self) -> bool:
        """Whether scores surely still rise at the end: the 95 % interval of the gain lies above 0."""
        interval = self.gain.interval()
        return interval is not None and interval[0] > 0

    def findings(self) -> Iterator[Finding]:
        """Yields who is ahead at which length, where that changes, and what a doubling of the longest one brings."""
        leaders = [
            finding("part.leader", name=name, lengths=[*lengths])
            for name, lengths in groupby(self.ahead, self.ahead.__getitem__)
        ]
        if len(leaders) > 1:
            yield finding("detail.leaders", leaders=leaders)
        yield finding("detail.doubling", gain=self.gain.mean, interval=self.gain.interval())


def lengths(rows: Sequence[TrialResult]) -> Lengths | None:
    """Returns what the length of training changes; None where trials have one length, or others, or no seed in common.

    `rows`: the trials that are compared.
    """
    schedules = {row.recipe.optimizer.every_length for row in rows}
    if len(schedules) != 1 or len(every := schedules.pop()) == 1:
        return None
    by_row = {row.name: scores for row in rows if every[-1] in (scores := length_scores(row))}
    each = [{*scores[length]} for scores in by_row.values() for length in every]
    seeds = sorted(set.intersection(*each)) if each else []
    if not seeds:
        return None
    ahead = {
        length: max(by_row, key=lambda name: fmean(by_row[name][length][seed] for seed in seeds)) for length in every
    }
    before, last = every[-2:]
    gains = [fmean(scores[last][seed] - scores[before][seed] for scores in by_row.values()) for seed in seeds]
    return Lengths(ahead, estimate([gain / math.log2(last / before) for gain in gains]))


@dataclass(frozen=True)
class ArmTuning:
    """The tuning of one arm. `rows`: its trials so far, of `trials`; `settled`: whether the arm's values are fixed.

    `chosen`: the trial that gave the arm its values; None before the choice, and where every trial diverged.
    """

    arm: str
    trials: int
    paths: tuple[str, ...]
    rows: tuple[TrialResult, ...]
    settled: bool
    chosen: TrialResult | None

    @property
    def failed(self) -> int:
        """How many trials ended for a reason that is not their recipe's."""
        return sum(row.answer.status == "incomplete" and bool(row.answer.reason) for row in self.rows)

    @property
    def ended(self) -> int:
        """How many trials have ended, whatever they came to."""
        return sum(row.answer.status != "open" for row in self.rows)

    @property
    def seconds(self) -> float:
        """The time that all its runs took."""
        return sum(row.seconds for row in self.rows)

    @property
    def values(self) -> str:
        """The tuned values, in words; empty if nothing was chosen."""
        chosen = self.chosen
        values = {path: chosen.value(path) for path in self.paths if path in chosen.trial.values} if chosen else {}
        return ", ".join(setting_words(values))

    @property
    def trial_counts(self) -> str:
        """`4`, `2 of 4`, `4, 1 diverged, 1 failed`."""
        lost = {"diverged": sum(row.answer.status == "diverged" for row in self.rows), "failed": self.failed}
        count = f"{self.ended}" if self.ended == self.trials else f"{self.ended} of {self.trials}"
        return ", ".join([count, *(f"{number} {word}" for word, number in lost.items() if number)])

    @property
    def remark(self) -> str:
        """What a reader must know before believing the arm's score; mostly nothing."""
        reason = None
        if self.settled and self.chosen is None:
            reason = finding("tuning.all diverged", arm=self.arm, trials=self.trials)
        elif self.chosen is not None and self.chosen.answer.status != "completed":
            reason = finding("tuning.other code", arm=self.arm)
        elif self.settled and self.failed:
            reason = finding("tuning.fewer", arm=self.arm, failed=self.failed, trials=self.trials)
        elif not self.settled and self.ended == self.trials:
            reason = finding("tuning.none completed", arm=self.arm, trials=self.trials)
        return str(reason or "")


def tunings(history: History, rows: Sequence[TrialResult]) -> list[ArmTuning]:
    """Returns the tuning of each arm, in the order of the study; none if arms are not tuned. `rows`: all trials."""
    plan, settled = history.edition.study.plan, history.tuning.chosen
    if not isinstance(plan, Ablation) or plan.tune is None:
        return []
    tuned = []
    for arm in plan.arms:
        tuning = [row for row in rows if row.trial.role == "tuning" and row.trial.tunes and row.trial.tunes[0] == arm]
        tuning.sort(key=lambda row: row.trial.number)
        chosen = next((row for row in tuning if row.trial.number == settled.get(arm)), None)
        tuned.append(ArmTuning(arm, plan.tune.trials, tuple(plan.tune.paths), tuple(tuning), arm in settled, chosen))
    return tuned
