"""What several trials show together: scores over the length of training, the tuning of each arm."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING

from search_spaces.words import setting_words
from service.analysis.findings import Finding, finding
from service.analysis.statistics import Estimate, estimate

if TYPE_CHECKING:
    from service.analysis.trial_result import TrialResult
    from service.storage.history import History


def length_scores(row: TrialResult) -> dict[int, dict[int, float]]:
    """Returns the validation scores as `scores[length][seed]`, for the lengths of training reached. Units: epochs.

    A diverged seed is at chance from the epoch at which it diverged; a failed seed is left out.
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
    """What a longer training changes, over the seeds that reached every length in each trial that reached the last.

    `ahead` has the name of the trial with the highest mean, by length. `gain` estimates over seeds what a training
    twice as long adds to the score between the last two lengths; each seed has its mean over trials. Units: epochs.
    """

    ahead: dict[int, str]
    gain: Estimate

    @property
    def rising(self) -> bool:
        """Whether scores surely still rise at the end: the 95 % interval of the gain lies above 0."""
        interval = self.gain.interval()
        return interval is not None and interval[0] > 0

    def findings(self) -> Iterator[Finding]:
        """Yields which trial is ahead at which lengths, if that changes, and what a training twice as long adds."""
        leaders = [
            finding("part.leader", name=name, lengths=[*lengths])
            for name, lengths in groupby(self.ahead, self.ahead.__getitem__)
        ]
        if len(leaders) > 1:
            yield finding("detail.leaders", leaders=leaders)
        yield finding("detail.doubling", gain=self.gain.mean, interval=self.gain.interval())


def lengths(rows: Sequence[TrialResult]) -> Lengths | None:
    """Returns what a longer training changes in the trials that are compared.

    It returns None if each trial has one length, if the trials have unlike lengths, or if they share no seed.
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
    """The tuning of one arm, one of the settings that a study compares.

    `trials` is how many trials the tuning will have, `rows` are its trials so far, and `paths` are the tuned fields.
    `settled` says whether the arm's values are fixed. `chosen` is the trial that gave the arm its values; it is None
    before the choice, and if every trial diverged.
    """

    arm: str
    trials: int
    paths: tuple[str, ...]
    rows: tuple[TrialResult, ...]
    settled: bool
    chosen: TrialResult | None

    @property
    def failed(self) -> int:
        """How many trials of the tuning failed, for a reason that does not come from their recipe."""
        return sum(row.answer.status == "incomplete" and bool(row.answer.reason) for row in self.rows)

    @property
    def ended(self) -> int:
        """How many trials of the tuning have ended, with whatever result."""
        return sum(row.answer.status != "open" for row in self.rows)

    @property
    def seconds(self) -> float:
        """The time that all runs of the tuning took, in seconds."""
        return sum(row.seconds for row in self.rows)

    @property
    def values(self) -> str:
        """The chosen values of the tuned fields, in words; empty if no trial was chosen."""
        chosen = self.chosen
        values = {path: chosen.value(path) for path in self.paths if path in chosen.trial.values} if chosen else {}
        return ", ".join(setting_words(values))

    @property
    def trial_counts(self) -> str:
        """How many trials have ended, in words: `4`, `2 of 4`, or `4, 1 diverged, 1 failed`."""
        lost = {"diverged": sum(row.answer.status == "diverged" for row in self.rows), "failed": self.failed}
        count = f"{self.ended}" if self.ended == self.trials else f"{self.ended} of {self.trials}"
        return ", ".join([count, *(f"{number} {word}" for word, number in lost.items() if number)])

    @property
    def remark(self) -> str:
        """A sentence that a reader must know before believing the arm's score; mostly empty."""
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
    """Returns the tuning of each arm, in the order of the study; an empty list if arms are not tuned.

    `rows` are all trials of the study.
    """
    plan, settled = history.edition.study.plan, history.tuning.chosen
    if plan.tune is None:
        return []
    tuned = []
    for arm in plan.arms:
        tuning = [row for row in rows if row.trial.role == "tuning" and row.trial.tunes and row.trial.tunes[0] == arm]
        tuning.sort(key=lambda row: row.trial.number)
        chosen = next((row for row in tuning if row.trial.number == settled.get(arm)), None)
        tuned.append(ArmTuning(arm, plan.tune.trials, tuple(plan.tune.paths), tuple(tuning), arm in settled, chosen))
    return tuned
