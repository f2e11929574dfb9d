"""What all sets of real images share: their side, how many of them are used, and which.

The numbers alone; `images_torch.py` selects and loads the images.
"""

from __future__ import annotations

import math
from importlib.metadata import version
from pathlib import Path
from typing import ClassVar, NamedTuple

from pydantic import Field, model_validator

from trainables.data.dataset import Chances, DatasetSpec, ImageCounts, Metric, SplitName
from trainables.spec import digest, require

HELD_OUT = 0.1
"""The share of training images that are held out for validation, and for the test, where a set has no such split."""

RESIDENT_BYTES = 4 * 2**30
"""Decoded images of up to so many bytes are kept in a file that all runs of a machine map into memory."""


class Described(NamedTuple):
    """Where the images of each split come from, in words, and what a reader should know of them, a sentence each."""

    train: str
    validation: str
    test: str
    remarks: tuple[str, ...] = ()


_COUNT = "a positive number of images, or null for all"


class ImagesSpec(DatasetSpec):
    """A set of labeled images, each resized so that its shorter side is `image_size / crop_pct`, then cropped.

    The crop is at the center, `image_size` wide and high; images that an augmentation crops at random are read whole.
    `crop_pct`: the share of the shorter side that is seen, by the name that timm has for it (0.875 for DeiT).
    Sizes are numbers of images, null for all that there are. `val_size` and `test_size` images are drawn from the set's
    own split, or held out of the training images where it has none. Every draw has the same share of each class, and a
    smaller draw is part of a larger one. But where images are held out, those to test are drawn first, then those to
    validate, then those to train: another `test_size` gives other images to validate and to train, and another
    `val_size` other ones to train.
    `samples_per_class`: instead of `train_size`, so many images of each class.
    `folds`: seed s is validated on fold s mod `folds` of the training images and trained on the others; every `folds`
    seeds the images are dealt anew. Each fold has the same share of each class. If the set has no test images, and
    no `test_size` is held out, the fold also tests. `data_seed`: which images are drawn, and how they are dealt.
    `balanced`: scores are the mean over the classes of each one's accuracy, so that a frequent class counts no more
    than a rare one.
    Units: `image_size` in pixels.
    """

    augments: ClassVar[tuple[str, ...]] = ("none", "standard", "deit", "three_augment")
    AVAILABLE: ClassVar[ImageCounts]
    FOLDER: ClassVar[str]
    """The folder of a known set, in the folder of all data."""
    OWN: ClassVar[tuple[str, str, str]] = ("train", "val", "test")
    """What a known set calls its splits to train, validate and test."""

    image_size: int = Field(default=224, gt=0, description="a positive side in pixels")
    train_size: int | None = Field(default=None, gt=0, description=_COUNT)
    samples_per_class: int | None = Field(default=None, gt=0, description="a positive number of images, or null")
    val_size: int | None = Field(default=None, gt=0, description=_COUNT)
    test_size: int | None = Field(default=None, gt=0, description=_COUNT)
    data_seed: int = Field(default=0, ge=0, description="a seed from 0 on: which images are drawn")
    balanced: bool = Field(
        default=False, description="true (scores are balanced accuracy: each class counts alike) or false"
    )
    folds: int | None = Field(
        default=None, ge=2, kw_only=True, description="a number of folds from 2 on, or null for one validation set"
    )
    crop_pct: float = Field(
        default=1.0, gt=0, le=1, kw_only=True, description="a share of the shorter side, 0 < crop_pct <= 1"
    )

    @property
    def available(self) -> ImageCounts:
        """How many images the set has in each of its splits, 0 if it has no such split."""
        return self.AVAILABLE

    @property
    def natural_side(self) -> int:
        """The shorter side that the set's images have, as far as it is known. Units: pixels."""
        side: int = type(self).model_fields["image_size"].default
        return side

    def held_out_at(self, seed: int) -> ImageCounts:
        """Returns how many of the set's training images validate and test, and how many are left to train."""
        available = self.available
        share = max(1, round(HELD_OUT * available.train))
        test = 0 if available.test or self.cross_validated else self.test_size or share
        left = available.train - test
        if self.folds:
            validation = left // self.folds + (seed % self.folds < left % self.folds)
        else:
            validation = 0 if available.validation else self.val_size or share
        return ImageCounts(left - validation, validation, test)

    def counts_at(self, seed: int) -> ImageCounts:
        available, held = self.available, self.held_out_at(seed)
        train = self.samples_per_class * self.outputs if self.samples_per_class else self.train_size or held.train
        validation = held.validation or self.val_size or available.validation
        test = validation if self.cross_validated else held.test or self.test_size or available.test
        return ImageCounts(train, validation, test)

    @property
    def image_counts(self) -> ImageCounts:
        """How many images are used; of folds those of the last one, which is the smallest."""
        return self.counts_at(self.folds - 1 if self.folds else 0)

    @property
    def overlap(self) -> float:
        counts = self.image_counts
        return counts.validation / counts.train if self.folds else 0.0

    @property
    def cross_validated(self) -> bool:
        return self.folds is not None and not (self.available.test or self.test_size)

    def described(self) -> Described:
        """Returns where the images of each split come from, in words."""
        splits = zip(self.OWN, self.available, strict=True)
        _, validation, test = (f"of {name}" if count else f"held out of {self.OWN[0]}" for name, count in splits)
        return self._with_folds(Described(self.OWN[0], validation, test))

    def _with_folds(self, described: Described) -> Described:
        """Returns what is described, where folds of the training images take the place of a split."""
        if not self.folds:
            return described._replace(train=f"of {described.train}")
        fold = f"of a fold of {described.train}, another one of {self.folds} for each seed"
        test = "of the same fold" if self.cross_validated else described.test
        return described._replace(train=f"of the other folds of {described.train}", validation=fold, test=test)

    @model_validator(mode="after")
    def _fits(self) -> ImagesSpec:
        """Each draw has its images, none comes from two fields, and every fold has an image of each class."""
        available, held = self.available, self.held_out_at(0)
        left = held.train
        if self.folds:
            require(not available.validation, "folds", "null where images of their own validate", self.folds)
            for name in ("train_size", "samples_per_class", "val_size"):
                require(getattr(self, name) is None, name, "null where folds is given", getattr(self, name))
            fewest = math.ceil((left + held.validation) * self.rarest.val - 1e-9)
            must = f"at most {fewest}, the training images of the rarest class"
            require(self.folds <= fewest, "folds", must, self.folds)
        both = self.train_size is None or self.samples_per_class is None
        require(both, "samples_per_class", "null where train_size is given", self.samples_per_class)
        must = f"such that some of the {available.train} images are left to train"
        require(left > 0, "val_size", must, self.val_size)
        most = f"at most {left}, the training images that are not held out"
        require((self.train_size or 0) <= left, "train_size", most, self.train_size)
        each = f"at most {left // self.outputs} ({left} training images of {self.outputs} classes)"
        fits = (self.samples_per_class or 0) * self.outputs <= left
        require(fits, "samples_per_class", each, self.samples_per_class)
        for name, count in (("val_size", available.validation), ("test_size", available.test)):
            size = getattr(self, name)
            require(not count or (size or 0) <= count, name, f"at most {count}, all that the set has", size)
        return self

    @property
    def decoded_bytes(self) -> int:
        channels, rows, columns = self.size
        return sum(self.image_counts) * channels * rows * columns

    @property
    def streamed(self) -> bool:
        """Whether the images are decoded for each batch, because all of them together are too large."""
        return self.decoded_bytes > RESIDENT_BYTES

    @property
    def decoded_name(self) -> str:
        """What the decoded images of these draws are called: by the draws, the set, and its revision."""
        unread = {"normalize", "balanced", "skill"}
        fields = {name: value for name, value in self.identity().items() if name not in unread}
        return digest([fields, self.fingerprint, self.REVISION, version("pillow"), version("numpy")])

    def root(self, folder: Path) -> Path:
        """Returns where the images lie; `folder`: that of all data."""
        return folder / self.FOLDER

    def missing(self, folder: Path) -> str:
        if self.root(folder).is_dir() or (folder / "decoded" / f"{self.decoded_name}.labels.npy").exists():
            return ""
        return self.must(folder)

    def must(self, folder: Path) -> str:
        """Returns what must be where, in a sentence."""
        return (
            f"data.kind {self.kind} needs its images, whole, in {self.root(folder)}: put them there, or use --download"
        )

    @property
    def metric(self) -> Metric:
        return "balanced_accuracy" if self.balanced else "accuracy"

    @property
    def frequent(self) -> Chances:
        """The share of the most frequent class of the images that are scored, by split."""
        return Chances(1 / self.outputs, 1 / self.outputs)

    @property
    def rarest(self) -> Chances:
        """The share of the rarest class of the images that are scored, by split."""
        return Chances(1 / self.outputs, 1 / self.outputs)

    @property
    def chances(self) -> Chances:
        return super().chances if self.balanced else self.frequent

    def step(self, split: SplitName) -> float:
        """Returns what one image can change of the metric; in a balanced accuracy the rarest class changes most.

        Few images hold few classes, and only these count: so many as there are images at most.
        """
        share, rarest = super().step(split), float(getattr(self.rarest, split))
        return min(share / rarest, 1.0) * max(share, 1 / self.outputs) if self.balanced else share

    @property
    def size(self) -> tuple[int, int, int]:
        return 3, self.image_size, self.image_size
