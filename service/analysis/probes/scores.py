"""Numbers that probes found, as scores by seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from service.analysis.probes.run_probes import RunProbes
from service.analysis.statistics import Scale, Scores
from service.storage.probe_files import TIMES
from trainables.recipe.findings import When

SCALES = {"direction": Scale(0.5, 0.0, 1.0), "distance": Scale(0.0, high=1.0)}
"""What the numbers of a probe can be: accuracies of two classes, and R²; others have no ends."""


def probe_scores(probes: Mapping[int, RunProbes], asked: int, probe: str, value: str, when: When) -> Scores:
    """A number of a probe by seed, of the runs for which it is kept; `asked`: how many seeds there should be.

    Raises: LocusError for an unknown probe.
    """
    found = {seed: one.kept(probe) for seed, one in probes.items()}
    values = {seed: one.at(when).values for seed, one in found.items() if one is not None}
    known = {seed: some[value] for seed, some in sorted(values.items()) if math.isfinite(some.get(value, math.nan))}
    return Scores(known, asked, SCALES.get(probe, Scale()))


def probe_values(probes: RunProbes | None, names: Iterable[str]) -> dict[str, float]:
    """All numbers that some probes found in a run, as far as they are kept: `probe/direction/left/before`."""
    found = {name: probes.kept(name) for name in names} if probes is not None else {}
    return {
        f"probe/{name}/{value}/{when}": number
        for name, probed in found.items()
        if probed is not None
        for when in TIMES
        for value, number in probed.at(when).values.items()
    }
