"""The probes of runs (measurements of trained models): how they are computed and kept, and their scores by seed.

Nothing is trained.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from search_spaces.claim import ClaimOfMaps
from search_spaces.words import plural
from service.analysis.statistics import Scale, Scores
from service.storage.outcomes import TIMES, Answered, Outcomes, kept_probe, require_sound, write_probe
from trainables.data import Data
from trainables.recipe.findings import (
    DRAWN_AGAIN,
    FURTHER_IMAGES,
    LOOKS,
    REVISIONS,
    RIGHT_IMAGES,
    Findings,
    Probed,
    When,
)
from trainables.recipe.outcome import Completed
from trainables.spec import LocusError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, repr=False)
class RunProbes:
    """The probes of a completed run: measurements of its trained model.

    `parent` is the file of the weights that the run started from; None if it has no parent.
    """

    outcomes: Outcomes
    answered: Answered
    parent: Path | None

    def path(self, name: str) -> Path:
        """Returns the file that keeps what a probe found in the run. Raises: LocusError for an unknown name."""
        if name not in LOOKS:
            raise LocusError(f"the probe must be one of {', '.join(LOOKS)}, got {name!r}")
        return self.outcomes.probe(self.answered.run.key, self.answered.name, name)

    def kept(self, name: str) -> Probed | None:
        """Returns what the probe found; None if today's code of the probe has not looked at this run."""
        return kept_probe(self.path(name), REVISIONS[name])

    @property
    def further(self) -> tuple[float, ...]:
        """The scores of the run on further draws of the test images; empty if none are kept."""
        probed = self.kept(FURTHER_IMAGES)
        return () if probed is None else tuple(map(float, probed.after.arrays["scores"]))

    @property
    def right(self) -> NDArray[np.bool_] | None:
        """Whether the model is right on each test image; None if not kept, or unlike the run's score. Shapes: (N,)."""
        probed = self.kept(RIGHT_IMAGES)
        return None if probed is None else probed.after.arrays.get("right")

    @property
    def can_be_computed(self) -> bool:
        """Whether the file of the run's weights exists."""
        return self.outcomes.weights(self.answered.run.key, self.answered.name).exists()

    def __call__(self, name: str) -> Probed:
        """Returns what the probe finds: it is read if it was kept, else it is computed from the weights and kept.

        Raises: LocusError if the run's weights were not kept, or cannot be read.
        Cost: 0.1 to 10 s, on one thread.
        """
        kept = self.kept(name)
        if kept is not None:
            return kept
        run, answered = self.answered.run, self.answered
        weights = self.outcomes.weights(run.key, answered.name)
        if not isinstance(answered.outcome, Completed) or not weights.exists():
            why = self.outcomes.without_weights
            raise LocusError(f"the weights of {run.key} must be kept to be probed, got none{why}")
        for file in (weights, self.parent):
            if file is not None:
                require_sound(file)
        from trainables.probes.catalog import probe_run
        from trainables.training.runtime import runtime

        with runtime(1, "float64"):
            probed = probe_run(name, run, weights, self.parent, self.outcomes.data, answered.environment)
        if name == RIGHT_IMAGES:
            # one image, or one of a thousand, may differ from the run: the device that trained rounds in another way
            data, right = run.recipe.data, probed.after.arrays["right"]
            wrong = data.score(0.0, "test")
            score = answered.curve[max(answered.curve)][f"test/{data.reported}"]
            scored = round((score - wrong) / (1 - wrong) * len(right))
            if abs(int(right.sum()) - scored) > max(1, len(right) / 1000):
                note = f"{right.sum()} of {plural(len(right), 'test image')} are right here, {scored} in the run"
                probed = replace(probed, after=Findings(note=note))
        write_probe(self.path(name), probed, REVISIONS[name])
        return probed


def images_look(data: Data) -> str:
    """Returns the name of the look at trained models (a probe) that lets test scores hold for other images, too.

    It is empty for images that are another part of one set for each seed, and for scores that are no share of right
    answers.
    """
    if data.kind in DRAWN_AGAIN:
        return FURTHER_IMAGES
    return RIGHT_IMAGES if data.metric == "accuracy" and not data.cross_validated else ""


