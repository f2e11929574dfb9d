"""A study's question, answered in one sentence of plain words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from search_spaces.study import Ablation
from service.analysis.format import between, listed, measure_name, number, p_text, plural
from service.analysis.statistics import ALPHA, Scores, difference
from service.reporting.provenance import stale

if TYPE_CHECKING:
    from service.analysis.study_result import Findings
    from service.analysis.trial_result import TrialResult


def answer(result: Findings) -> str:
    """What was found, how sure it is, and what is still missing."""
    best = result.best
    if best is None:
        return f"No answer yet: {_missing(result)}."
    found = _arms(result, best) if isinstance(result.edition.study.plan, Ablation) else _search(result, best)
    missing = _missing(result)
    return f"{found} Not finished: {missing}." if missing else found


def _search(result: Findings, best: TrialResult) -> str:
    of = plural(len(result.of("trial")), "point")
    metric = result.edition.study.score
    if best.trial.role == "trial":
        return (
            f"Of {of}, {point(best)} scores highest so far: {measure_name(metric.metric)} {_score(best.validation)}; "
            "not confirmed on fresh seeds."
        )
    found = f"Of {of}, {point(best)} comes out best: {measure_name(metric.test)} {_score(best.test)} on fresh seeds"
    first = result.named.get("first")
    if first is best:
        found += "; it was tried first"
    elif first is not None:
        found += f"; the point tried first, {point(first)}, has {_score(first.test)}"
    return f"{found}.{_level([point(row) for row in result.confirmed if _equal(best, row)])}"


def _arms(result: Findings, best: TrialResult) -> str:
    study = result.edition.study
    assert isinstance(study.plan, Ablation)
    arm = f"the arm “{best.name}” comes out best"
    found = f"Chosen by validation, {arm}: {measure_name(study.score.test)} {_score(best.test)}"
    if best.name == study.plan.baseline:
        found += "; it is the baseline"
    elif best.name in result.differences:
        gap, p = result.differences[best.name]
        over = f"{number(abs(gap.mean))} {'above' if gap.mean >= 0 else 'below'} {study.plan.baseline}"
        found += f", {over}" + (f" ({between(gap.interval())}, p {p_text(p)} after Holm)" if p is not None else "")
    return f"{found}.{_level([row.name for row in result.of('trial') if _equal(best, row)])}"


def _equal(best: TrialResult, other: TrialResult) -> bool:
    """True where all seeds of both have a score and the paired difference is not significant (unadjusted: cautious)."""
    gap = difference(best.test, other.test)
    p = gap.p() if gap else None
    sound = other.test.complete and best.test.complete and not (other.test.diverged | best.test.diverged)
    return other is not best and sound and p is not None and p >= ALPHA


def _level(names: list[str]) -> str:
    return f" {listed(names)} cannot be told from it." if names else ""


def point(row: TrialResult) -> str:
    """A search's trial in a sentence: `#7 (gamma=2.31)`."""
    return f"#{row.trial.number} ({row.name})"


def _score(scores: Scores) -> str:
    if scores.mean is None:
        return "unknown"
    seeds = plural(scores.n, "seed")
    return (
        f"{number(scores.mean)} ({between(scores.interval)}, {seeds})"
        if scores.interval
        else f"{number(scores.mean)} ({seeds})"
    )


def _missing(result: Findings) -> str:
    """What has no answer yet, in words; empty where the study is done."""
    rows = result.of("trial") + result.confirmed
    opened = [row for row in rows if row.answer.status == "open"]
    broken = [row for row in rows if row.answer.status == "incomplete"]
    old = stale(result)
    plan = result.edition.study.plan
    asked = len(plan.arms) if isinstance(plan, Ablation) else result.history.trial_count
    wanted = max(asked - len(result.of("trial")), 0)
    said = [
        plural(wanted, "trial") + " not begun" if wanted else "",
        plural(len(opened), "trial") + " under way" if opened else "",
        plural(len(broken), "trial") + " with failed runs" if broken else "",
        plural(old, "answer") + " of other code that do not count" if rows and old and opened else "",
    ]
    return listed([words for words in said if words])
