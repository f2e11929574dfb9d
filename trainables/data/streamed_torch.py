"""Images that are read and decoded for each batch, by processes beside the training.

For sets that do not fit into memory, and for augmentation that works on one image at a time. The processes start in any
way that Python has (fork, spawn, forkserver), so all that they get can be pickled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, get_worker_info

from trainables.data.splits_torch import Drawn, Workers
from trainables.spec import LocusError

WHITE = 255
AHEAD = 2
"""Parts of batches that each process reads ahead."""
PART = 64
"""Images that a process decodes at a time, at most."""
SHARED_BYTES = 256 * 2**20
"""Decoded images of a run that wait in the shared memory of its processes, at most."""
SHARED = Path("/dev/shm")
"""Where Linux has shared memory; containers often have 64 MiB of it."""
SHARE = 4
"""One part in so many of all shared memory is at most for one run, because other runs need theirs."""

Key = tuple[int, Drawn]
"""One image: the place of its split among those of the run, and what was drawn."""


@dataclass(frozen=True)
class _Images(Dataset[Any]):
    """Decodes one image. An error is returned, for the loader would bury its sentence in a traceback."""

    pixels: Sequence[Callable[[Drawn], NDArray[np.uint8]]]

    def __getitem__(self, key: Key) -> Tensor | LocusError:
        split, drawn = key
        try:
            return torch.from_numpy(np.ascontiguousarray(self.pixels[split](drawn)))
        except LocusError as error:
            return error


def _stacked(images: list[Tensor | LocusError]) -> Tensor | LocusError:
    """Returns the images of a part, in shared memory where another process made them.

    torch would share them in a thread of its own, where an error is printed, and the training waits without end.
    """
    error = next((image for image in images if isinstance(image, LocusError)), None)
    if error is not None:
        return error
    stacked = torch.stack([image for image in images if isinstance(image, Tensor)])
    if get_worker_info() is None:
        return stacked
    try:
        stacked.share_memory_()  # type: ignore[no-untyped-call]
    except RuntimeError as full:
        must = "room for images that are decoded (docker run --shm-size=1g, or fewer --loader-workers)"
        return LocusError(f"{SHARED} must have {must}, got: {str(full).partition(chr(10))[0]}")
    return stacked


def shared_bytes() -> int:
    """Returns the bytes of shared memory that one run may fill."""
    if not SHARED.is_dir():  # macOS keeps it elsewhere, without a bound
        return SHARED_BYTES
    shared = os.statvfs(SHARED)
    return min(SHARED_BYTES, shared.f_frsize * shared.f_blocks // SHARE)


def part_size(image_bytes: int, workers: int) -> int:
    """Returns how many images a process decodes at a time: all that wait fit into the shared memory of a run."""
    return max(1, min(PART, shared_bytes() // (max(workers, 1) * AHEAD * image_bytes)))


class _Pool:
    """The processes of a run, and torch's loader that asks them. Lists of keys, one a part, go in; parts come out."""

    def __init__(self, workers: Workers, pin_memory: bool) -> None:
        self.pixels = tuple(workers.pixels)
        self._parts: list[list[Key]] = []
        self._turn = 0
        self._loader: DataLoader[Any] = DataLoader(
            _Images(self.pixels), batch_sampler=self._parts, num_workers=workers.count, collate_fn=_stacked,
            persistent_workers=workers.count > 0, prefetch_factor=AHEAD if workers.count else None,
            pin_memory=pin_memory, generator=torch.Generator(),
        )  # fmt: skip

    def __call__(self, parts: list[list[Key]]) -> Iterator[Tensor | LocusError]:
        """Yields the images of each part, in order. Whoever asked before gets no more: there is one queue."""
        self._turn += 1
        turn = self._turn
        self._parts[:] = parts
        loaded = iter(self._loader)
        for _ in parts:
            assert turn == self._turn, "the images of one split must be taken before those of another are asked for"
            yield next(loaded)

    def close(self) -> None:
        """Ends the processes, also if an error still holds what was asked for."""
        iterator: Any = self._loader._iterator
        if iterator is not None:
            iterator._shutdown_workers()


@runtime_checkable
class OfBatches(Protocol):
    """What changes the images of a batch beside what it does to each before."""

    def batch(self, images: Tensor, drawn: Sequence[Drawn]) -> Tensor:
        """Returns the images, changed. Shapes: (B, C, R, S) of bytes to the same."""


@dataclass
class StreamedSplit:
    """Images with their targets; `pixels` decodes one, and `change` changes those of a batch, on their device.

    `workers`: processes that decode.
    Shapes: targets (N,) class indices; pixels (C, R, S) of bytes.
    """

    pixels: Callable[[Drawn], NDArray[np.uint8]]
    targets: Tensor
    workers: Workers = field(default_factory=Workers)
    change: OfBatches | None = None
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))

    def __post_init__(self) -> None:
        if self.pixels not in self.workers.pixels:
            self.workers.pixels.append(self.pixels)

    def __len__(self) -> int:
        return len(self.targets)

    def to(self, device: torch.device | str) -> StreamedSplit:
        """Returns the same images, brought to a device batch by batch."""
        return replace(self, targets=self.targets.to(device), device=torch.device(device))

    def batches(
        self, numbers: Sequence[Tensor], dtype: torch.dtype, epoch: int = 0, copies: Sequence[Tensor] | None = None
    ) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields the images of these numbers as floats, black 0 and white 1, with their targets, batch by batch.

        `epoch` and `copies` (how often an image came before in the epoch) are for augmentation.
        Raises: LocusError for an image that cannot be read.
        """
        copies = copies or [torch.zeros_like(chosen) for chosen in numbers]
        split = self.workers.pixels.index(self.pixels)
        keys: list[list[Key]] = [
            [(split, (epoch, *image)) for image in zip(chosen.tolist(), earlier.tolist(), strict=True)]
            for chosen, earlier in zip(numbers, copies, strict=True)
        ]
        first = next((key for batch in keys for key in batch), None)
        if first is None:
            return
        size = part_size(self.pixels(first[1]).nbytes, self.workers.count)
        pool: _Pool | None = self.workers.pool
        if pool is None or len(pool.pixels) != len(self.workers.pixels):  # they do not know this split: begin again
            self.workers.close()
            pool = self.workers.pool = _Pool(self.workers, self.device.type == "cuda")
        images = pool([batch[start : start + size] for batch in keys for start in range(0, len(batch), size)])
        for chosen, batch_keys in zip(numbers, keys, strict=True):
            batch = self._batch(images, len(chosen))
            if self.change is not None:
                batch = self.change.batch(batch, [drawn for _, drawn in batch_keys])
            yield batch.to(dtype).div_(WHITE), self.targets[chosen]

    def _batch(self, images: Iterator[Tensor | LocusError], count: int) -> Tensor:
        """Returns so many of the next images on the device; each part is copied as it comes, and leaves shared memory.

        Raises: LocusError if a part is one.
        """
        batch: Tensor | None = None
        filled = 0
        while batch is None or filled < count:
            part = next(images)
            if isinstance(part, LocusError):
                raise part
            if batch is None:
                batch = torch.empty((count, *part.shape[1:]), dtype=part.dtype, device=self.device)
            batch[filled : filled + len(part)].copy_(part, non_blocking=True)
            filled += len(part)
        return batch
