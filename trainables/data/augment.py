"""How training images are changed at random, as numbers and timm's own strings.

What is drawn for an image depends on the run's seed, the epoch and the image alone, so neither the number of workers
nor a resumed run changes it.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field, model_validator

from trainables.spec import Spec, require

Share = Annotated[float, Field(ge=0, le=1)]

RAND = r"^rand(-(m\d+|n\d+|p(0(\.\d+)?|1(\.0)?)|mstd\d+(\.\d+)?|mmax[1-9]\d*|inc[01]|t(weights|3a|3aw)))*$"
"""What timm's `rand_augment_transform` understands; parts that it would ignore in silence are refused."""


class NoAugment(Spec):
    """Images as they are."""

    soft: ClassVar[bool] = False

    kind: Literal["none"] = Field(default="none", init=False)


class Standard(Spec):
    """A random crop of the image with a black border, and a random flip from left to right, as usual for CIFAR.

    Units: `border` in pixels; `flip` is a probability. Source: He et al. 2016, section 4.2. Differs: nothing.
    """

    soft: ClassVar[bool] = False

    kind: Literal["standard"] = Field(default="standard", init=False)
    border: int = Field(default=4, ge=0, description="a width in pixels, 0 or more")
    flip: Share = Field(default=0.5, description="a probability")


class Mixing(Spec):
    """Fields of the augmentations that change images one by one, then mix two images with their labels.

    `scale`: the smallest share of the image's area that is cropped. `color_jitter`: by which share brightness, contrast
    and saturation change at most. `mixup`, `cutmix`: parameters of the Beta distributions; 0 turns one off.
    `smoothing`: of the labels. `repeats`: how often an image is drawn in a row of an epoch, in which fewer images then
    take part.
    """

    kind: str
    scale: float = Field(default=0.08, gt=0, le=1, description="a share of the area in (0, 1]")
    flip: Share = Field(default=0.5, description="a probability")
    color_jitter: Share = Field(default=0.0, description="a share in [0, 1]")
    mixup: float = Field(default=0.8, ge=0, description="the parameter of a Beta distribution, 0 or more")
    cutmix: float = Field(default=1.0, ge=0, description="the parameter of a Beta distribution, 0 or more")
    smoothing: float = Field(default=0.1, ge=0, lt=1, description="a share of the label in [0, 1)")
    repeats: int = Field(default=3, ge=1, description="a number of repeats, 1 or more")

    @property
    def mixes(self) -> bool:
        return self.mixup > 0 or self.cutmix > 0

    @property
    def soft(self) -> bool:
        """Whether targets become a probability of each class."""
        return self.mixes or self.smoothing > 0


class DeiT(Mixing):
    """A random part of the image, RandAugment, erasing, and mixing of two images with their labels.

    `rand`: timm's string for RandAugment, or null. `erase`: the probability that a rectangle becomes noise.
    Source: DeiT, table 9; timm draws what is done to an image, and `deit_torch` does it. Differs: erasing is done in
    bytes, so its noise is cut at black and white, and all images of an epoch take theirs from one picture; turned and
    shifted images are sampled with torch's bicubic kernel; with an odd number of images one of them is mixed with
    itself.
    """

    kind: Literal["deit"] = Field(default="deit", init=False)
    rand: str | None = Field(
        default="rand-m9-mstd0.5-inc1",
        pattern=RAND,
        description="timm's string of a RandAugment such as rand-m9-n2-p0.5-mstd0.5-mmax10-inc1-tweights, or null",
    )
    erase: Share = Field(default=0.25, description="a probability")

    @model_validator(mode="after")
    def _one_of_both(self) -> DeiT:
        must = "0 where rand is given, beside which timm changes no colors"
        require(self.color_jitter == 0 or self.rand is None, "color_jitter", must, self.color_jitter)
        return self


class ThreeAugment(Mixing):
    """A random part of the image, one of three changes, color jitter, and mixing of two images with their labels.

    The three, each as likely: gray; solarized (what is brighter than the middle is inverted); blurred by a Gaussian of
    0.1 to 2 pixels.
    Source: DeiT III 3.3, 3-Augment, and its code (augment.py). Differs: the blur is a Gaussian, where Pillow comes near
    one with boxes; with an odd number of images one of them is mixed with itself.
    """

    kind: Literal["three_augment"] = Field(default="three_augment", init=False)
    color_jitter: Share = Field(default=0.3, description="a share in [0, 1]")
    smoothing: float = Field(default=0.0, ge=0, lt=1, description="a share of the label in [0, 1)")


Augment = Annotated[NoAugment | Standard | DeiT | ThreeAugment, Field(discriminator="kind")]
"""Any augmentation, chosen by its kind."""
