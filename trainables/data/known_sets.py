"""The known sets of photographs: CIFAR-10 and CIFAR-100, Oxford 102 Flower, Oxford-IIIT Pet and Tiny ImageNet.

A fingerprint is the published MD5 of the set's archive; Tiny ImageNet has none, and its images are counted.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainables.data.dataset import Chances, ImageCounts
from trainables.data.images import ImagesSpec

_SIDE = "a positive side in pixels"


class Cifar10(ImagesSpec):
    """Photographs of 32 x 32 pixels in 10 classes: 50,000 to train and 10,000 to test.

    Source: Krizhevsky 2009, Learning multiple layers of features from tiny images; read by torchvision. Differs: 5,000
    of the training images are held out for validation.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(50_000, 0, 10_000)
    FOLDER: ClassVar[str] = "cifar-10-batches-py"
    outputs: ClassVar[int] = 10
    fingerprint: ClassVar[str] = "c58f30108f718f92721af3b95e74349a"

    kind: Literal["cifar10"] = Field(default="cifar10", init=False)
    image_size: int = Field(default=32, gt=0, description=_SIDE)


class Cifar100(ImagesSpec):
    """Photographs of 32 x 32 pixels in 100 classes: 50,000 to train and 10,000 to test.

    Source: Krizhevsky 2009, Learning multiple layers of features from tiny images; read by torchvision. Differs: 5,000
    of the training images are held out for validation.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(50_000, 0, 10_000)
    FOLDER: ClassVar[str] = "cifar-100-python"
    outputs: ClassVar[int] = 100
    fingerprint: ClassVar[str] = "eb9058c3a382ffc7106e4002c42a8d85"

    kind: Literal["cifar100"] = Field(default="cifar100", init=False)
    image_size: int = Field(default=32, gt=0, description=_SIDE)


class Flowers102(ImagesSpec):
    """Photographs of flowers in 102 classes: 1,020 to train, 1,020 to validate and 6,149 to test.

    Source: Nilsback and Zisserman 2008, Automated flower classification over a large number of classes; read by
    torchvision. Differs: nothing.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(1020, 1020, 6149)
    FOLDER: ClassVar[str] = "flowers-102"
    outputs: ClassVar[int] = 102
    fingerprint: ClassVar[str] = "52808999861908f626f3c1f4e79d11fa"

    kind: Literal["flowers102"] = Field(default="flowers102", init=False)

    @property
    def frequent(self) -> Chances:
        """10 images of each class train and 10 validate; the others, 20 to 238 of a class, test."""
        return Chances(1 / 102, 238 / 6149)

    @property
    def rarest(self) -> Chances:
        return Chances(1 / 102, 20 / 6149)


class OxfordPets(ImagesSpec):
    """Photographs of cats and dogs of 37 breeds: 3,680 to train and 3,669 to test.

    Source: Parkhi et al. 2012, Cats and dogs; read by torchvision. Differs: 368 of the training images are held out for
    validation.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(3680, 0, 3669)
    FOLDER: ClassVar[str] = "oxford-iiit-pet"
    OWN: ClassVar[tuple[str, str, str]] = ("trainval", "", "test")
    outputs: ClassVar[int] = 37
    fingerprint: ClassVar[str] = "5c4f3ee8e5d25df40f4fd59a7f44e54c"

    kind: Literal["oxford_pets"] = Field(default="oxford_pets", init=False)


class TinyImageNet(ImagesSpec):
    """Photographs of 64 x 64 pixels in 200 classes: 100,000 to train and 10,000 to test.

    Source: Stanford's course CS231n, tiny-imagenet-200.zip. Differs: its `val` images are the test set, because those
    of its `test` have no labels; 10,000 of the training images are held out for validation.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(100_000, 0, 10_000)
    FOLDER: ClassVar[str] = "tiny-imagenet-200"
    OWN: ClassVar[tuple[str, str, str]] = ("train", "", "val")
    outputs: ClassVar[int] = 200
    fingerprint: ClassVar[str] = "tiny-imagenet-200"

    kind: Literal["tiny_imagenet"] = Field(default="tiny_imagenet", init=False)
    image_size: int = Field(default=64, gt=0, description=_SIDE)
