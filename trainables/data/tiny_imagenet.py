"""Tiny ImageNet: photographs of 64 x 64 pixels in 200 classes of ImageNet."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainables.data.dataset import ImageCounts
from trainables.data.images import ImagesSpec


class TinyImageNet(ImagesSpec):
    """Photographs of 64 x 64 pixels in 200 classes: 100,000 to train and 10,000 to test.

    Source: Stanford's course CS231n, tiny-imagenet-200.zip. Differs: its `val` images are the test set, because those
    of its `test` have no labels; 10,000 of the training images are held out for validation.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(100_000, 0, 10_000)
    FOLDER: ClassVar[str] = "tiny-imagenet-200"
    OWN: ClassVar[tuple[str, str, str]] = ("train", "", "val")

    kind: Literal["tiny_imagenet"] = Field(default="tiny_imagenet", init=False)
    image_size: int = Field(default=64, gt=0, description="a positive side in pixels")

    @property
    def outputs(self) -> int:
        return 200

    @property
    def fingerprint(self) -> str:
        """The set has no published checksum; its images are counted before they are used."""
        return "tiny-imagenet-200"
