"""Which arm to take, what it gains and costs, and what would decide what is open: for a person's own images.

The headline says what was found; this says what to do. It is for ablations whose arms race, which ask for one choice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from search_spaces.words import listed, plural, quoted
from service.analysis.differences import Difference
from service.analysis.estimates.power import seeds_needed
from service.analysis.format import fixed
from service.analysis.learning import counts
from service.analysis.statistics import ALPHA
from trainables.recipe.cost import estimate_cost

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult

MOST = 6
"""How many rivals a sentence names."""
FEWEST_TO_PLAN = 5
"""How many seeds must have shown how much they differ before a number of further seeds is named."""


def advice(result: StudyResult) -> list[str]:
    """What to take, then cost, other image sizes, the race and what is open, a sentence each; none without a winner."""
    plan, best = result.edition.study.plan, result.best
    if not (isinstance(plan, Ablation) and plan.race and best):
        return []
    names = {row.trial.label: row.name for row in result.of("trial")}
    rivals = {names[label]: gap for label, gap in result.level_with(best, result.of("trial")).items()}
    partner = next((row for row in result.of("trial") if row.name == plan.compared_with(best.name)), None)
    known = [
        _take(best, rivals, len(plan.arms)),
        _cost(best, partner),
        *_sizes(best, partner),
        _out(result),
        _open(best, rivals),
    ]
    return [sentence for sentence in known if sentence]


def _take(best: TrialResult, rivals: dict[str, Difference], arms: int) -> str:
    """What to take. `arms`: of how many."""
    learn, seeds = counts(best.test)
    share = f"; {learn} of {plural(seeds, 'seed')} learn" if learn < seeds else ""
    if not rivals:
        return f"Take {quoted(best.name)}{share}."
    names = [quoted(name) for name in rivals]
    others = listed([*names[:MOST], *([f"{len(names) - MOST} more"] if len(names) > MOST else [])])
    if len(rivals) == arms - 1 > 1:
        return (
            f"Nothing is decided: {plural(seeds, 'seed')} tell no arm apart from {quoted(best.name)}, which has the "
            f"highest validation score{share}. A larger budget, or more images, may."
        )
    return f"Take {quoted(best.name)}{share}. {plural(seeds, 'seed')} do not tell it apart from {others}."


def _cost(best: TrialResult, partner: TrialResult | None) -> str:
    """What it costs, beside the arm that it is compared with."""
    parts = []
    for words, of in (("{:.2f} ms an image in training", _milliseconds), ("{:.2f} GiB of memory", _memory)):
        own, other = of(best), of(partner) if partner else None
        if own is not None:
            beside = "" if other is None or partner is None else f" ({quoted(partner.name)} {other:.2f})"
            parts.append(words.format(own) + beside)
    own_count = estimate_cost(best.recipe).parameters
    more = own_count - estimate_cost(partner.recipe).parameters if partner else 0
    beside = f" ({abs(more):,} {'more' if more > 0 else 'fewer'})" if more else ""
    return f"It costs {listed([*parts, f'{own_count:,} parameters{beside}'])}."


def _milliseconds(row: TrialResult) -> float | None:
    return row.median_cost(lambda run: 1000 / run.images_per_s if run.images_per_s else None)


def _memory(row: TrialResult) -> float | None:
    return row.median_cost(lambda run: run.final("memory/peak_gib"))


def _sizes(best: TrialResult, partner: TrialResult | None) -> Iterator[str]:
    """What it scores on images of other sizes, without training on them."""
    for size in best.test_sizes:
        rows = [row for row in (best, partner) if row and size in row.test_sizes]
        own, *others = [f"{quoted(row.name)} has {fixed(row.test_sizes[size].mean)}" for row in rows]
        yield f"On test images of {size} x {size} pixels {own}{''.join(f', {other}' for other in others)}."


def _out(result: StudyResult) -> str:
    """The arms that left the race, by how many seeds they got."""
    by_seeds: dict[int, list[str]] = {}
    for row in result.of("trial"):
        if row.answer.raced:
            by_seeds.setdefault(len(row.answer.values), []).append(quoted(row.name))
    words = [f"{listed(names)} after {plural(seeds, 'seed')}" for seeds, names in sorted(by_seeds.items())]
    return f"Out of the race, as they could not be the best any more: {'; '.join(words)}." if words else ""


def _open(best: TrialResult, rivals: dict[str, Difference]) -> str:
    """How many seeds would tell the nearest rivals apart, if the differences stay as they are."""
    if best.test.sound.n < FEWEST_TO_PLAN:
        return ""
    words: list[str] = []
    for name, gap in sorted(rivals.items(), key=lambda item: -abs(item[1].mean))[:3]:
        level = gap.adjusted.level if gap.adjusted else ALPHA
        spread, overlap = gap.estimate.spread or 0.0, gap.estimate.overlap
        needed = seeds_needed(gap.mean, std=spread, alpha=level, overlap=overlap) if gap.mean else None
        seeds = "more than 1,000" if needed is None else f"{needed}"
        words.append(f"{seeds}{'' if words else ' seeds would tell it apart'} from {quoted(name)}")
    return f"About {listed(words)}, if the differences stay as they are." if words else ""
