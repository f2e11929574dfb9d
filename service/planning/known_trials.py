"""The trials of a study that are known before it begins."""

from __future__ import annotations

from search_spaces.study import Ablation, Edition, Trial


def known_trials(edition: Edition) -> list[Trial]:
    """The arms of an ablation, or the points that a search tries first."""
    plan = edition.study.plan
    if isinstance(plan, Ablation):
        return edition.arms()
    return [edition.trial(number, point) for number, point in enumerate(plan.first)]
