"""How the arms of an ablation were tuned before they were compared."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import plural, quoted, setting_words
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
        if self.settled and self.chosen is None:
            return (
                f"{quoted(self.arm)} is not tuned: each of its {plural(self.asked, 'trial')} diverged, so it has the "
                "values that the study gives it."
            )
        if self.chosen is not None and self.chosen.answer.status != "completed":
            return (
                f"The values of {quoted(self.arm)} stay as they were chosen, by runs of other code that do not count "
                "any more; the study under another name (--as WORD) tunes again."
            )
        if self.settled and self.failed:
            return f"{quoted(self.arm)} was tuned over fewer trials: {self.failed} of its {self.asked} failed."
        if not self.settled and self.ended == self.asked:
            return f"{quoted(self.arm)} is left out: none of its {plural(self.asked, 'tuning trial')} completed."
        return ""


def tunings(result: StudyResult) -> list[ArmTuning]:
    """Returns the tuning of each arm, in the order of the study; none if arms are not tuned."""
    plan, settled = result.edition.study.plan, result.history.tuning.chosen
    if not isinstance(plan, Ablation) or plan.tune is None:
        return []
    tuned = []
    for arm in plan.arms:
        rows = sorted((row for row in result.of("tuning") if _arm(row) == arm), key=lambda row: row.trial.number)
        chosen = next((row for row in rows if arm in settled and row.trial.number == settled[arm]), None)
        tuned.append(ArmTuning(arm, plan.tune.trials, tuple(plan.tune.paths), tuple(rows), arm in settled, chosen))
    return tuned


def _arm(row: TrialResult) -> str:
    return row.trial.tunes[0] if row.trial.tunes else ""
