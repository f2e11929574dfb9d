"""What a study's trials add up to: rows with their scores, the best, differences, verdicts. No tables, no pages."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from search_spaces.study import Ablation, Edition, Search
from service.analysis.statistics import Estimate, Scores, difference, holm
from service.analysis.trial_result import TrialResult, collect
from service.analysis.verdicts import Verdict, judge
from service.storage.editions import stored
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes


class Findings:
    """A study's trials and what they say. Reads files only; nothing is trained or written."""

    def __init__(
        self, home: Home, edition: Edition, history: History, outcomes: Outcomes, tracking: str | None = None
    ) -> None:
        self.home, self.edition, self.history = home, edition, history
        self.mlflow_url = tracking
        self.rows = collect(history, outcomes)

    @classmethod
    def open(cls, home: Home, id: str, tracking: str | None = None) -> Self:
        """The findings of a study of a home, by its id.

        Raises: LocusError for an id that this home does not hold.
        """
        edition = stored(home, id)
        return cls(home, edition, History.open(home, edition), Outcomes(home), tracking)

    def of(self, role: str) -> list[TrialResult]:
        """The trials of a role: trial, confirmation, parent."""
        return [row for row in self.rows if row.trial.role == role]

    @cached_property
    def confirmed(self) -> list[TrialResult]:
        """A search's trials on fresh seeds, the highest validation mean first."""
        rows = [row for row in self.of("confirmation") if row.trial.number in self.history.confirms]
        return sorted(rows, key=lambda row: (-(row.validation.mean or 0.0), row.trial.number))

    @cached_property
    def best(self) -> TrialResult | None:
        """What validation puts first: of the trials confirmed on fresh seeds, else of all. None before one ends."""
        for rows in (self.confirmed, self.of("trial")):
            complete = [row for row in rows if row.answer.status == "completed" and row.validation.mean is not None]
            if complete:
                return max(complete, key=lambda row: (row.validation.mean or 0.0, -row.trial.number))
        return None

    @cached_property
    def named(self) -> dict[str, TrialResult]:
        """The trials that claims and published numbers speak of: the arms, or `best` and `first` once confirmed."""
        if isinstance(self.edition.study.plan, Ablation):
            return {row.name: row for row in self.of("trial")}
        by_number = {row.trial.number: row for row in self.confirmed}
        ended = all(row.answer.status != "open" for row in self.confirmed)
        best = self.best if ended and self.best in self.confirmed else None
        first = by_number.get(0) if self.edition.study.plan.first else None
        return {name: row for name, row in (("best", best), ("first", first)) if row is not None}

    @property
    def scores(self) -> dict[str, Scores]:
        """The test scores of the named trials."""
        return {name: row.test for name, row in self.named.items()}

    def scores_at(self, image_size: int | None) -> dict[str, Scores]:
        """The same at another side of images; None: at the training's own."""
        if image_size is None:
            return self.scores
        return {name: row.test_sizes[image_size] for name, row in self.named.items() if image_size in row.test_sizes}

    @cached_property
    def claims(self) -> list[Verdict]:
        """The verdicts on the study's claims."""
        return [judge(claim, self.scores_at(claim.image_size)) for claim in self.edition.study.claims]

    @cached_property
    def differences(self) -> dict[str, tuple[Estimate, float | None]]:
        """Each arm's paired test difference to the baseline, with its p adjusted over all arms (Holm)."""
        plan = self.edition.study.plan
        if isinstance(plan, Search) or plan.baseline not in self.scores:
            return {}
        others = {name: scores for name, scores in self.scores.items() if name != plan.baseline}
        pairs = {name: difference(scores, self.scores[plan.baseline]) for name, scores in others.items()}
        gaps = {name: gap for name, gap in pairs.items() if gap is not None}
        adjusted = holm({name: p for name, gap in gaps.items() if (p := gap.p()) is not None})
        return {name: (gap, adjusted.get(name)) for name, gap in gaps.items()}
