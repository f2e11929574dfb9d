"""What the models of a trial answer to each fixed test image: by class, and image by image."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from service.analysis.statistics import Scale, Scores
from trainables.recipe.findings import RIGHT_IMAGES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from service.analysis.trial_result import TrialResult


@dataclass(frozen=True)
class Answers:
    """The answers of a trial's models, by seed. `diverged`: the seeds without a model, which count at chance.

    Shapes: `targets`, and `predicted` of each seed, (N,) of class numbers. `names`: of images that a model has wrong.
    """

    classes: list[str]
    targets: NDArray[Any]
    predicted: Mapping[int, NDArray[Any]]
    names: Mapping[int, str]
    diverged: frozenset[int]

    @classmethod
    def of(cls, row: TrialResult) -> Answers | None:
        """Returns what is kept; None if a seed lacks its answers, such as one that was looked at by older code."""
        looks = {seed: run.kept(RIGHT_IMAGES) for seed, run in row.probes.items()}
        seeds = {seed: look.after.arrays for seed, look in looks.items() if look and "predicted" in look.after.arrays}
        if not seeds or {*seeds} | row.test.diverged != {*row.test.values}:
            return None
        names: dict[int, str] = {}
        for arrays in seeds.values():
            names |= zip(np.flatnonzero(~arrays["right"]).tolist(), map(str, arrays.get("wrong", ())), strict=False)
        predicted = {seed: arrays["predicted"] for seed, arrays in sorted(seeds.items())}
        return cls([*map(str, arrays["classes"])], arrays["targets"], predicted, names, row.test.diverged)

    def of_class(self, number: int) -> Scores:
        """Returns the accuracy on the test images of a class, by seed. Its interval holds for other such images, too.

        It is not cut at chance: a model that guesses may never say this class.
        """
        mine = self.targets == number
        right = {seed: (predicted[mine] == number).astype(float) for seed, predicted in self.predicted.items()}
        right |= {seed: np.full(mine.sum(), 1 / len(self.classes)) for seed in self.diverged}
        values = {seed: float(array.mean()) for seed, array in right.items()}
        several = right if mine.sum() > 1 else {}
        return Scores(values, len(values), Scale(0.0, 0.0, 1.0, 1 / int(mine.sum())), self.diverged, right=several)

    def confusion(self) -> NDArray[np.float64]:
        """Returns which share of the images of a class is taken for each class, over all models. Shapes: (K, K)."""
        counts = np.zeros((len(self.classes), len(self.classes)))
        for predicted in self.predicted.values():
            np.add.at(counts, (self.targets, predicted), 1)
        shares: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares

    def wrong(self) -> dict[int, Counter[str]]:
        """Returns the wrong answers to each image that more than half of two models or more have wrong, by its place.

        First come the images that most models have wrong; of these, those that most models take for one class.
        """
        answers = np.stack([*self.predicted.values()])
        mostly_wrong = 2 * (answers != self.targets).sum(axis=0) > len(answers)
        wrong = {
            image: Counter(self.classes[number] for number in answers[:, image] if number != self.targets[image])
            for image in (np.flatnonzero(mostly_wrong).tolist() if len(answers) > 1 else [])
        }
        return dict(sorted(wrong.items(), key=lambda item: (-item[1].total(), -max(item[1].values()))))
