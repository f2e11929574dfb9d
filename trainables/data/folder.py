"""A folder of images in the ImageFolder layout: a folder a split, in it a folder a class. ImageNet lies so, too."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from trainables.data.dataset import Chances, ImageCounts
from trainables.data.folder_contents import Content, contents
from trainables.data.folder_files import SPLITS, ImageFile, Layout, Split, layout, shown
from trainables.data.images import Described, ImagesSpec
from trainables.spec import WHERE, FilePath, absolute

READ_BYTES = 4 * 2**30
"""Folders of up to so many bytes are known by what their files hold, larger ones by names, sizes and times."""

FOLDER = "a folder with images in train/<class>/"
"""What a path must name."""
MOST = 3
"""How many files or endings a sentence names."""


def scan(root: str) -> tuple[Layout, dict[str, Content]]:
    """What lies in a folder, and what its images hold; they are not read where they are too large together.

    Raises: an error as `require` raises for a layout that is not that of ImageFolder, or a file that is no image.
    Cost: see `contents`; 10 us for a file whose content is known.
    """
    found = layout(root)
    for must, got in mistakes(found):
        raise _refused(must, got)
    held = contents(root, found.files) if is_read(found) else {}
    if wrong := [shown(f"{at}: {one.flaw}") for at, one in held.items() if one.flaw]:
        more = f" (locus doctor --data lists all {len(wrong)})" if len(wrong) > 1 else ""
        raise _refused("a folder of images that can be read", f"{wrong[0]}{more}")
    return found, held


def is_read(found: Layout) -> bool:
    """Whether a folder is known by what its files hold."""
    return found.size <= READ_BYTES


def no_folder(root: str) -> str:
    """A path of something else than a folder in a sentence; where it holds arrays, with what to do."""
    arrays = root.lower().endswith((".npy", ".npz"))
    how = " (arrays are read by a class in a study file: see 'Your own images' in README.md)" if arrays else ""
    return f"{shown(root)}{how}"


def _refused(must: str, got: str) -> PydanticCustomError:
    """As `require` raises; `got` stands in full, because a path that is cut helps nobody."""
    context = {"path": "path", "must": must, "got": got}
    return PydanticCustomError("require", "{path} must be {must}, got {got}", context)


def mistakes(found: Layout) -> Iterator[tuple[str, str]]:
    """What must be so and is not, and what is there: why a folder cannot be read as ImageFolder."""
    for flaw in found.flaws:
        yield "a folder of which all can be read", shown(f"{flaw.at}: {flaw.why}")
    for folders in found.folders.values():
        if len(folders) > 1:
            yield "a folder with one folder a split", shown(" and ".join(folders))
    train = found.images["train"]
    if not train:
        yield FOLDER, shown(found.root)
        return
    classes = sorted({file.label for file in train})
    if len(classes) < 2:
        yield "a folder with two classes or more in train/", shown(f"{classes[0]} alone")
    for split in SPLITS:
        for name in found.folders[split]:
            yield from _wrong_classes(name, classes, found.classes[split], found.images[split])
    if found.others:
        must = "a folder without folders of images that are not read (splits are train, val or valid, test)"
        yield must, shown(", ".join(found.others))


def _wrong_classes(
    folder: str, classes: list[str], there: list[str], images: list[ImageFile]
) -> Iterator[tuple[str, str]]:
    """Each class has images in each split, and a split has no class that is not trained."""
    have = {file.label for file in images}
    for name in sorted({*classes, *there} - have):
        yield shown(f"a folder with images in {folder}/{name}"), "none there"
    for name in sorted(have - {*classes}):
        yield shown(f"a folder without classes that train/ has not, such as {folder}/{name}"), f"{folder}/{name}"


def content(found: Layout, held: Mapping[str, Content]) -> dict[str, Any]:
    """What a folder holds: its digest, its classes, and what is to validate and to test.

    The digest is of the paths and contents of all images; where they are too large together, of paths, sizes and times.
    What a split's folder is called is no part of it. A folder `val` without a folder `test` is the test set, as in
    ImageNet, where the labels of the test images are not published.
    """
    text = hashlib.sha256()
    for split in SPLITS:
        for file in found.images[split]:
            what = held[file.at].digest if held else f"{file.seen.size} {file.seen.mtime}"
            text.update(os.fsencode(f"{split}/{file.path}\0{what}\0"))
    splits = held_by(found)
    return {
        "digest": text.hexdigest()[:16],
        "classes": len({file.label for file in found.images["train"]}),
        "images": [len(found.images[split]) if split else 0 for split in splits],
        "most": [max(_shares(found.images[split or "train"])) for split in splits[1:]],
        "least": [min(_shares(found.images[split or "train"])) for split in splits[1:]],
    }


def held_by(found: Layout) -> tuple[Split, Split | None, Split | None]:
    """The splits of a folder whose images are to train, to validate and to test; None for what is held out of train."""
    has_val, has_test = bool(found.images["val"]), bool(found.images["test"])
    return "train", "val" if has_val and has_test else None, "test" if has_test else "val" if has_val else None


def _shares(images: list[ImageFile]) -> list[float]:
    """The share of each class."""
    return [count / len(images) for count in Counter(file.label for file in images).values()]


Shares = tuple[float, float] | None
_PATH = "the path of a folder with images in train/<class>/"


class Folder(ImagesSpec):
    """Images in the ImageFolder layout: `<path>/train/<class>/...`, and the same in `val` and `test`.

    `val` may be called `valid`, `validation` or `dev`, and all of them in capitals. Without `test`, the images of `val`
    are the test set, as in ImageNet; what is missing is held out of the training images. `digest`, `classes`, `images`
    (to train, validate and test) and `most` and `least` (the shares of the most frequent and of the rarest class, among
    the images to validate and to test; without them classes count as even) are read from the folder where they are not
    given; where the folder lies is no part of a run's key. Images become RGB of 8 bits (`trainables.data.rgb`): gray of
    16 bits is divided by 257, transparent pixels become white, and photographs are turned as their EXIF data say.
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
    most: Annotated[Shares, WHERE] = Field(
        default=None,
        strict=False,
        description="the shares of the most frequent class among the images to validate and to test, or null",
    )
    least: Annotated[Shares, WHERE] = Field(
        default=None,
        strict=False,
        description="the shares of the rarest class among the images to validate and to test, or null",
    )

    @model_validator(mode="before")
    @classmethod
    def _scan(cls, value: Any) -> Any:
        if not isinstance(value, dict) or value.get("digest") or not isinstance(value.get("path"), str):
            return value
        root = absolute(value["path"])
        if not os.path.isdir(root):
            raise _refused(FOLDER, no_folder(root))
        return {**value, **content(*scan(root))}

    def root(self, folder: Path) -> Path:
        return Path(self.path)

    def must(self, folder: Path) -> str:
        return f"data.path must name a folder with the digest {self.digest}, got no folder in {self.path}"

    def described(self) -> Described:
        """Which folders the images come from, and what a reader should know of them, by a look at the folder."""
        try:
            found, held = scan(self.path)
        except PydanticCustomError:  # it is gone, or has changed: a run says so
            return super().described()
        names = [found.folders[split][0] if split else "" for split in held_by(found)]
        train, validation, test = (f"{name}/" if name else f"held out of {names[0]}/" for name in names)
        return Described(train, validation, test, tuple(_remarks(found, held)))

    @property
    def natural_side(self) -> int:
        """The median of the images' shorter sides; the default where they are too large together to be read."""
        try:
            _, held = scan(self.path)
        except PydanticCustomError:  # it is gone, or has changed: a run says so
            return super().natural_side
        return median_low(one.side for one in held.values()) if held else super().natural_side

    @property
    def available(self) -> ImageCounts:
        return ImageCounts(*self.images)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def frequent(self) -> Chances:
        return super().frequent if self.most is None else Chances(*self.most)

    @property
    def rarest(self) -> Chances:
        return super().rarest if self.least is None else Chances(*self.least)

    @property
    def fingerprint(self) -> str:
        return self.digest


