"""Oxford-IIIT Pet: photographs of cats and dogs of 37 breeds."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainables.data.dataset import ImageCounts
from trainables.data.images import ImagesSpec


class OxfordPets(ImagesSpec):
    """Photographs of cats and dogs of 37 breeds: 3,680 to train and 3,669 to test.

    Source: Parkhi et al. 2012, Cats and dogs; read by torchvision. Differs: 368 of the training images are held out for
    validation.
    """

    AVAILABLE: ClassVar[ImageCounts] = ImageCounts(3680, 0, 3669)
    FOLDER: ClassVar[str] = "oxford-iiit-pet"
    OWN: ClassVar[tuple[str, str, str]] = ("trainval", "", "test")

    kind: Literal["oxford_pets"] = Field(default="oxford_pets", init=False)

    @property
    def outputs(self) -> int:
        return 37

    @property
    def fingerprint(self) -> str:
        """The published MD5 of images.tar.gz."""
        return "5c4f3ee8e5d25df40f4fd59a7f44e54c"
