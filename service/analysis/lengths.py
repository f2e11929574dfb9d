"""Scores over the length of training: which trial is ahead at each length, and whether scores still rise."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import fmean
from typing import TYPE_CHECKING

from service.analysis.findings import Finding, finding
from service.analysis.statistics import Estimate, estimate

if TYPE_CHECKING:
    from service.analysis.trial_result import TrialResult


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
