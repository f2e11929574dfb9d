"""Paired differences: each arm minus the baseline, and the pairs that claims compare, with every seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from search_spaces.claim import Better, Equivalent, NoWorse
from search_spaces.study import Ablation
from search_spaces.words import plural, quoted
from service.analysis.claims.verdicts import Verdict
from service.analysis.format import metric_words, signed
from service.analysis.statistics import FEWEST, Interval, Scores
from service.reporting.figures.palette import Look, Palette
from service.reporting.figures.plot import Plot, sentences
from service.reporting.figures.rows import Row, draw_rows, draw_seeds, row_place
from service.reporting.figures.style import FAINT, INK, MUTED

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


@dataclass(frozen=True)
class Pair:
    """One row. `margin`: how large a difference a claim asks for; `both`: whether it counts on both sides of 0."""

    name: str
    mean: float
    interval: Interval | None
    seeds: Mapping[int, float]
    diverged: frozenset[int]
    look: Look
    margin: float = 0.0
    both: bool = False


def forest(result: StudyResult) -> Plot | None:
    """The figure; None where nothing is compared."""
    arms, claims = to_baseline(result), claimed(result)
    if not arms and not claims:
        return None
    return Plot("differences", _caption(result, arms, claims), lambda: _draw(result, [*arms, *claims]))


def to_baseline(result: StudyResult) -> list[Pair]:
    """Each arm minus the baseline, the largest difference first, with the interval of Holm's test."""
    plan = result.edition.study.plan
    if not isinstance(plan, Ablation) or not result.differences:
        return []
    palette, scores, pairs = Palette.of(result), result.scores, []
    for name, gap in result.differences.items():
        seeds, fallen = _seeds(scores[name], scores[plan.compared_with(name) or plan.baseline])
        pairs.append(Pair(name, gap.mean, gap.interval, seeds, fallen, palette[result.named[name]]))
    return sorted(pairs, key=lambda pair: -pair.mean)


def claimed(result: StudyResult) -> list[Pair]:
    """The pairs that judged claims compare, each with the interval of its verdict."""
    return [_claimed(result, verdict) for verdict in result.claims if _compares(verdict)]


def _compares(verdict: Verdict) -> bool:
    return isinstance(verdict.claim, Better | Equivalent | NoWorse) and verdict.measured is not None


def _claimed(result: StudyResult, verdict: Verdict) -> Pair:
    claim = verdict.claim
    assert isinstance(claim, Better | Equivalent | NoWorse)
    assert verdict.measured is not None
    scores = result.scores_at(claim.image_size)
    seeds, fallen = _seeds(scores[claim.who], scores[claim.than])
    look = Palette.of(result)[result.named[claim.who]]
    name = f"claim: {quoted(claim.who)} − {quoted(claim.than)}{claim.where}"
    both = isinstance(claim, Equivalent)
    margin = -claim.margin if isinstance(claim, NoWorse) else claim.margin
    return Pair(name, verdict.measured, verdict.interval, seeds, fallen, look, margin, both)


def _seeds(who: Scores, than: Scores) -> tuple[dict[int, float], frozenset[int]]:
    """The difference of each seed that both have, and the seeds of which either diverged."""
    shared = sorted(who.values.keys() & than.values.keys())
    return {seed: who.values[seed] - than.values[seed] for seed in shared}, who.diverged | than.diverged


def _draw(result: StudyResult, pairs: Sequence[Pair]) -> Figure:
    rows = [Row(pair.name, pair.mean, pair.interval, pair.look, signed(pair.mean)) for pair in pairs]
    fig, axes = draw_rows(rows, f"difference of {metric_words(result.edition.study.score.test)}, paired by seed")
    axes.axvline(0, color=MUTED, linewidth=0.9, zorder=1)
    for place, pair in enumerate(pairs):
        draw_seeds(axes, place, pair.seeds, pair.diverged, pair.look.color)
        if pair.margin:
            _draw_margin(axes, row_place(place), pair)
    return fig


def _draw_margin(axes: Axes, at: float, pair: Pair) -> None:
    """An upright mark at each end of the margin, with a band between them where it has two."""
    ends = (-pair.margin, pair.margin) if pair.both else (pair.margin,)
    if pair.both:
        axes.fill_between(ends, at - 0.3, at + 0.3, color=FAINT, alpha=0.6, linewidth=0, zorder=0)
    for end in ends:
        axes.plot([end, end], [at - 0.3, at + 0.3], color=INK, linewidth=0.9)


def _caption(result: StudyResult, arms: Sequence[Pair], claims: Sequence[Pair]) -> str:
    plan, pairs = result.edition.study.plan, [*arms, *claims]
    tested = any(pair.interval for pair in arms)
    first = ""
    if arms and isinstance(plan, Ablation):
        together = f"of Holm's test over {plural(result.adjusted_over, 'difference')}"
        adjusted = f" with the interval {together if result.adjusted_over else 'of its claim'}" if tested else ""
        first = f"Each arm minus {plan.baseline_words}, paired by seed{adjusted}; a small dot is a seed."
    second = "Claims: the two trials of a claim, with the interval that decided it." if claims else ""
    return sentences((
        first,
        second if arms else f"{second} A small dot is a seed.",
        "An arm whose interval leaves out 0 differs significantly." if tested else "",
        "The band between two upright marks is the margin within which two trials count as equal."
        if any(pair.both for pair in pairs) else "",
        "An upright mark is the difference that a claim asks for."
        if any(pair.margin and not pair.both for pair in pairs) else "",
        "A cross is a seed of which one of the two diverged; means are those of the seeds that learn in both."
        if any(pair.diverged & pair.seeds.keys() for pair in pairs) else "",
        f"No interval for fewer than {FEWEST} pairs." if any(pair.interval is None for pair in pairs) else "",
    ))  # fmt: skip
