"""What every data set declares about its images, without making or reading them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

from pydantic import Field, model_validator

from trainables.spec import Spec, require

Metric = Literal["accuracy", "balanced_accuracy", "r2"]
"""What is measured: the share of right answers; its mean over the classes, each of which counts alike; or R^2."""
Positive = Annotated[float, Field(gt=0)]


class ImageCounts(NamedTuple):
    """How many images there are in each split."""

    train: int
    validation: int
    test: int


SplitName = Literal["val", "test"]
"""The splits that are scored, as they begin the names of scores."""


class Chances(NamedTuple):
    """The metric of a model that has learned nothing: of classes, the share of the most frequent one of each split."""

    val: float
    test: float


def luck(chance: float, images: float) -> float:
    """Returns how far above chance the accuracy of a model that guesses lies on so many images in one of twenty cases.

    Source: the normal approximation of the binomial distribution. Differs: nothing.
    """
    z = 1.6448536269514722  # the 95 % quantile of the normal distribution
    return z * math.sqrt(chance * (1 - chance) / images)


class Auto(Spec):
    """As timm does where the weights of the backbone come from timm, else not at all."""

    kind: Literal["auto"] = Field(default="auto", init=False)


class Unnormalized(Spec):
    """Pixels from 0 (black) to 1 (white)."""

    kind: Literal["none"] = Field(default="none", init=False)


class AsTimm(Spec):
    """With the mean and std that timm names for the weights of `init`."""

    kind: Literal["timm"] = Field(default="timm", init=False)


class MeanStd(Spec):
    """Each channel of an image minus its mean, divided by its standard deviation.

    Units: of pixels from 0 (black) to 1 (white); a number for each channel.
    """

    kind: Literal["mean_std"] = Field(default="mean_std", init=False)
    mean: tuple[float, ...] = Field(strict=False, min_length=1, description="a number for each channel, of pixels 0-1")
    std: tuple[Positive, ...] = Field(strict=False, min_length=1, description="a positive number for each channel")


Normalize = Annotated[Auto | Unnormalized | AsTimm | MeanStd, Field(discriminator="kind")]


class DatasetSpec(Spec):
    """What every data set's spec declares. `normalize`: how pixels from 0 to 1 are normalized (`Recipe.normalize`).

    `skill`: scores are reported as skill, the share of the way from chance to a perfect score, so that tasks with
    different metrics can be compared: (accuracy - chance) / (1 - chance); R^2 is one already. Source: Murphy 1988,
    Skill scores based on the mean square error and their relationships to the correlation coefficient. Differs:
    nothing.
    A data set in a user's own file derives from this class: its `kind` has the default "file.py:Class"; it declares
    `size`, `outputs`, `metric` and its counts, as fields, properties or class variables, and `max_value`, the value of
    white, where that is not 255, and `metric_chance` where guessing scores other than 1 / outputs, as it does where
    classes are uneven: the share of the most frequent one. Its method
    `arrays(self)` returns the images and targets of "train", "validation" and "test", the same ones at each call. A
    class that reads files declares a `fingerprint` that changes with them.
    Shapes: images (N, C, R, S) of uint8; targets (N,) of integers, or (N, outputs) of floats where `metric` is "r2".
    """

    augments: ClassVar[tuple[str, ...]] = ("none",)
    """The kinds of augmentation that keep the labels."""

    kind: str
    normalize: Normalize = Field(default=Auto(), kw_only=True)
    skill: bool = Field(default=False, kw_only=True, description="true (scores are skill, 0 at chance) or false")

    @model_validator(mode="after")
    def _a_number_for_each_channel(self) -> DatasetSpec:
        if isinstance(self.normalize, MeanStd):
            channels = self.size[0]
            for name, numbers in (("mean", self.normalize.mean), ("std", self.normalize.std)):
                require(len(numbers) == channels, f"normalize.{name}", f"{channels} numbers", list(numbers))
        return self

    @property
    def label(self) -> str:
        """The name of the task where the data set has several, else of the data set."""
        return self.kind

    @property
    def image_counts(self) -> ImageCounts:
        """How many images are used; by default what the fields `train_size`, `val_size` and `test_size` say."""
        fields: Any = self
        return ImageCounts(fields.train_size, fields.val_size, fields.test_size)

    def counts_at(self, seed: int) -> ImageCounts:
        """Returns how many images are used by a run of this seed, which matters only if seeds are folds."""
        return self.image_counts

    @property
    def overlap(self) -> float:
        """The count of validation images divided by that of training images, if seeds are folds; else 0."""
        return 0.0

    @property
    def cross_validated(self) -> bool:
        """Whether the images that validate a seed also test it, as no others do."""
        return False

    @property
    def outputs(self) -> int:
        """How many numbers the model's head has."""
        raise NotImplementedError

    @property
    def metric(self) -> Metric:
        """What is measured: accuracy or balanced accuracy for classes, R^2 for numbers."""
        raise NotImplementedError

    @property
    def metric_chance(self) -> float:
        """The metric of a model that has learned nothing, if it is equal on all splits (`chances` has it by split)."""
        return 0.0 if self.metric == "r2" else 1 / self.outputs

    @property
    def chances(self) -> Chances:
        """The metric of a model that has learned nothing, by split."""
        return Chances(self.metric_chance, self.metric_chance)

    def step(self, split: SplitName) -> float:
        """Returns what one image of a split can change of the metric, 0 for R^2, which has no steps."""
        counts = self.image_counts
        return 0.0 if self.metric == "r2" else 1 / (counts.validation if split == "val" else counts.test)

    @property
    def reported(self) -> str:
        """The name of the score that is reported: the metric's, or skill."""
        return "skill" if self.skill else self.metric

    def chance(self, split: SplitName) -> float:
        """Returns the reported score of a model that has learned nothing, on a split."""
        return self.score(getattr(self.chances, split), split)

    @property
    def scale(self) -> str:
        """What is reported, and what guessing scores there, in words: scores of other data with the same compare."""
        chances = dict.fromkeys(f"{self.chance(split):g}" for split in get_args(SplitName))
        return f"{self.reported}, {' and '.join(chances)}"

    def score(self, metric: float, split: SplitName) -> float:
        """Returns the reported score of a value of the metric, measured on a split."""
        chance: float = getattr(self.chances, split)
        return (metric - chance) / (1 - chance) if self.skill else metric

    @property
    def size(self) -> tuple[int, int, int]:
        """Channels, rows and columns of an image, in pixels."""
        raise NotImplementedError

    @property
    def fingerprint(self) -> str:
        """What the images are, beyond this spec's own fields: a generator's version, or a checksum.

        Nothing by default: the images of a user's own file follow from its code, which counts beside the key.
        """
        return ""

    def missing(self, folder: Path) -> str:
        """Returns what is missing, in a sentence, where the images are not there; `folder`: that of all data."""
        return ""

    def fit_patch(self, side: int) -> None:
        """Checks with `require` that one patch of this side cannot answer the task's question. Units: pixels."""
