"""What is kept of a probe over a study: by trial and seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from trainables.recipe.findings import Findings, Probed, When

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult

ByTrial = list[tuple["TrialResult", dict[int, Probed]]]
"""The trials that probes look at, each with what is kept of one probe by seed."""


def found(result: StudyResult, probe: str) -> ByTrial:
    """What is kept of a probe, nothing where the study does not name it."""
    if probe not in result.edition.study.probes:
        return []
    kept = ((row, {seed: one.kept(probe) for seed, one in row.probes.items()}) for row in result.probed)
    return [(row, {seed: one for seed, one in some.items() if one is not None}) for row, some in kept]


def arrays(kept: dict[int, Probed], when: When, name: str) -> list[Findings]:
    """The findings that have an array of this name, in the order of the seeds."""
    return [one.at(when) for _, one in sorted(kept.items()) if name in one.at(when).arrays]


def of_first_seeds(result: StudyResult, probe: str, name: str) -> Iterator[tuple[TrialResult, Findings]]:
    """Each trial with what was found after training in the first seed that has an array of this name."""
    for row, kept in found(result, probe):
        for one in arrays(kept, "after", name)[:1]:
            yield row, one
