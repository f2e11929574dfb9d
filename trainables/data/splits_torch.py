"""Loads any data set: `load(spec, reading)` returns its three splits.

Images stay bytes, which need a quarter of the memory of floats; only a batch becomes floats, when it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from trainables.data import Data
from trainables.spec import LocusError

SPLITS: tuple[Literal["train"], Literal["validation"], Literal["test"]] = ("train", "validation", "test")


@dataclass(frozen=True)
class Split:
    """Images with their targets.

    Shapes: images (N, C, R, S) of bytes; targets (N,) class indices, or (N, 2) float64. Units: `max_value` is white.
    """

    images: Tensor
    targets: Tensor
    max_value: int

    def __len__(self) -> int:
        return len(self.images)

    def to(self, device: torch.device | str) -> Split:
        return Split(self.images.to(device), self.targets.to(device), self.max_value)

    def batches(
        self, numbers: Sequence[Tensor], dtype: torch.dtype, epoch: int = 0, copies: Sequence[Tensor] | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Returns the images of these numbers, batch by batch. `epoch`, `copies`: for streamed images."""
        return (self.batch(chosen, dtype) for chosen in numbers)

    def batch(self, chosen: Tensor | slice, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Returns the chosen images as floats of this type, black 0 and white 1, with their targets."""
        targets = self.targets[chosen]
        pixels = self.images[chosen].to(dtype).div_(self.max_value)
        return pixels, targets.to(dtype) if targets.is_floating_point() else targets


class Images(Protocol):
    """The images of a split, in memory (`Split`) or streamed (`trainables.data.streamed_torch`)."""

    @property
    def targets(self) -> Tensor: ...

    def __len__(self) -> int: ...

    def to(self, device: torch.device | str) -> Images: ...

    def batches(
        self, numbers: Sequence[Tensor], dtype: torch.dtype, epoch: int = 0, copies: Sequence[Tensor] | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]: ...


@dataclass(frozen=True)
class Splits:
    """The images that a run learns from, those by which runs are chosen, and those that are used once, at the end."""

    train: Images
    validation: Images
    test: Images

    def to(self, device: torch.device | str) -> Splits:
        return Splits(self.train.to(device), self.validation.to(device), self.test.to(device))


def download(spec: Data, folder: Path) -> None:
    """Fetches a known data set into the folder of all data. Raises: LocusError if it cannot be fetched."""
    module = import_module(f"{type(spec).__module__}_torch")
    if not hasattr(module, "download"):
        raise LocusError(f"data.kind must be that of a known set to be fetched, got {spec.kind!r}")
    try:
        module.download(spec, folder)
    except (OSError, RuntimeError) as error:
        raise LocusError(f"{spec.kind} could not be fetched: {error}") from None


Drawn = tuple[int, int, int]
"""One image of an epoch: the epoch, the number of the image, and how often it came before in this epoch."""
Change = Callable[[Any, Drawn, int], NDArray[np.uint8]]
"""Changes one image: the image, what was drawn, and the side of the result."""


@dataclass
class Workers:
    """The processes beside a run that decode images which are streamed, for all its splits; 0 for none but itself.

    They start with the first image that is asked for. Whoever makes this closes it, then they end.
    `pixels`: how the images of each split are decoded. `pool`: those processes, where they run.
    """

    count: int = 0
    pixels: list[Callable[[Drawn], NDArray[np.uint8]]] = field(default_factory=list)
    pool: Any = None

    def close(self) -> None:
        if self.pool is not None:
            self.pool.close()
        self.pool = None


@dataclass(frozen=True)
class Reading:
    """How images are read. `folder`: where known sets lie, and where decoded images are kept.

    `change`: changes each training image before it is part of a batch, where an augmentation does. `workers`: processes
    that decode images which are streamed. `seed`: of the run, which says which fold validates where seeds are folds.
    """

    folder: Path | None = None
    change: Change | None = None
    workers: Workers = field(default_factory=Workers)
    seed: int = 0


def load(spec: Data, reading: Reading | None = None) -> Splits:
    """Returns the splits of a data set, by the file `x_torch.py` beside the spec's file.

    That file has `load(spec, reading)`, or `arrays(spec)` and the value of white, `MAX_VALUE`.
    Raises: LocusError if the images are not there, or cannot be read.
    Cost: 0.1 s for 7,000 red-green images of 32 x 32.
    """
    module = import_module(f"{type(spec).__module__}_torch")
    if hasattr(module, "load"):
        splits: Splits = module.load(spec, reading or Reading())
        return splits
    parts: Mapping[str, tuple[NDArray[np.uint8], NDArray[Any]]] = module.arrays(spec)
    tensors = [(torch.from_numpy(parts[name][0]), torch.from_numpy(parts[name][1])) for name in SPLITS]
    train, validation, test = (Split(images, targets, module.MAX_VALUE) for images, targets in tensors)
    return Splits(train, validation, test)
