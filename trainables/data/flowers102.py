"""Oxford 102 Flower: photographs of flowers in 102 classes."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainables.data.dataset import Chances, ImageCounts
from trainables.data.images import ImagesSpec


class Flowers102(ImagesSpec):
    """Photographs of flowers in 102 classes: 1,020 to train, 1,020 to validate and 6,149 to test.

    Source: Nilsback and Zisserman 2008, Automated flower classification over a large number of classes; read by
    torchvision. Differs: nothing.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(1020, 1020, 6149)
    FOLDER: ClassVar[str] = "flowers-102"

    kind: Literal["flowers102"] = Field(default="flowers102", init=False)

    @property
    def outputs(self) -> int:
        return 102

    @property
    def frequent(self) -> Chances:
        """10 images of each class train and 10 validate; the others, 20 to 238 of a class, test."""
        return Chances(1 / 102, 238 / 6149)

    @property
    def rarest(self) -> Chances:
        return Chances(1 / 102, 20 / 6149)

    @property
    def fingerprint(self) -> str:
        """The published MD5 of 102flowers.tgz."""
        return "52808999861908f626f3c1f4e79d11fa"
