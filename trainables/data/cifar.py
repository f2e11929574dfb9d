"""CIFAR-10 and CIFAR-100: 60,000 photographs of 32 x 32 pixels."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainables.data.dataset import ImageCounts
from trainables.data.images import ImagesSpec

_SIDE = "a positive side in pixels"


class Cifar10(ImagesSpec):
    """Photographs of 32 x 32 pixels in 10 classes: 50,000 to train and 10,000 to test.

    Source: Krizhevsky 2009, Learning multiple layers of features from tiny images; read by torchvision. Differs: 5,000
    of the training images are held out for validation.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(50_000, 0, 10_000)
    FOLDER: ClassVar[str] = "cifar-10-batches-py"

    kind: Literal["cifar10"] = Field(default="cifar10", init=False)
    image_size: int = Field(default=32, gt=0, description=_SIDE)

    @property
    def outputs(self) -> int:
        return 10

    @property
    def fingerprint(self) -> str:
        """The published MD5 of cifar-10-python.tar.gz."""
        return "c58f30108f718f92721af3b95e74349a"


class Cifar100(ImagesSpec):
    """Photographs of 32 x 32 pixels in 100 classes: 50,000 to train and 10,000 to test.

    Source: Krizhevsky 2009, Learning multiple layers of features from tiny images; read by torchvision. Differs: 5,000
    of the training images are held out for validation.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(50_000, 0, 10_000)
    FOLDER: ClassVar[str] = "cifar-100-python"

    kind: Literal["cifar100"] = Field(default="cifar100", init=False)
    image_size: int = Field(default=32, gt=0, description=_SIDE)

    @property
    def outputs(self) -> int:
        return 100

    @property
    def fingerprint(self) -> str:
        """The published MD5 of cifar-100-python.tar.gz."""
        return "eb9058c3a382ffc7106e4002c42a8d85"
