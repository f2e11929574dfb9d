"""The one door to the data: `load(spec)` gives the three splits as tensors, whatever the kind.

Images stay bytes, a quarter of the memory of floats; a batch becomes numbers on the fly, where it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.data import Data

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


def load(spec: Data) -> Splits:
    """The splits of a data set, which `arrays(spec)` of the file `x_torch.py` beside the spec's gives.

    Cost: 0.1 s for 7,000 red-green images of 32 x 32.
    """
    module = import_module(f"{type(spec).__module__}_torch")
    parts: Mapping[str, tuple[NDArray[np.uint8], NDArray[Any]]] = module.arrays(spec)
    tensors = [(torch.from_numpy(parts[name][0]), torch.from_numpy(parts[name][1])) for name in SPLITS]
    train, validation, test = (Split(images, targets, module.PEAK) for images, targets in tensors)
    return Splits(train, validation, test)
