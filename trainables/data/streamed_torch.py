"""Images that are read and decoded for each batch, by processes beside the training.

For sets that do not fit into memory, and for augmentation that works on one image at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from trainables.data.splits_torch import Drawn
from trainables.spec import LocusError

WHITE = 255
AHEAD = 4
"""Batches that each process reads ahead."""


@dataclass(frozen=True)
class _Images(Dataset[Any]):
    """Decodes one image. An error is returned, for the loader would bury its sentence in a traceback."""

    pixels: Callable[[Drawn], NDArray[np.uint8]]

    def __getitem__(self, key: Drawn) -> Tensor | LocusError:
        try:
            return torch.from_numpy(np.ascontiguousarray(self.pixels(key)))
        except LocusError as error:
            return error


def _stacked(images: list[Tensor | LocusError]) -> Tensor | LocusError:
    wrong = next((image for image in images if isinstance(image, LocusError)), None)
    return wrong if wrong is not None else torch.stack([image for image in images if isinstance(image, Tensor)])


@dataclass
class StreamedSplit:
    """Images with their targets; `pixels` decodes one. `workers`: processes that decode, 0 for none but this one.

    Shapes: targets (N,) class indices; pixels (C, R, S) of bytes.
    """

    pixels: Callable[[Drawn], NDArray[np.uint8]]
    targets: Tensor
    workers: int = 0
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def __post_init__(self) -> None:
        self._keys: list[list[Drawn]] = []
        self._loader: DataLoader[Any] = DataLoader(
            _Images(self.pixels), batch_sampler=self._keys, num_workers=self.workers, collate_fn=_stacked,
            persistent_workers=self.workers > 0, prefetch_factor=AHEAD if self.workers else None,
            pin_memory=self.device.type == "cuda", generator=torch.Generator(),
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device | str) -> StreamedSplit:
        """The same images, brought to a device batch by batch."""
        return StreamedSplit(self.pixels, self.targets.to(device), self.workers, torch.device(device))

    def batches(
        self, numbers: Sequence[Tensor], dtype: torch.dtype, epoch: int = 0, copies: Sequence[Tensor] | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """The images of these numbers as floats, black 0 and white 1, with their targets, batch by batch.

        `epoch` and `copies` (how often an image came before in the epoch) are for augmentation.
        Raises: LocusError for an image that cannot be read.
        """
        of_copies = copies or [torch.zeros_like(chosen) for chosen in numbers]
        self._keys[:] = [
            [(epoch, *image) for image in zip(chosen.tolist(), copies.tolist(), strict=True)]
            for chosen, copies in zip(numbers, of_copies, strict=True)
        ]
        for chosen, images in zip(numbers, self._loader, strict=True):
            if isinstance(images, LocusError):
                raise images
            on_device = images.to(self.device, non_blocking=True)
            yield on_device.to(dtype).div_(WHITE), self.targets[chosen]
