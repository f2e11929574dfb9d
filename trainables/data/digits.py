"""Handwritten digits of 8 x 8 pixels, as they come with scikit-learn."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trainables.data.dataset import DatasetSpec, Metric
from trainables.spec import require

TOTAL, CLASSES = 1797, 10


class Digits(DatasetSpec):
    """1,797 handwritten digits of 8 x 8 pixels, as they come with scikit-learn.

    Source: scikit-learn's `load_digits`. Differs: train, validation and test are drawn at random, each with the same
    share of every class; images that no split asks for are left out.
    """

    outputs: ClassVar[int] = CLASSES
    metric: ClassVar[Metric] = "accuracy"
    size: ClassVar[tuple[int, int, int]] = (1, 8, 8)
    fingerprint: ClassVar[str] = "65e5b4619795efb40c1082f4c350c049e4ad552200d369b6ae99e21eef5e72c5"
    """The SHA-256 of the images and labels; a test compares it with the installed set."""

    kind: Literal["digits"] = Field(default="digits", init=False)
    train_size: int = Field(default=1197, gt=0, description="a positive number of images")
    val_size: int = Field(default=300, gt=0, description="a positive number of images")
    test_size: int = Field(default=300, gt=0, description="a positive number of images")
    data_seed: int = Field(default=0, ge=0, description="a seed from 0 on: which images go where")

    @model_validator(mode="after")
    def _fits(self) -> Digits:
        """A class-balanced draw needs an image of each class in every split, and in what is left out."""
        for name in ("train_size", "val_size", "test_size"):
            size = getattr(self, name)
            require(size >= CLASSES, name, f"at least {CLASSES}, an image of each class", size)
        most = TOTAL - self.val_size - self.test_size
        require(self.train_size <= most, "train_size", f"at most {most} of the 1,797 digits", self.train_size)
        rest = most - self.train_size
        must = f"{most}, or at most {most - CLASSES}: the digits left out need an image of each class"
        require(rest == 0 or rest >= CLASSES, "train_size", must, self.train_size)
        return self
