"""The table of effect sizes, bootstrap intervals, and how many seeds would be needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from service.analysis.estimates.bootstrap import FEWEST_BOOTSTRAP, bootstrap_interval
from service.analysis.estimates.effect import effect_size
from service.analysis.estimates.power import MANY, POWER, seeds_needed
from service.analysis.format import between, fixed, metric_words, signed, two
from service.analysis.statistics import ALPHA, Estimate, Scores
from service.reporting.results_table import row_name
from service.reporting.table import Column, Table

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


STUDENT, BOOTSTRAP = "95 % interval (Student)", "95 % interval (bootstrap)"
EFFECT = "effect size d"
OF_EFFECTS = (
    "Effect size: the mean difference divided by the standard deviation of the differences over seeds, corrected for "
    "few seeds (Hedges), with its own 95 % interval. Seeds needed: so many would find a true difference of the size "
    f"observed with a power of {POWER:.0%} at the level {ALPHA:g}, in a test on its own; the observed size is itself "
    "uncertain."
)
OF_INTERVALS = (
    "The intervals of means and differences are at 95 % each on its own, without Holm's correction. Bootstrap: BCa "
    f"over seeds, left out for fewer than {FEWEST_BOOTSTRAP} seeds. It is too narrow with few seeds: of 6 normal "
    "scores it holds the mean 85 % of the time, of 20 scores 93 %."
)


def effects(result: StudyResult) -> Table | None:
    """Effect sizes and seeds needed of an ablation's differences; bootstrap intervals where there are enough seeds."""
    plan = result.edition.study.plan
    rows = result.of("trial") if isinstance(plan, Ablation) else result.confirmed
    gaps = [gap.estimate if (gap := result.differences.get(row.name)) else None for row in rows]
    noun = "arm" if isinstance(plan, Ablation) else "point"
    columns = [Column(noun, [row_name(result, row) for row in rows], words=True)]
    columns += _means(metric_words(result.edition.study.score.test), [row.test for row in rows])
    if isinstance(plan, Ablation) and any(gap is not None and gap.testable for gap in gaps):
        columns += _gaps(f"minus {plan.baseline_words}, paired", gaps, [_pairs(result, plan, row) for row in rows])
    if len(columns) == 1:
        return None
    said = {"Effect sizes": EFFECT, "bootstrap intervals": BOOTSTRAP}
    notes = {EFFECT: OF_EFFECTS, BOOTSTRAP: OF_INTERVALS}
    heads = {column.head for column in columns}
    title = " and ".join(words for words, head in said.items() if head in heads)
    note = " ".join(words for head, words in notes.items() if head in heads)
    return Table("effects", title[0].upper() + title[1:], columns, note=note, folded=True)


def _means(group: str, scores: list[Scores]) -> list[Column]:
    """Each mean with both intervals, where a bootstrap interval of any is known."""
    booted = [None if one.scale.overlap else bootstrap_interval(list(one.values.values())) for one in scores]
    if not any(booted):
        return []
    return [
        Column("mean", [fixed(one.mean) for one in scores], group),
        Column(STUDENT, [between(one.interval) for one in scores], group, under=True),
        Column(BOOTSTRAP, [between(interval) for interval in booted], group, under=True),
    ]


def _gaps(group: str, gaps: list[Estimate | None], pairs: list[list[float]]) -> list[Column]:
    folds = any(gap.overlap for gap in gaps if gap)  # no independent draws, as a bootstrap takes them to be
    booted = [None if folds else bootstrap_interval(values) for values in pairs]
    columns = [Column("mean", [signed(gap.mean) if gap else "" for gap in gaps], group)]
    if any(booted):
        columns += [
            Column(STUDENT, [between(gap.interval()) if gap else "" for gap in gaps], group, under=True),
            Column(BOOTSTRAP, [between(interval) for interval in booted], group, under=True),
        ]
    found = [effect_size(gap) if gap else None for gap in gaps]
    intervals = [f"{two(one.interval[0])} to {two(one.interval[1])}" if one else "" for one in found]
    return [
        *columns,
        Column(EFFECT, [two(effect.value) if effect else "" for effect in found], group),
        Column("95 % interval of d", intervals, group, under=True),
        Column("seeds needed", [_needed_seeds(gap) for gap in gaps], group),
    ]


def _pairs(result: StudyResult, plan: Ablation, row: TrialResult) -> list[float]:
    """The difference of each seed to the arm that an arm is compared with; empty for a baseline."""
    other = result.scores.get(plan.compared_with(row.name) or "")
    known = other.values if other else {}
    return [value - known[seed] for seed, value in row.test.values.items() if seed in known]


def _needed_seeds(gap: Estimate | None) -> str:
    """How many seeds would detect the difference that was observed."""
    if gap is None or not gap.testable or gap.spread is None:
        return ""
    found = seeds_needed(gap.mean, std=gap.spread, overlap=gap.overlap) if gap.mean else None
    return f"over {MANY:,}" if found is None else f"{found}"
