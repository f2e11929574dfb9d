"""What a study's trials add up to: their scores, the best, differences, verdicts. Reads files, and writes none."""

from __future__ import annotations

from functools import cached_property
from typing import Self

from search_spaces.study import Ablation, Edition, Published, Search
from service.analysis.best import Best, find_best
from service.analysis.claims.question import Departure, departure
from service.analysis.claims.verdicts import Verdict, judge
from service.analysis.differences import Difference, compare
from service.analysis.format import Lines
from service.analysis.statistics import Scores
from service.analysis.trial_result import TrialResult, collect
from service.storage.editions import stored
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes


class StudyResult:
    """A study's trials and what they show. Nothing is trained or written."""

    def __init__(
        self, home: Home, edition: Edition, history: History, outcomes: Outcomes, tracking: str | None = None
    ) -> None:
        self.home, self.edition, self.history = home, edition, history
        self.mlflow_url = tracking
        self.rows = collect(history, outcomes)

    @classmethod
    def open(cls, home: Home, id: str, tracking: str | None = None, *, adopt: bool = False) -> Self:
        """The result of a study of a home, by its id. `adopt`: answers of older code count.

        Raises: LocusError for an id that this home does not hold.
        """
        edition = stored(home, id)
        return cls(home, edition, History.open(home, edition, adopt=adopt), Outcomes(home), tracking)

    def of(self, role: str) -> list[TrialResult]:
        """The trials of a role: trial, confirmation, parent."""
        return [row for row in self.rows if row.trial.role == role]

    @cached_property
    def confirmed(self) -> list[TrialResult]:
        """A search's trials on fresh seeds, the highest validation mean first."""
        rows = [row for row in self.of("confirmation") if row.trial.number in self.history.confirms]
        return sorted(rows, key=lambda row: (-(row.validation.mean or 0.0), row.trial.number))

    @cached_property
    def ranking(self) -> Best:
        """Which trials are best, and why there may be none."""
        return find_best(self.history)

    @property
    def winners(self) -> list[TrialResult]:
        """The best trials: one, several that tie, or none."""
        labels = [trial.label for trial in self.ranking.trials]
        return [row for label in labels for row in self.rows if row.trial.label == label]

    @property
    def best(self) -> TrialResult | None:
        """The best trial, the first listed of several that tie; None where nothing ended or no trial beats chance."""
        return next(iter(self.winners), None)

    @cached_property
    def named(self) -> dict[str, TrialResult]:
        """The trials that claims and published numbers speak of: the arms, or `best` and `first` once confirmed.

        `best` is here the highest confirmed trial also where it is no better than chance, so that claims are judged.
        """
        if isinstance(self.edition.study.plan, Ablation):
            return {row.name: row for row in self.of("trial")}
        by_number = {row.trial.number: row for row in self.confirmed}
        best = by_number.get(self.ranking.highest[0].number) if self.ranking.confirmed else None
        first = by_number.get(0) if self.edition.study.plan.first else None
        return {name: row for name, row in (("best", best), ("first", first)) if row is not None}

    @property
    def scores(self) -> dict[str, Scores]:
        """The test scores of the named trials."""
        return {name: row.test for name, row in self.named.items()}

    def scores_at(self, image_size: int | None) -> dict[str, Scores]:
        """The same with test images of another side; None: of the training's own."""
        if image_size is None:
            return self.scores
        return {name: row.test_sizes[image_size] for name, row in self.named.items() if image_size in row.test_sizes}

    @cached_property
    def departure(self) -> Departure | None:
        """Why claims and published numbers do not apply to this edition; None where they do."""
        return departure(self.edition)

    @cached_property
    def claims(self) -> Lines[Verdict]:
        """The verdicts on the study's claims."""
        return Lines(judge(self.edition.study.claims, self.scores_at, self.departure))

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """Each arm's paired test difference to the baseline, adjusted over all arms."""
        plan = self.edition.study.plan
        if isinstance(plan, Search) or plan.baseline not in self.scores:
            return {}
        others = {name: scores for name, scores in self.scores.items() if name != plan.baseline}
        return compare(self.scores[plan.baseline], others, to=False)

    def published(self, row: TrialResult) -> list[Published]:
        """The published numbers of a trial."""
        return [known for known in self.edition.study.published if self.named.get(known.who) is row]

    def comparable(self, known: Published) -> bool:
        """Whether a published number shares the scale of ours: the paper's data, and the study's own question."""
        return known.same_data and self.departure is None

    @property
    def stale(self) -> int:
        """How many of the study's answers do not count, because another code trained them."""
        return self.history.stale
