"""Which files below a folder are images, of which split and class, which are not read, and what cannot be read."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
NAMES: dict[str, Split] = {
    "train": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "test": "test",
}
"""The names of a split's folder, in small or capital letters."""

OF_SYSTEMS = (
    "thumbs.db", "ehthumbs.db", "desktop.ini", "$recycle.bin", "system volume information", "__macosx", "lost+found",
    "@eadir", "@__thumb", "@recycle", "@tmp", "#recycle", "#snapshot", "__pycache__",
)  # fmt: skip
"""The files and folders that systems leave in a folder, beside hidden ones; nobody looks for them there."""


class Seen(NamedTuple):
    """What tells that a file was not changed. Units: times in nanoseconds."""

    size: int
    mtime: int
    ctime: int
    inode: int


class ImageFile(NamedTuple):
    """One image: its class, its path below the folder of its split, and its whole path."""

    label: str
    path: str
    at: str
    seen: Seen


class Flaw(NamedTuple):
    """A file or folder that cannot be read, and why."""

    at: str
    why: str


@dataclass
class Layout:
    """What lies in a folder. `unread`: files that are no images, and images of no class, by their paths in the folder.

    `others`: folders with images beside those of the splits.
    """

    root: str
    folders: dict[Split, list[str]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    classes: dict[Split, list[str]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    images: dict[Split, list[ImageFile]] = field(default_factory=lambda: {split: [] for split in SPLITS})
    unread: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    flaws: list[Flaw] = field(default_factory=list)

    @property
    def is_split(self) -> bool:
        """Whether some of the folder's images are named after a split; else its own folders are the classes."""
        return all(name.lower() in NAMES for name in self.folders["train"])

    @property
    def files(self) -> Iterator[ImageFile]:
        return chain.from_iterable(self.images.values())

    @property
    def size(self) -> int:
        """The size of all images. Units: bytes."""
        return sum(file.seen.size for file in self.files)


class _Entry(NamedTuple):
    name: str
    at: str
    status: os.stat_result

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def is_image(self) -> bool:
        return not self.is_folder and self.name.lower().endswith(EXTENSIONS)


Ids = frozenset[tuple[int, int]]
"""Which folders lie above one: their devices and inodes."""


def layout(root: str) -> Layout:
    """Returns what lies in a folder, hidden files left out and links followed. It raises no error: see `flaws`."""
    layout = Layout(root)
    real = Path(os.path.realpath(root))
    try:
        above = frozenset(_id(os.stat(folder)) for folder in (real, *real.parents))
    except OSError as error:
        layout.flaws.append(_flaw(root, error))
        return layout
    entries = _entries(root, layout.flaws)
    if (classes := _classes(root, entries, above)) is not None:
        classes.flaws[:0] = layout.flaws
        return classes
    for entry in entries:
        split = NAMES.get(entry.name.lower())
        if not entry.is_folder:
            layout.unread += [entry.name] * entry.is_image
        elif split is not None:
            layout.folders[split].append(entry.name)
            inside = _entries(entry.at, layout.flaws)
            _read_split(layout, split, entry.at, f"{entry.name}/", inside, above | {_id(entry.status)})
        elif any(file.is_image for file in _files(entry, above, [])):
            layout.others.append(entry.name)
    for flaw in [*layout.flaws]:
        folder, name = os.path.split(flaw.at)
        if folder == root and name.lower() not in NAMES:  # a broken link beside the splits is nobody's image
            layout.flaws.remove(flaw)
    return layout


def _classes(root: str, entries: list[_Entry], above: Ids) -> Layout | None:
    """Returns the images of a folder whose own folders are the classes; all are training images.

    It returns None if the folder, or one in it, is named after a split, or if an image lies deeper than in a class:
    folders that hold folders of images may be splits by any name.
    """
    folders = [entry.name for entry in entries if entry.is_folder]
    if any(name.lower() in NAMES for name in (os.path.basename(root), *folders)):
        return None
    layout = Layout(root)
    layout.folders["train"].append(os.path.basename(root))
    _read_split(layout, "train", root, "", entries, above)
    images = layout.images["train"]
    return layout if images and all(os.path.dirname(image.path) == image.label for image in images) else None


def _read_split(layout: Layout, split: Split, root: str, below: str, entries: list[_Entry], above: Ids) -> None:
    """Reads the classes of a split, whose folder is `root` and holds these entries; sorts its images by their paths."""
    for entry in entries:
        if not entry.is_folder:
            if entry.is_image:
                layout.unread.append(f"{below}{entry.name}")
            continue
        layout.classes[split].append(entry.name)
        for file in _files(entry, above, layout.flaws):
            path = file.at[len(root) + 1 :]
            if not file.is_image:
                layout.unread.append(f"{below}{path}")
            elif not stat.S_ISREG(file.status.st_mode):
                layout.flaws.append(Flaw(file.at, "it is no file"))  # to open a pipe would wait for ever
            else:
                layout.images[split].append(ImageFile(entry.name, path, file.at, seen(file.status)))
    layout.images[split].sort(key=lambda image: image.path)


def _files(folder: _Entry, above: Ids, flaws: list[Flaw]) -> Iterator[_Entry]:
    if _id(folder.status) in above:
        flaws.append(Flaw(folder.at, "it leads to a folder above it"))
        return
    for entry in _entries(folder.at, flaws):
        if entry.is_folder:
            yield from _files(entry, above | {_id(folder.status)}, flaws)
        else:
            yield entry


def _entries(folder: str, flaws: list[Flaw]) -> list[_Entry]:
    try:
        with os.scandir(folder) as listed:
            entries = sorted(listed, key=lambda entry: entry.name)
    except OSError as error:
        flaws.append(_flaw(folder, error))
        return []
    readable = []
    for entry in entries:
        if entry.name.startswith(".") or entry.name.lower() in OF_SYSTEMS:
            continue
        try:
            readable.append(_Entry(entry.name, entry.path, entry.stat()))
        except OSError as error:
            flaws.append(_flaw(entry.path, error))
    return readable


def _flaw(path: str, error: OSError) -> Flaw:
    if error.errno == errno.ENOENT and os.path.islink(path):
        return Flaw(path, f"a link to {os.readlink(path)}, which is not there")
    return Flaw(path, error.strerror or str(error))


def _id(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def seen(status: os.stat_result) -> Seen:
    """Returns what tells whether a file was changed since."""
    return Seen(status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino)


def shown(path: str) -> str:
    """Returns a path as a line can show it: what does not print is written as Python would."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in path)
