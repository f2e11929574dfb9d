"""The thesis' tasks: one red and one green square, and a question about where they lie."""

from __future__ import annotations

from math import ceil
from typing import ClassVar, Literal

from pydantic import Field, model_validator

from trainables.data.dataset import DatasetSpec, Metric
from trainables.spec import require


class RedGreen(DatasetSpec):
    """One red and one green square on black, generated when a run starts.

    Tasks: `direction` (green left or right of red), `direction4` (left / right x above / below), `distance` (column and
    row offset), `absolute` (both squares in the upper or the lower half), `color_shift` (`absolute`, with a blue and a
    yellow square in the test images alone). Squares never overlap. No image of validation or test is in another split,
    nor, for `direction`, is its mirror image; for `color_shift` the same holds for the places of the squares.
    Units: sizes in pixels. Source: thesis 4 and 5.1. Differs: sizes and the colors of the test images, which the thesis
    leaves open; images of validation have the colors of training.
    """

    fingerprint: ClassVar[str] = "red_green/2"
    """The generator and its version."""

    kind: Literal["red_green"] = Field(default="red_green", init=False)
    task: Literal["direction", "direction4", "distance", "absolute", "color_shift"] = Field(
        default="direction", description="one of direction, direction4, distance, absolute, color_shift"
    )
    image_size: int = Field(default=32, gt=0, description="a positive side in pixels")
    square: int = Field(default=4, gt=0, description="a positive side in pixels")
    aligned: bool = Field(default=False, description="true (squares on a grid of their own size) or false")
    train_size: int = Field(default=5000, gt=0, description="a positive number of images")
    val_size: int = Field(default=1000, gt=0, description="a positive number of images")
    test_size: int = Field(default=1000, gt=0, description="a positive number of images")
    data_seed: int = Field(default=0, ge=0, description="a seed from 0 on: which images are drawn")

    @model_validator(mode="after")
    def _fits(self) -> RedGreen:
        """Images of validation and test must be new, so there must be as many different images as the splits need."""
        quarter = f"at most a quarter of the image ({self.image_size})"
        require(self.image_size >= 4 * self.square, "square", quarter, self.square)
        divisor = f"a divisor of the image ({self.image_size})"
        require(not self.aligned or self.image_size % self.square == 0, "square", divisor, self.square)
        for name in ("val_size", "test_size"):
            size = getattr(self, name)
            require(self.task != "direction" or size % 2 == 0, name, "even: images come in mirrored pairs", size)
            require(
                self.task != "distance" or size > 1, name, "2 or more, because R^2 of one image is not defined", size
            )
        count, needed = self.distinct, sum(map(self._draws, ("train_size", "val_size", "test_size")))
        must = f"such that the splits share no image (a class has {count:,} different ones, the splits need {needed:,})"
        require(needed <= count, "train_size", must, self.train_size)
        return self

    def _draws(self, name: str) -> int:
        """Returns how many different images of a class a split needs at most; a mirrored pair counts once."""
        size: int = getattr(self, name)
        if self.task == "direction":
            return size if name == "train_size" else size // 2
        return ceil(size / self.classes)

    @property
    def classes(self) -> int:
        """How many classes the images fall into; 1 if the targets are numbers."""
        return 1 if self.task == "distance" else self.outputs

    @property
    def halves(self) -> bool:
        """Whether the question is in which half of the image both squares lie."""
        return self.task in ("absolute", "color_shift")

    @property
    def places(self) -> tuple[int, int]:
        """How many rows and columns a square can lie at; if halves are asked for, in the upper half alone."""
        step = self.square if self.aligned else 1
        height = self.image_size // 2 if self.halves else self.image_size
        return (height - self.square) // step + 1, (self.image_size - self.square) // step + 1

    @property
    def distinct(self) -> int:
        """How many different images of a class there are; for `direction` mirrored pairs, one image of each class."""
        (rows, near_rows), (columns, near_columns) = ((count, self._near(count)) for count in self.places)
        pairs = rows**2 * columns**2 - near_rows * near_columns
        if self.task == "direction":  # without pairs in one column
            return (rows**2 * (columns**2 - columns) - near_rows * (near_columns - columns)) // 2
        if self.task == "direction4":  # without pairs in one row or one column
            apart = (rows**2 - rows) * (columns**2 - columns)
            return (apart - (near_rows - rows) * (near_columns - columns)) // 4
        return pairs

    def _near(self, count: int) -> int:
        """Counts ordered pairs of places on one axis at which two squares overlap along it, equal places included."""
        reach = 0 if self.aligned else min(self.square, count) - 1
        return count + 2 * sum(count - offset for offset in range(1, reach + 1))

    @property
    def label(self) -> str:
        return self.task

    @property
    def outputs(self) -> int:
        return 4 if self.task == "direction4" else 2

    @property
    def metric(self) -> Metric:
        """Accuracy, or R^2 averaged over the two offsets."""
        return "r2" if self.task == "distance" else "accuracy"

    @property
    def size(self) -> tuple[int, int, int]:
        return 3, self.image_size, self.image_size

    def fit_patch(self, side: int) -> None:
        """Requires aligned squares to fill whole patches: in a patch that shows two squares no position is needed."""
        must = f"a multiple of the patch's side ({side}) where data.aligned is true, so that no patch shows two squares"
        require(not self.aligned or self.square % side == 0, "data.square", must, self.square)
