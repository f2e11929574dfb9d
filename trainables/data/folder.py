"""A folder of images in the ImageFolder layout: a folder a split, in it a folder a class. ImageNet lies so, too."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import Field, model_validator

from trainables.data.dataset import ImageCounts
from trainables.data.images import ImagesSpec
from trainables.spec import FilePath, absolute, require

EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".ppm", ".pgm", ".tif", ".tiff", ".webp")
SPLITS = ("train", "val", "test")


class ImageFile(NamedTuple):
    """One image: its class, and its path below the folder of its split."""

    label: str
    path: str
    size: int


def image_files(root: Path, split: str) -> list[ImageFile]:
    """The images of a split, sorted by path; none where there is no such split. Units: `size` in bytes."""
    folder = root / split
    classes = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir()) if folder.is_dir() else []
    found = [file for name in classes for file in _files(folder / name, name, name)]
    return sorted(found, key=lambda file: file.path)


def _files(folder: Path, label: str, path: str) -> Iterator[ImageFile]:
    for entry in os.scandir(folder):
        here = f"{path}/{entry.name}"
        if entry.is_dir():
            yield from _files(Path(entry.path), label, here)
        elif entry.name.lower().endswith(EXTENSIONS):
            yield ImageFile(label, here, entry.stat().st_size)


def content(root: Path) -> dict[str, Any]:
    """What a folder holds: its digest, its classes, and how many images each split has.

    The digest is of the sorted paths and sizes of all images. A folder `val` without a folder `test` is the test set,
    as in ImageNet, where the labels of the test images are not published.
    Raises: an error of `require` for a layout that is not that of ImageFolder.
    """
    splits = {split: image_files(root, split) for split in SPLITS}
    require(bool(splits["train"]), "path", "a folder with images in train/<class>/", str(root))
    classes = sorted({file.label for file in splits["train"]})
    require(len(classes) > 1, "path", "a folder with two classes or more in train/", f"{classes[0]} alone")
    for split in SPLITS:
        if (root / split).is_dir():
            _check_classes(root / split, classes, {file.label for file in splits[split]})
    text = "\n".join(f"{split}/{file.path} {file.size}" for split in SPLITS for file in splits[split])
    train, val, test = (len(splits[split]) for split in SPLITS)
    images = [train, val if test else 0, test or val]
    return {"digest": hashlib.sha256(text.encode()).hexdigest()[:16], "classes": len(classes), "images": images}


def _check_classes(folder: Path, classes: list[str], found: set[str]) -> None:
    """Each class has images in each split, and a split has no class that is not trained."""
    there = {entry.name for entry in os.scandir(folder) if entry.is_dir()}
    empty, unknown = sorted({*classes, *there} - found), sorted(found - {*classes})
    require(not empty, "path", f"a folder with images in {folder.name}/{empty[0] if empty else ''}", "none there")
    must = f"a folder without classes that train/ has not, such as {folder.name}/{unknown[0] if unknown else ''}"
    require(not unknown, "path", must, str(folder.parent))


_PATH = "the path of a folder with images in train/<class>/"


class Folder(ImagesSpec):
    """Images in the ImageFolder layout: `<path>/train/<class>/...`, and the same in `val` and `test`.

    Without `test`, the images of `val` are the test set, as in ImageNet; what is missing is held out of the training
    images. `digest`, `classes` and `images` (to train, validate and test) are read from the folder where they are not
    given; where the folder lies is no part of a run's key. Gray and CMYK images become RGB.
    Source: torchvision's ImageFolder. Differs: classes are known by the folders of `train`; other splits must have the
    same.
    """

    kind: Literal["folder"] = Field(default="folder", init=False)
    path: FilePath = Field(default="", min_length=1, validate_default=True, description=_PATH)
    digest: str = Field(
        default="",
        pattern="^[0-9a-f]{16}$",
        validate_default=True,
        description="the 16 hex digits of a folder's digest",
    )
    classes: int = Field(default=0, gt=0, validate_default=True, description="a positive number of classes")
    images: tuple[int, int, int] = Field(
        default=(0, 0, 0), strict=False, description="the numbers of images to train, validate and test"
    )

    @model_validator(mode="before")
    @classmethod
    def _scan(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("digest") or not isinstance(value.get("path"), str):
            return value
        root = Path(absolute(value["path"]))
        require(root.is_dir(), "path", "a folder with images in train/<class>/", value["path"])
        return {**value, **content(root)}

    def root(self, folder: Path) -> Path:
        return Path(self.path)

    def must(self, folder: Path) -> str:
        return f"data.path must name a folder with the digest {self.digest}, got no folder in {self.path}"

    @property
    def available(self) -> ImageCounts:
        return ImageCounts(*self.images)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def fingerprint(self) -> str:
        return self.digest
