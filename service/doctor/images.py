"""Examines a folder of images: reads each image once, as a run would, and finds all that a run would refuse."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

from search_spaces.words import plural
from service.doctor.finding import Finding
from trainables.data.folder import FOLDER, mistakes, no_folder, sources, unread
from trainables.data.folder_files import SPLITS, ImageFile, Layout, layout, shown
from trainables.spec import LocusError, absolute

AHEAD = 1024
"""Images that wait for a thread, at most."""
MEND = "replace it, or remove it"
HOW = "see 'Arrays, and images that you make' in docs/images.md"


def examine_images(path: str, progress: Callable[[int, int], None]) -> Iterator[Finding]:
    """What is found in a folder of images, one finding a damaged or refused file.

    `progress` is told how many images of how many were read. Nothing is written.
    """
    root = absolute(path)
    if not os.path.isdir(root):
        yield Finding("folder", "wrong", f"the path must be {FOLDER}, got {no_folder(root)}", HOW)
        return
    found = layout(root)
    yield from _splits(found)
    for flaw in found.flaws:
        yield Finding("file", "wrong", shown(f"{flaw.at}: {flaw.why}"), MEND)
    for must, got in list(mistakes(found))[len(found.flaws) :]:
        yield Finding("layout", "wrong", f"the path must be {must}, got {got}", HOW)
    if found.unread:
        yield Finding("files", "look", unread(found), "convert what should be read to png or jpg")
    images = [*found.files]
    damaged = 0
    for number, why in enumerate(_flaws(images), 1):
        if why:
            damaged += 1
            yield Finding("image", "wrong", shown(why), MEND)
        progress(number, len(images))
    if images and not damaged:
        yield Finding("images", "ok", f"{plural(len(images), 'image')}, each of which can be read")


def _splits(found: Layout) -> Iterator[Finding]:
    """How many images of how many classes each split has, and which split of a run it becomes."""
    used = sources([len(found.images[split]) for split in SPLITS])
    for own, split, use in zip(SPLITS, used, ("to train", "to validate", "to test"), strict=True):
        if split != own:
            yield Finding(use, "ok", f"held out of {split}/")
        elif images := found.images[split]:
            count = len({file.label for file in images})
            classes = "1 class" if count == 1 else f"{count:,} classes"
            folders = shown(" and ".join(f"{name}/" for name in found.folders[split]))
            yield Finding(use, "ok", f"{plural(len(images), 'image')} of {classes} ({folders})")


def _flaws(images: list[ImageFile]) -> Iterator[str]:
    """Why each image cannot be read, empty where it can; read in threads, for Pillow decodes without Python's lock."""
    from PIL import Image

    from trainables.data.rgb import opened

    def flaw(file: ImageFile) -> str:
        try:
            opened(file.at, partial(Image.open, file.at)).close()
        except LocusError as error:
            return str(error)
        return ""

    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        for first in range(0, len(images), AHEAD):
            yield from pool.map(flaw, images[first : first + AHEAD])
    finally:
        pool.shutdown(cancel_futures=True)
