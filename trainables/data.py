"""The one door to the data: `load(spec)` gives the three splits as tensors, whatever the kind.

Images stay bytes, a quarter of the memory of floats; a batch becomes numbers on the fly, where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.recipe import Digits, RedGreen

SPLITS: tuple[Literal["train"], Literal["validation"], Literal["test"]] = ("train", "validation", "test")


@dataclass(frozen=True)
class Split:
    """Images with their targets.

    Shapes: images (N, C, R, S) of bytes; targets (N,) class indices, or (N, 2) float64. Units: `peak` is white.
    """

    images: Tensor
    targets: Tensor
    peak: int

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device | str) -> Split:
        """The same split on a device."""
        return Split(self.images.to(device), self.targets.to(device), self.peak)

    def batch(self, chosen: Tensor | slice, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """The chosen images, black 0 and white 1, with their targets, as a model of this dtype takes them."""
        targets = self.targets[chosen]
        pixels = self.images[chosen].to(dtype).div_(self.peak)
        return pixels, targets.to(dtype) if targets.is_floating_point() else targets


@dataclass(frozen=True)
class Splits:
    """What a run learns from, what chooses, and what is looked at once."""

    train: Split
    validation: Split
    test: Split

    def to(self, device: torch.device | str) -> Splits:
        """The same splits on a device."""
        return Splits(self.train.to(device), self.validation.to(device), self.test.to(device))


def load(spec: RedGreen | Digits) -> Splits:
    """The splits of a data spec. Cost: 0.1 s for 7,000 red-green images of 32 x 32."""
    parts: Mapping[str, tuple[NDArray[np.uint8], NDArray[Any]]]
    if isinstance(spec, Digits):
        from trainables.digits import PEAK, digits  # scikit-learn takes a second to import

        parts, peak = digits(spec), PEAK
    else:
        from trainables.red_green import red_green

        parts, peak = {name: red_green(spec, name) for name in SPLITS}, 255
    tensors = [(torch.from_numpy(parts[name][0]), torch.from_numpy(parts[name][1])) for name in SPLITS]
    train, validation, test = (Split(images, targets, peak) for images, targets in tensors)
    return Splits(train, validation, test)
