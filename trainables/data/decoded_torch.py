"""Decoded images, in a file that all runs of a machine map into memory: decoded once, and shared.

When new ones are written and all together take more than `MOST_BYTES`, those go that were read longest ago. A run that
has mapped them reads on; another one decodes them again.
"""

from __future__ import annotations

import errno
import os
import re
import shutil
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout
from numpy.lib.format import open_memmap
from numpy.typing import NDArray

from trainables.cgroup import cores
from trainables.spec import LocusError
from trainables.whole_files import rename_durably

MOST_BYTES = 20 * 2**30
"""How many bytes all decoded images of a folder take, but for those that a run has begun to read since `RECENT_S`."""
RECENT_S = 7 * 24 * 3600
OWN = re.compile(r"([0-9a-f]{16})(\.labels\.npy|\.npy|\.tmp)")
"""The names of the files of decoded images. The last is there while they are written, or where that was cut off."""
SUBMITTED = 4096
"""Images that wait for a thread, at most."""

Arrays = tuple[NDArray[np.uint8], NDArray[np.int64]]
"""Decoded images and their labels. Shapes: (N, C, R, S) of bytes, (N,)."""


def kept(folder: Path, name: str) -> Arrays | None:
    """Returns the decoded images of a name, mapped into memory; None if there are none yet, or a part of them."""
    images, labels = _files(folder, name)
    try:
        arrays = np.load(images, mmap_mode="c"), np.load(labels)  # torch refuses arrays that cannot be written
    except (FileNotFoundError, EOFError, ValueError):  # the last two: a file is empty or cut off
        return None
    with suppress(OSError):
        os.utime(labels)
    return arrays


def has_room(folder: Path, name: str, count: int) -> bool:
    """Returns whether the decoded images of a name are there, or half of the free disk holds them. Units: bytes."""
    if _files(folder, name)[1].exists():
        return True
    existing = next(path for path in (folder, *folder.parents) if path.exists())
    return shutil.disk_usage(existing).free >= 2 * count


def stored(folder: Path, name: str, number: int) -> NDArray[np.uint8]:
    """Returns one of the decoded images of a name, read from its file. Shapes: (C, R, S)."""
    return np.array(_mapped(_files(folder, name)[0])[number])


@lru_cache(maxsize=8)
def _mapped(file: Path) -> NDArray[np.uint8]:
    images: NDArray[np.uint8] = np.load(file, mmap_mode="r")
    return images


def decode(
    folder: Path | None,
    name: str,
    size: tuple[int, int, int],
    labels: NDArray[np.int64],
    pixels: Callable[[int], NDArray[np.uint8]],
) -> Arrays:
    """Decodes all images, or waits for the run that does; in memory alone if there is no folder.

    `pixels`: decodes one image by its number, called in several threads. The files are written whole or not at all.
    Raises: LocusError if the disk is full; what `pixels` raises.
    """
    shape = (len(labels), *size)
    if folder is None:
        images = np.empty(shape, np.uint8)
        _fill(images, pixels)
        return images, labels
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / f"{name}.lock"):
        if (arrays := kept(folder, name)) is not None:
            return arrays
        image_file, label_file = _files(folder, name)
        draft = image_file.with_suffix(".tmp")
        try:
            mapped = _reserved(draft, shape)
            _fill(mapped, pixels)
            mapped.flush()
            rename_durably(draft, image_file)
            with draft.open("wb") as file:
                np.save(file, labels)
            rename_durably(draft, label_file)  # last: where it is, the images are
        finally:
            draft.unlink(missing_ok=True)
        arrays = kept(folder, name)
        assert arrays is not None, "both files were written"
        _remove_unread(folder)
        return arrays


def _files(folder: Path, name: str) -> tuple[Path, Path]:
    return folder / f"{name}.npy", folder / f"{name}.labels.npy"


def _remove_unread(folder: Path) -> None:
    """Removes the decoded images that were read longest ago, until the others take no more than `MOST_BYTES`.

    Those that a run writes now are locked and stay.
    """
    sets, recent = defaultdict(list), time.time() - RECENT_S
    for path in folder.iterdir():
        if matched := OWN.fullmatch(path.name):
            with suppress(FileNotFoundError):
                sets[matched[1]].append((path.stat(), path))
    read = {name: max(status.st_mtime for status, _ in files) for name, files in sets.items()}
    size = {name: sum(status.st_size for status, _ in files) for name, files in sets.items()}
    over = sum(size.values()) - MOST_BYTES
    for name in sorted(read, key=lambda name: read[name]):
        if over <= 0 or read[name] > recent:
            return
        with suppress(Timeout, OSError), FileLock(folder / f"{name}.lock", timeout=0):
            for path in sorted(path for _, path in sets[name]):  # the labels first: where they are, the images are
                path.unlink()
            over -= size[name]


def _fill(images: NDArray[np.uint8], pixels: Callable[[int], NDArray[np.uint8]]) -> None:
    """Decodes in threads, because Pillow decodes without Python's lock; the first error ends it."""
    pool = ThreadPoolExecutor(cores())
    try:
        for first in range(0, len(images), SUBMITTED):
            numbers = range(first, min(first + SUBMITTED, len(images)))
            for number, image in zip(numbers, pool.map(pixels, numbers), strict=True):
                images[number] = image
    finally:
        pool.shutdown(cancel_futures=True)


def _reserved(path: Path, shape: tuple[int, ...]) -> np.memmap[Any, np.dtype[np.uint8]]:
    """Returns a new file of images, mapped into memory, with all its bytes on the disk.

    Otherwise a full disk would be a crash when memory is written, and no error.
    Raises: LocusError if the disk is full.
    """
    try:
        images: np.memmap[Any, np.dtype[np.uint8]] = open_memmap(path, mode="w+", dtype=np.uint8, shape=shape)
        if hasattr(os, "posix_fallocate"):  # macOS has none
            with path.open("r+b") as file:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        must = f"{np.prod(shape) / 2**30:.1f} GiB free for decoded images"
        raise LocusError(f"the disk of {path.parent} must have {must}, got: {error.strerror}") from None
    return images