def over_other_images(test: Scores, data: Data, probes: Mapping[int, RunProbes]) -> Scores:
    """Returns a trial's test scores with what the look at its models (`images_look`) found, as far as that is kept.

    A seed that diverged is at chance on each image and draw. `probes` are those of the completed runs, by seed.
    """
    look = images_look(data)
    if look == FURTHER_IMAGES:
        further = {seed: scores for seed, run in probes.items() if (scores := run.further)}
        draws = max(map(len, further.values()), default=0)
        return replace(test, further=further | dict.fromkeys(test.diverged, (test.scale.chance,) * draws))
    kept = {seed: run.right for seed, run in probes.items()} if look == RIGHT_IMAGES else {}
    arrays = {seed: right for seed, right in kept.items() if right is not None}
    if look != RIGHT_IMAGES or not (arrays or (test.diverged and not probes)):
        return test
    import numpy as np  # here, for it takes a while to import

    scale, count = test.scale, data.image_counts.test
    right = {seed: np.where(array, scale.high, scale.low) for seed, array in arrays.items()}
    return replace(test, right=right | {seed: np.full(count, scale.chance) for seed in test.diverged})


SCALES = {"direction": Scale(0.5, 0.0, 1.0, task=False), "distance": Scale(0.0, high=1.0, task=False)}
"""The scales of two probes, whose numbers are accuracies of two classes, and R²; numbers of other probes have no ends.

No seed counts as failed: a model in which a probe finds nothing has not failed to learn, it has nothing there.
"""


def probe_scores(probes: Mapping[int, RunProbes], seeds: int, probe: str, value: str, when: When) -> Scores:
    """Returns a number that a probe found, by seed, for the runs of which it is kept.

    `seeds` is how many seeds there should be, `value` the name of the number, and `when` before or after training.
    Raises: LocusError for an unknown probe.
    """
    kept = {seed: run.kept(probe) for seed, run in probes.items()}
    values = {seed: probed.at(when).values for seed, probed in kept.items() if probed is not None}
    finite = {seed: row[value] for seed, row in sorted(values.items()) if math.isfinite(row.get(value, math.nan))}
    return Scores(finite, seeds, replace(SCALES.get(probe, Scale()), overlap=_overlap(probes)))


def _overlap(probes: Mapping[int, RunProbes]) -> float:
    """Returns the overlap (`Scale.overlap`) of the runs' data; 0 if their seeds are not folds."""
    return max((run.answered.run.recipe.data.overlap for run in probes.values()), default=0.0)


def alike(trial: Mapping[int, RunProbes], other: Mapping[int, RunProbes], claim: ClaimOfMaps, count: int) -> Scores:
    """Returns how alike the maps are that a probe found in two trials: a correlation for each seed that both have.

    A seed of `trial` is paired with the next seed of `other`, and the last with the first. Two neighboring correlations
    share a model, so they are not quite independent, as a test takes them to be. `count` is how many there should be.
    """

    def maps(probes: Mapping[int, RunProbes]) -> dict[int, NDArray[Any]]:
        """Returns the kept maps that the claim names, by seed."""
        kept = {seed: probed for seed, run in probes.items() if (probed := run.kept(claim.probe)) is not None}
        arrays = {seed: probed.at(claim.when).arrays.get(claim.value) for seed, probed in kept.items()}
        return {seed: array for seed, array in arrays.items() if array is not None}

    mine, theirs = maps(trial), maps(other)
    seeds, correlations = sorted({*mine} & {*theirs}), {}
    for seed, following in zip(seeds, [*seeds[1:], *seeds[:1]], strict=True):
        if seed != following and mine[seed].shape == theirs[following].shape:
            value = correlation(mine[seed], theirs[following])
            if math.isfinite(value):
                correlations[seed] = value
    return Scores(correlations, count, Scale(0.0, -1.0, 1.0, task=False, overlap=_overlap(trial)))


def correlation(a: NDArray[Any], b: NDArray[Any]) -> float:
    """Returns Pearson's correlation of two arrays of maps over pairs of different positions; NaN if one is constant.

    Shapes: (..., P, R, C) each, a picture of the grid for each of its P positions.
    """
    import numpy as np

    patches = a.shape[-1] * a.shape[-2]
    apart = ~np.eye(patches, dtype=bool)
    x, y = (maps.reshape(-1, patches, patches)[:, apart].ravel().astype(float) for maps in (a, b))
    x, y = x - x.mean(), y - y.mean()
    both = math.sqrt(float(x @ x) * float(y @ y))
    return float(x @ y) / both if both > 0 else math.nan


def probe_values(probes: RunProbes | None, names: Iterable[str]) -> dict[str, float]:
    """Returns the kept numbers that some probes found in a run, by keys such as `probe/direction/left/before`."""
    kept = {name: probes.kept(name) for name in names} if probes is not None else {}
    return {
        f"probe/{name}/{value}/{when}": number
        for name, probed in kept.items()
        if probed is not None
        for when in TIMES
        for value, number in probed.at(when).values.items()
    }
