"""The thesis' tasks: one red and one green square, and a question about where they lie."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from trainables.spec import Spec, require


class RedGreen(Spec):
    """One red and one green square on black, generated on the fly.

    Tasks: `direction` (green left or right of red), `direction4` (left / right x above / below), `distance` (column and
    row offset), `absolute` (both squares in the upper or the lower half). Squares never overlap.
    Units: sizes in pixels. Source: thesis 4 and 5.1. Differs: sizes, which the thesis leaves open.
    """

    kind: Literal["red_green"] = Field(default="red_green", init=False)
    task: Literal["direction", "direction4", "distance", "absolute"] = Field(
        default="direction", description="one of direction, direction4, distance, absolute"
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
        require(
            self.image_size >= 4 * self.square,
            "square",
            f"at most a quarter of the image ({self.image_size})",
            self.square,
        )
        if self.aligned:
            require(
                self.image_size % self.square == 0, "square", f"a divisor of the image ({self.image_size})", self.square
            )
        if self.task == "direction":
            for name in ("val_size", "test_size"):
                require(getattr(self, name) % 2 == 0, name, "even: images come in mirrored pairs", getattr(self, name))
        return self

    @property
    def outputs(self) -> int:
        """How many numbers the model's head has."""
        return 4 if self.task == "direction4" else 2

    @property
    def metric(self) -> Literal["accuracy", "r2"]:
        """What is reported: accuracy, or R^2 averaged over the two offsets."""
        return "r2" if self.task == "distance" else "accuracy"

    @property
    def chance(self) -> float:
        """The score of a model that has learnt nothing."""
        return 0.0 if self.metric == "r2" else 1 / self.outputs

    @property
    def size(self) -> tuple[int, int, int]:
        """Channels, rows and columns of an image, in pixels."""
        return 3, self.image_size, self.image_size

    @property
    def fingerprint(self) -> str:
        """What the images are, beyond this spec's own fields: the generator and its version."""
        return "red_green/1"
