"""How the arms of an ablation were tuned before they were compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import setting_words
from service.analysis.findings import finding
from service.analysis.trial_result import TrialResult

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


@dataclass(frozen=True)
class ArmTuning:
    """The tuning of one arm. `rows`: its trials so far, of `asked`; `settled`: whether the arm's values are fixed.

    `chosen`: the trial that gave the arm its values; None before the choice, and where every trial diverged.
    """

    arm: str
    asked: int
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
        if chosen is None:
            return ""
        return ", ".join(
            setting_words({path: chosen.value(path) for path in self.paths if path in chosen.trial.values})
        )

    @property
    def trials_words(self) -> str:
        """`4`, `2 of 4`, `4, 1 diverged, 1 failed`."""
        lost = {"diverged": sum(row.answer.status == "diverged" for row in self.rows), "failed": self.failed}
        count = f"{self.ended}" if self.ended == self.asked else f"{self.ended} of {self.asked}"
        return ", ".join([count, *(f"{number} {word}" for word, number in lost.items() if number)])

    @property
    def remark(self) -> str:
        """What a reader must know before believing the arm's score; mostly nothing."""
        reason = None
        if self.settled and self.chosen is None:
            reason = finding("tuning.all diverged", arm=self.arm, trials=self.asked)
        elif self.chosen is not None and self.chosen.answer.status != "completed":
            reason = finding("tuning.other code", arm=self.arm)
        elif self.settled and self.failed:
            reason = finding("tuning.fewer", arm=self.arm, failed=self.failed, trials=self.asked)
        elif not self.settled and self.ended == self.asked:
            reason = finding("tuning.none completed", arm=self.arm, trials=self.asked)
        return str(reason or "")


def tunings(result: StudyResult) -> list[ArmTuning]:
    """Returns the tuning of each arm, in the order of the study; none if arms are not tuned."""
    plan, settled = result.edition.study.plan, result.history.tuning.chosen
    if not isinstance(plan, Ablation) or plan.tune is None:
        return []
    tuned = []
    for arm in plan.arms:
        rows = [row for row in result.of("tuning") if row.trial.tunes and row.trial.tunes[0] == arm]
        rows.sort(key=lambda row: row.trial.number)
        chosen = next((row for row in rows if row.trial.number == settled.get(arm)), None)
        tuned.append(ArmTuning(arm, plan.tune.trials, tuple(plan.tune.paths), tuple(rows), arm in settled, chosen))
    return tuned