def _remarks(found: Layout, held: Mapping[str, Content]) -> Iterator[str]:
    """What a reader should know of a folder: what is not read, and what becomes of images of unusual kinds."""
    if found.unread:
        yield unread(found)
    if alpha := sum(one.has_alpha for one in held.values()):
        yield f"{_images(alpha)} can have transparent pixels, which become white"
    if deep := sum(one.is_deep for one in held.values()):
        yield f"{_images(deep)} of 16 bits gray, scaled to 8 bits"
    if not held:
        yield (
            f"{shown(found.root)} holds more than {READ_BYTES / 2**30:.3g} GiB: its images are known by name, size and "
            f"time of change, and what they hold is not looked at (locus doctor --data reads them all)"
        )


def unread(found: Layout) -> str:
    """Which files are not read, in a sentence: images of no class, and what is no image, by ending."""
    kinds = Counter(os.path.splitext(path)[1].lower() or "no ending" for path in found.unread)
    some = ", ".join(f"{count:,} of {ending}" for ending, count in kinds.most_common(MOST))
    more = ", ..." if len(kinds) > MOST else ""
    are = "file is" if len(found.unread) == 1 else "files are"
    first = os.path.join(found.root, found.unread[0])
    return shown(f"{len(found.unread):,} {are} not read: {some}{more}, such as {first}")


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count:,} images"
