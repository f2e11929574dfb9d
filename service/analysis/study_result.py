"""The results of a study: scores, best trials, differences, verdicts, published numbers. This file writes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Self

from search_spaces.claim import (
    Better,
    Claim,
    ClaimOfMaps,
    ClaimOfProbe,
    KeepsMore,
    ProbeAsAlike,
)
from search_spaces.study import Edition, Published, Trial
from search_spaces.words import plural, quoted
from service.analysis.across_trials import Lengths, lengths
from service.analysis.best import Best, best_rivals, confirmed_points, find_best, one_of
from service.analysis.data_efficiency import Curve, by_size, curves
from service.analysis.evidence import lacking
from service.analysis.format import Lines
from service.analysis.multiple_testing import Adjusted, Difference, Gap, compare_best, staying, subtracted
from service.analysis.probes import alike, images_look, probe_scores
from service.analysis.scores import kept
from service.analysis.statistics import FEWEST, Scores
from service.analysis.trial_result import Training, TrialResult, collect
from service.analysis.verdicts import Agreement, Departure, Verdict, agreements, departure, judge_page
from service.analysis.verdicts import staying as staying_verdicts
from service.planning.stopping import Rung, Saved, judge_rungs, saved_images
from service.storage.editions import stored
from service.storage.history import History
from service.storage.home import Home, without_secrets
from service.storage.outcomes import Outcomes
from trainables.recipe.findings import When
from trainables.spec import LocusError


class StudyResult:
    """A study's trials and what they show. It trains and writes nothing."""

    def __init__(
        self, home: Home, edition: Edition, history: History, outcomes: Outcomes, tracking: str | None = None
    ) -> None:
        self.home, self.edition, self.history = home, edition, history
        self.mlflow_url = without_secrets(tracking) if tracking else None
        self.tracking = tracking
        self._outcomes = outcomes
        self._against: dict[tuple[str, ...], dict[str, Difference]] = {}
        self.rows = collect(history, outcomes, partial(self.find_run_id, home, edition, tracking))
        if edition.study.plan.arms:  # a winner's interval is that of the best of so many arms
            winners, arms = {trial.label for trial in self.ranking.trials}, len(self.of("trial"))
            for number, row in enumerate(self.rows):
                if row.trial.label in winners:
                    sizes = {side: replace(scores, best_of=arms) for side, scores in row.test_sizes.items()}
                    self.rows[number] = replace(row, test=replace(row.test, best_of=arms), test_sizes=sizes)

    @classmethod
    def open(cls, home: Home, id: str, tracking: str | None = None) -> Self:
        """Returns the result of the study with this id in a home, the folder that holds studies.

        Raises: LocusError for an id that this home does not hold.
        """
        edition = stored(home, id)
        return cls(home, edition, History.open(home, edition), Outcomes(home), tracking)

    @cached_property
    def previous(self) -> StudyResult | None:
        """The result as it stood before the present look (a time at which verdicts are computed); None at the first."""
        history = self.history.at_earlier_look(self.home)
        return None if history is None else StudyResult(self.home, self.edition, history, self._outcomes)

    @staticmethod
    def find_run_id(home: Home, edition: Edition, tracking: str | None, training: Training) -> str:
        """Returns the id of the MLflow run that shows a training; here it is empty, but `Result` asks MLflow."""
        return ""

    def of(self, role: str) -> list[TrialResult]:
        """Returns the trials of a role: trial, confirmation, rival, rival_confirmation, tuning, parent."""
        return [row for row in self.rows if row.trial.role == role]

    @cached_property
    def confirmed(self) -> list[TrialResult]:
        """A search's trials on fresh seeds, the best first."""
        return self._rows_of(confirmed_points(self.history))

    @cached_property
    def random(self) -> TrialResult | None:
        """The best of a search's random rivals, on fresh seeds; None before their confirmation has ended."""
        return next(iter(self._rows_of(best_rivals(self.history))), None)

    @property
    def tested(self) -> list[TrialResult]:
        """The trials whose test scores count: the arms, or a search's confirmed points and its best random point."""
        return self.compared + ([self.random] if self.random else [])

    @property
    def compared(self) -> list[TrialResult]:
        """The trials that are compared and probed: the arms, or a search's confirmed points."""
        return self.of("trial") if self.edition.study.plan.arms else self.confirmed

    @cached_property
    def ranking(self) -> Best:
        """The best trials by `find_best`, with what explains why there may be none."""
        return find_best(self.history)

    @cached_property
    def winners(self) -> list[TrialResult]:
        """The best trials: one, several that tie, or none."""
        return self._rows_of(self.ranking.trials)

    def _rows_of(self, trials: Iterable[Trial]) -> list[TrialResult]:
        """Returns the results of some trials, in their order."""
        rows = {row.trial.label: row for row in self.rows}
        return [rows[trial.label] for trial in trials if trial.label in rows]

    @property
    def best(self) -> TrialResult | None:
        """The best trial; None if `winners` is empty.

        Of several that tie, it is the one with the highest test mean; of points that are not confirmed, the first.
        """
        untested = Scores({}, 0)
        return one_of(self.winners, lambda row: row.test if row in self.tested else untested)

    def trial(self, name: str | None = None) -> TrialResult:
        """Returns the trial with this name: an arm's, `best`, `first` or `random` of a search, or the label of its row.

        It returns the best trial if no name is given.
        Raises: LocusError if no trial is best, and for an unknown name.
        """
        if name is None:
            if self.best is None:
                why = "none is above chance over all its seeds"
                if unfinished := sum(self.history.answer(row.trial).status == "open" for row in self.rows):
                    why = f"{plural(unfinished, 'trial')} not finished"
                elif ended := self.ranking.ended:
                    why = f"the race has ended {quoted(ended.name)}, which is ahead"
                raise LocusError(f"{self.edition.id} has no best trial: {why}; name one with --arm (arm= in Python)")
            return self.best
        rows = {row.trial.label: row for row in self.rows} | self.named
        if name not in rows:
            names = f"one of {', '.join(self.named)}, or " if self.named else ""
            raise LocusError(f"the arm must be {names}the row of a trial of {self.edition.id}, got {name!r}")
        return rows[name]

    @cached_property
    def named(self) -> dict[str, TrialResult]:
        """The trials that claims and published numbers name: the arms, or the confirmed `best`, `first` and `random`.

        Here `best` is the highest confirmed trial even if it is no better than chance, so that claims are judged.
        """
        if self.edition.study.plan.arms:
            return {row.name: row for row in self.of("trial")}
        by_number = {row.trial.number: row for row in self.confirmed}
        best = by_number.get(self.ranking.highest[0].number) if self.ranking.confirmed else None
        first = by_number.get(0) if self.edition.study.plan.first else None
        rows = {"best": best, "first": first, "random": self.random}
        return {name: row for name, row in rows.items() if row is not None}

    @property
    def scores(self) -> dict[str, Scores]:
        """The test scores of the `named` trials."""
        return {name: row.test for name, row in self.named.items()}

    def scores_at(self, image_size: int | None) -> dict[str, Scores]:
        """Returns `scores` on test images of another size (their side in pixels); None means the size in training."""
        if image_size is None:
            return self.scores
        return {name: row.test_sizes[image_size] for name, row in self.named.items() if image_size in row.test_sizes}

    @property
    def looked_at(self) -> list[tuple[TrialResult, str]]:
        """The trials whose kept models are measured so that intervals hold for other images, with their `images_look`.

        The list is empty if no intervals are shown.
        """
        study = self.edition.study
        if "weights" not in study.keep or study.seeds < FEWEST:
            return []
        return [(row, look) for row in self.tested if (look := images_look(row.recipe.data))]

    def probe_scores(self, probe: str, value: str, when: When = "after") -> dict[str, Scores]:
        """Returns a number that a probe found in each named trial, by seed, without the seeds for which it is not kept.

        Raises: LocusError for an unknown probe.
        """
        return {
            name: probe_scores(row.probes, row.answer.asked, probe, value, when) for name, row in self.named.items()
        }

    def scores_of(self, claim: Claim) -> Mapping[str, Scores]:
        """Returns the scores that a claim is judged on, by the name of the trial; empty if there is none yet.

        If a claim is about how alike the maps of two trials are, both trials have the same scores; for `ProbeAsAlike`,
        `than` has how alike the maps of its own seeds are.
        """
        match claim:
            case ClaimOfMaps():
                rows = [self.named[name] for name in claim.names if name in self.named]
                if len(rows) < 2:
                    return {}
                row, other = rows
                seeds = max(row.answer.asked for row in rows)
                between = alike(row.probes, other.probes, claim, seeds)
                within = alike(other.probes, other.probes, claim, seeds) if isinstance(claim, ProbeAsAlike) else between
                return {claim.who: between, claim.than: within}
            case ClaimOfProbe():
                return self.probe_scores(claim.probe, claim.value, claim.when)
            case KeepsMore():
                after = self.scores_at(claim.image_size)
                return {name: kept(after[name], before) for name, before in self.scores.items() if name in after}
        return self.scores_at(claim.image_size)

    @cached_property
    def paths(self) -> list[str]:
        """The paths of the fields in which the trials differ."""
        return self.edition.study.paths()

    @cached_property
    def departure(self) -> Departure | None:
        """The reason why claims and published numbers do not apply to this edition; None if they do."""
        return departure(self.edition)

    @cached_property
    def claims(self) -> Lines[Verdict]:
        """The verdicts on the study's claims; a verdict that an earlier look found on the same trials stays."""
        before, (verdicts, _) = self.previous, self._page
        if before is not None:
            labels, earlier = ({name: row.trial.label for name, row in side.named.items()} for side in (self, before))
            rows = zip(verdicts, staying_verdicts(verdicts, before.claims), strict=True)
            verdicts = [
                stays if all(labels.get(name) == earlier.get(name) for name in now.claim.names) else now
                for now, stays in rows
            ]
        return Lines(verdicts, none=f"{self.edition.study.name} claims nothing")

    @cached_property
    def _page(self) -> tuple[list[Verdict], dict[str, Adjusted]]:
        """The verdicts of the present look, and, by arm, the tests of the differences that no claim asks about."""
        return self.judge_page(self.departure)

    def judge_page(self, departure: Departure | None) -> tuple[list[Verdict], dict[str, Adjusted]]:
        """Returns the value of `_page` for a reason why claims do not apply; None means that they apply."""
        claimed, partners = {frozenset(claim.names) for claim in self._asking}, self._partners
        free = {name: gap.p() for name, (*_, gap) in self._gaps.items() if {name, partners[name]} not in claimed}
        ps = {name: p if self._ended(name) else 1.0 for name, p in free.items() if p is not None}
        return judge_page(self.edition.study.claims, self.scores_of, ps, departure, look=self.history.looks)

    @property
    def _asking(self) -> list[Better]:
        """The judged claims that ask which of two trials is better, over all seeds."""
        return [
            claim
            for claim in self.edition.study.claims
            if isinstance(claim, Better) and claim.of == "all seeds" and not (claim.margin or claim.image_size)
            and self.departure is None and lacking(claim, self.scores) is None
        ]  # fmt: skip

    @cached_property
    def _claimed(self) -> dict[frozenset[str], Adjusted]:
        """The tests of the claims in `_asking`, by the names of the two trials; of several, that of the smallest p."""
        tests = [
            (frozenset(verdict.claim.names), Adjusted(verdict.p, verdict.level))
            for verdict in self._page[0]
            if verdict.claim in self._asking and verdict.p is not None and verdict.level is not None
        ]
        return dict(sorted(tests, key=lambda test: -test[1].p))

    @cached_property
    def _gaps(self) -> dict[str, Gap]:
        """The difference of each arm to its partner, by the arm's name; empty for a search."""
        scores = self.scores
        return subtracted({name: (scores[name], scores[other]) for name, other in self._partners.items()})

    @property
    def _partners(self) -> dict[str, str]:
        """The arm that each arm is compared with: the baseline, or, in a study with axes, the arm with its value.

        With axes, the two arms differ only on the baseline's axis.
        """
        return self.edition.study.plan.partners(self.scores)

    @cached_property
    def differences(self) -> dict[str, Difference]:
        """The difference of test scores of each arm and its partner, by the arm's name, paired by seed.

        A difference that an earlier look found stays. A pair that a claim asks about has the claim's test. All others
        are adjusted together with the claims, and none is tested before both arms have ended.
        """
        _, tests = self._page
        gaps = {}
        for name, gap in self._gaps.items():
            claimed = self._claimed.get(frozenset((name, self._partners[name])))
            test = claimed or (tests.get(name) if self._ended(name) else None)
            gaps[name] = Difference(*gap, test, claimed is not None)
        return staying(gaps, self.previous.differences) if self.previous else gaps

    def _ended(self, name: str) -> bool:
        """Returns whether an arm and its partner have all their seeds, or were ended by the race."""
        rows = [self.named[name], self.named[self._partners[name]]]
        return all(row.test.complete or row.answer.raced for row in rows)

    @property
    def adjusted_over(self) -> int:
        """How many tests are adjusted together: those of claims, and of differences that no claim asks about."""
        judged = 0 if self.departure and not self.departure.told else len(self.edition.study.claims)
        return judged + len(self._page[1])

    def against_best(self, best: TrialResult, others: Sequence[TrialResult]) -> dict[str, Difference]:
        """Compares the best trial with each other one on the test set, best minus other, by the other's label.

        If a claim asks which trial of a pair is better, the pair has the claim's test; a pair with the baseline has the
        test of `differences`: no pair is tested twice. The other pairs are adjusted for all pairs together.
        Cost: 0.3 ms a pair, once: 1.5 s for 100 arms.
        """
        labels = tuple(row.trial.label for row in [best, *others])
        if labels in self._against:
            return self._against[labels]
        tests = {row.trial.label: row.test for row in [best, *others]}
        gaps = compare_best(best.trial.label, tests, self.history.looks)

        partners = self._partners
        of_arms = {frozenset((name, partners[name])): gap for name, gap in self.differences.items()}
        adjusted = {pair: (gap.adjusted, gap.claimed) for pair, gap in of_arms.items() if not gap.later}
        adjusted |= {pair: (test, True) for pair, test in self._claimed.items()}
        names = {id(row): name for name, row in self.named.items()}
        for row in others:
            pair = frozenset({names.get(id(best), ""), names.get(id(row), "")})
            if pair in adjusted and row.trial.label in gaps:
                test, claimed = adjusted[pair]
                gaps[row.trial.label] = replace(gaps[row.trial.label], adjusted=test, claimed=claimed)

        earlier = self.previous
        if earlier is not None:  # what the same trials showed at the look before this one stays
            rows = earlier.compared
            first = next((row for row in rows if row.trial.label == best.trial.label), None)
            before = earlier.against_best(first, earlier.rivals(first, rows)) if first else {}
            gaps = staying(gaps, {label: gap for label, gap in before.items() if label in labels[1:]})
        self._against[labels] = gaps
        return gaps

    def rivals(self, best: TrialResult, rows: Sequence[TrialResult]) -> list[TrialResult]:
        """Returns the trials to compare with the best one: those that have all their seeds, or that the race ended."""
        return [row for row in rows if row is not best and (row.test.complete or row.answer.raced)]

    def level_with(self, best: TrialResult, rows: Sequence[TrialResult]) -> dict[str, Difference]:
        """Returns, by label, the differences of the best trial to the rivals from which tests cannot tell it apart."""
        gaps = self.against_best(best, self.rivals(best, rows))
        return {label: gap for label, gap in gaps.items() if not gap.significant}

    def above(self, best: TrialResult, rows: Sequence[TrialResult]) -> dict[str, Difference]:
        """Returns, by label, the differences to the rivals whose test scores are significantly above the best trial's.

        Validation images choose the best trial, so test images may speak for another one.
        """
        gaps = self.against_best(best, self.rivals(best, rows))
        return {label: gap for label, gap in gaps.items() if gap.significant and gap.mean < 0}

    @cached_property
    def agreements(self) -> dict[int, Agreement]:
        """Whether scores equal published numbers that state a margin, by the index of these numbers in the study.

        A result that an earlier look found for an arm stays.
        """
        now = agreements(self.edition.study.published, self.scores, self.comparable, self.history.looks)
        if self.previous is None or not self.edition.study.plan.arms:
            return now
        before = self.previous.agreements
        return {index: before[index] if index in before and before[index].found else now[index] for index in now}

    @cached_property
    def importances(self) -> dict[str, float]:
        """How much each coordinate of a search matters for the score; empty if too few trials are known."""
        from service.planning.sampling import importances  # here, for Optuna takes a while to import

        return importances(self.history)

    @cached_property
    def rungs(self) -> list[Rung]:
        """How well early stopping worked at each rung of a search, one of the epochs at which it may stop a trial."""
        return judge_rungs(self.history)

    @cached_property
    def saved(self) -> Saved:
        """How many training images early stopping saved, at rungs and by the race."""
        return saved_images(self.history)

    @cached_property
    def lengths(self) -> Lengths | None:
        """What a longer training changes; None if trials are measured at one length."""
        return lengths(self.of("trial"))

    @cached_property
    def efficiency(self) -> list[Curve]:
        """The curves of the scores over the number of training images; empty if trials do not differ in it."""
        return curves(self.by_size)

    @cached_property
    def by_size(self) -> list[list[TrialResult]]:
        """The trials that differ in the number of training images alone, as a list for each curve."""
        return by_size(self.of("trial"))

    def published(self, row: TrialResult) -> list[Published]:
        """Returns the published numbers of a trial."""
        return [figure for figure in self.edition.study.published if self.named.get(figure.who) is row]

    def comparable(self, figure: Published) -> bool:
        """Returns whether scores here compare with a published number: same data, and the study's own question."""
        return figure.same_data and self.departure is None

    @property
    def stale(self) -> int:
        """How many of the study's answers (stored outcomes of runs) do not count, because other code trained them."""
        return self.history.stale
