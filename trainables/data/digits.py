"""Handwritten digits of 8 x 8 pixels, as they come with scikit-learn."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from trainables.spec import Spec, require


class Digits(Spec):
    """1,797 handwritten digits of 8 x 8 pixels, as they come with scikit-learn.

    Source: scikit-learn's `load_digits`. Differs: validation and test are drawn class-balanced; the rest is for
    training.
    """

    kind: Literal["digits"] = Field(default="digits", init=False)
    train_size: int = Field(default=1197, gt=0, description="a positive number of images")
    val_size: int = Field(default=300, gt=0, description="a positive number of images")
    test_size: int = Field(default=300, gt=0, description="a positive number of images")
    data_seed: int = Field(default=0, ge=0, description="a seed from 0 on: which images go where")

    @model_validator(mode="after")
    def _fits(self) -> Digits:
        total = self.train_size + self.val_size + self.test_size
        require(
            total <= 1797,
            "train_size",
            f"at most {1797 - self.val_size - self.test_size} of the 1,797 digits",
            self.train_size,
        )
        return self

    @property
    def outputs(self) -> int:
        return 10

    @property
    def metric(self) -> Literal["accuracy", "r2"]:
        return "accuracy"

    @property
    def chance(self) -> float:
        return 0.1

    @property
    def size(self) -> tuple[int, int, int]:
        return 1, 8, 8

    @property
    def fingerprint(self) -> str:
        """The SHA-256 of the images and labels (a test holds it against the installed set)."""
        return "65e5b4619795efb40c1082f4c350c049e4ad552200d369b6ae99e21eef5e72c5"
