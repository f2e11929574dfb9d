"""What is learnt from: data by name, with the task, the splits and a fingerprint of the images."""

from __future__ import annotations

from typing import Annotated, Literal

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
    image: int = Field(default=32, gt=0, description="a positive side in pixels")
    square: int = Field(default=4, gt=0, description="a positive side in pixels")
    aligned: bool = Field(default=False, description="true (squares on a grid of their own size) or false")
    train: int = Field(default=5000, gt=0, description="a positive number of images")
    validation: int = Field(default=1000, gt=0, description="a positive number of images")
    test: int = Field(default=1000, gt=0, description="a positive number of images")
    draw: int = Field(default=0, ge=0, description="a seed from 0 on: which images are drawn")

    @model_validator(mode="after")
    def _fits(self) -> RedGreen:
        require(self.image >= 4 * self.square, "square", f"at most a quarter of the image ({self.image})", self.square)
        if self.aligned:
            require(self.image % self.square == 0, "square", f"a divisor of the image ({self.image})", self.square)
        if self.task == "direction":
            for name in ("validation", "test"):
                require(getattr(self, name) % 2 == 0, name, "even: images come in mirrored pairs", getattr(self, name))
        return self

    @property
    def outputs(self) -> int:
        """How many numbers the model's head has."""
        return 4 if self.task == "direction4" else 2

    @property
    def measure(self) -> Literal["accuracy", "r2"]:
        """What is reported: accuracy, or R^2 averaged over the two offsets."""
        return "r2" if self.task == "distance" else "accuracy"

    @property
    def chance(self) -> float:
        """The score of a model that has learnt nothing."""
        return 0.0 if self.measure == "r2" else 1 / self.outputs

    @property
    def size(self) -> tuple[int, int, int]:
        """Channels, rows and columns of an image, in pixels."""
        return 3, self.image, self.image

    @property
    def fingerprint(self) -> str:
        """What the images are, beyond this spec's own fields: the generator and its version."""
        return "red_green/1"


class Digits(Spec):
    """1,797 handwritten digits of 8 x 8 pixels, as they come with scikit-learn.

    Source: scikit-learn's `load_digits`. Differs: validation and test are drawn class-balanced; the rest is for
    training.
    """

    kind: Literal["digits"] = Field(default="digits", init=False)
    train: int = Field(default=1197, gt=0, description="a positive number of images")
    validation: int = Field(default=300, gt=0, description="a positive number of images")
    test: int = Field(default=300, gt=0, description="a positive number of images")
    draw: int = Field(default=0, ge=0, description="a seed from 0 on: which images go where")

    @model_validator(mode="after")
    def _fits(self) -> Digits:
        total = self.train + self.validation + self.test
        require(total <= 1797, "train", f"at most {1797 - self.validation - self.test} of the 1,797 digits", self.train)
        return self

    @property
    def outputs(self) -> int:
        return 10

    @property
    def measure(self) -> Literal["accuracy", "r2"]:
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


Data = Annotated[RedGreen | Digits, Field(discriminator="kind")]
