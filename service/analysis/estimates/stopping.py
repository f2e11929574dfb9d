"""How early stopping did: whether the order of trials at a rung was that of their final scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.study import Search
from service.planning.search.stopping import rungs
from service.storage.history import History

if TYPE_CHECKING:
    from search_spaces.study import Trial

FEWEST_TRIALS = 4
"""With fewer trials a rank correlation says nothing: of three, six orders are possible."""


@dataclass(frozen=True)
class Rung:
    """One epoch after which trials are compared.

    `reached`: how many trials were measured there; `ended`: how many of these completed; `correlation`: Spearman's, of
    the first seed's value there with the mean score at the end over all seeds; None for fewer than four, or equal ones.
    """

    epoch: int
    reached: int
    ended: int
    correlation: float | None


def judge_rungs(history: History) -> list[Rung]:
    """Each rung of a search, also if nothing was stopped; empty for an ablation.

    A trial that was stopped has no final score. So where trials are stopped, the correlation is that among the better
    ones, and is lower than that among all would be.
    Source: Spearman 1904; Li et al. 2018 on successive halving, which relies on this order.
    """
    plan = history.edition.study.plan
    if not isinstance(plan, Search):
        return []
    found = [_rung(history, epoch) for epoch in rungs(history.edition.study.base.optimizer.epochs)]
    return [rung for rung in found if rung.reached]


def _rung(history: History, epoch: int) -> Rung:
    reached = [(trial, value) for trial in history.of("trial") if (value := _value(history, trial, epoch)) is not None]
    pairs = [
        (value, answer.mean)
        for trial, value in reached
        if (answer := history.answer(trial)).status == "completed" and answer.mean is not None
    ]
    return Rung(epoch, len(reached), len(pairs), rank_correlation(pairs))


def _value(history: History, trial: Trial, epoch: int) -> float | None:
    """What the first seed of a trial had at an epoch."""
    measured = history.state(history.first_run(trial)).curve.get(epoch)
    return None if measured is None else measured.values.get(trial.score.metric)


def rank_correlation(pairs: list[tuple[float, float]]) -> float | None:
    """Spearman's rank correlation; equal values share a rank. None for fewer than four pairs, or equal values."""
    if len(pairs) < FEWEST_TRIALS or any(len({pair[side] for pair in pairs}) < 2 for side in (0, 1)):
        return None
    from scipy.stats import spearmanr  # here, for the commands that only look must start without scipy

    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def stopping_sentence(found: list[Rung]) -> str:
    """The rank correlations in a sentence; empty if none is known."""
    known = [rung for rung in found if rung.correlation is not None]
    parts = [
        f"{rung.correlation:.2f} after epoch {rung.epoch} ({rung.ended} of {rung.reached} trials)" for rung in known
    ]
    return f"Rank correlation of a trial's first seed with its final score: {', '.join(parts)}." if parts else ""
