"""Numbers that probes found, as scores by seed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from search_spaces.claim import ClaimOfMaps
from service.analysis.probes.run_probes import RunProbes
from service.analysis.statistics import Scale, Scores
from service.storage.probe_files import TIMES
from trainables.recipe.findings import When

if TYPE_CHECKING:
    from numpy.typing import NDArray

SCALES = {"direction": Scale(0.5, 0.0, 1.0), "distance": Scale(0.0, high=1.0)}
"""What the numbers of a probe can be: accuracies of two classes, and R²; others have no ends."""


def probe_scores(probes: Mapping[int, RunProbes], asked: int, probe: str, value: str, when: When) -> Scores:
    """A number of a probe by seed, of the runs for which it is kept; `asked`: how many seeds there should be.

    Raises: LocusError for an unknown probe.
    """
    found = {seed: one.kept(probe) for seed, one in probes.items()}
    values = {seed: one.at(when).values for seed, one in found.items() if one is not None}
    known = {seed: some[value] for seed, some in sorted(values.items()) if math.isfinite(some.get(value, math.nan))}
    return Scores(known, asked, replace(SCALES.get(probe, Scale()), overlap=_overlap(probes)))


def _overlap(probes: Mapping[int, RunProbes]) -> float:
    """That of the scale of the runs, where their seeds are folds."""
    return max((one.answered.run.recipe.data.overlap for one in probes.values()), default=0.0)


def alike(one: Mapping[int, RunProbes], other: Mapping[int, RunProbes], claim: ClaimOfMaps, asked: int) -> Scores:
    """How alike the maps are that a probe found in two trials: a correlation for each seed that both have.

    A seed is paired with the next one of the other trial, and the last with the first. Two neighboring numbers share a
    model, so they are not quite independent, as a test takes them to be.
    """
    mine, theirs = _maps(one, claim), _maps(other, claim)
    seeds = sorted({*mine} & {*theirs})
    found = {
        seed: correlation(mine[seed], theirs[following])
        for seed, following in zip(seeds, [*seeds[1:], *seeds[:1]], strict=True)
        if seed != following and mine[seed].shape == theirs[following].shape
    }
    scale = Scale(0.0, -1.0, 1.0, task=False, overlap=_overlap(one))
    return Scores({seed: value for seed, value in found.items() if math.isfinite(value)}, asked, scale)


def _maps(trial: Mapping[int, RunProbes], claim: ClaimOfMaps) -> dict[int, NDArray[Any]]:
    """The maps that a claim is about, by seed, as far as they are kept."""
    kept = {seed: one.kept(claim.probe) for seed, one in trial.items()}
    maps = {seed: found.at(claim.when).arrays.get(claim.value) for seed, found in kept.items() if found is not None}
    return {seed: one for seed, one in maps.items() if one is not None}


def correlation(one: NDArray[Any], other: NDArray[Any]) -> float:
    """Pearson's correlation of two arrays of maps over pairs of two different positions; NaN if one is constant.

    Shapes: (..., P, R, C) each, a picture of the grid for each of its P positions.
    """
    import numpy as np

    patches = one.shape[-1] * one.shape[-2]
    apart = ~np.eye(patches, dtype=bool)
    x, y = (maps.reshape(-1, patches, patches)[:, apart].ravel().astype(float) for maps in (one, other))
    x, y = x - x.mean(), y - y.mean()
    both = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / both if both > 0 else math.nan


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
