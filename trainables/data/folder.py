"""A folder of images in the ImageFolder layout: a folder a split, in it a folder a class. ImageNet lies so, too."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median_low
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from trainables.data.dataset import Chances, ImageCounts
from trainables.data.folder_contents import Content, contents
from trainables.data.folder_files import NAMES, SPLITS, ImageFile, Layout, Split, layout, shown
from trainables.data.images import Described, ImagesSpec
from trainables.sentence import look_alikes, near_path
from trainables.spec import WHERE, FilePath, absolute, require

READ_BYTES = 4 * 2**30
"""Folders of up to so many bytes are known by what their files hold, larger ones by names, sizes and times."""

FOLDER = "a folder with images in <class>/ or train/<class>/"
"""What a path must name."""
MOST, MOST_CLASSES = 3, 10
"""How many files or endings a sentence names, and how many classes."""


def scan(root: str) -> tuple[Layout, dict[str, Content]]:
    """Returns what lies in a folder, and what its images hold; they are not read where they are too large together.

    Raises: an error as `require` raises for a layout that is not that of ImageFolder, or a file that is no image.
    Cost: see `contents`; 10 us for a file whose content is known.
    """
    tree = layout(root)
    for must, got in mistakes(tree):
        raise _refused(must, got)
    held = contents(root, tree.files) if tree.size <= READ_BYTES else {}
    if damaged := [shown(f"{path}: {image.flaw}") for path, image in held.items() if image.flaw]:
        more = f" (locus doctor --data lists all {len(damaged)})" if len(damaged) > 1 else ""
        raise _refused("a folder of images that can be read", f"{damaged[0]}{more}")
    return tree, held


def no_folder(root: str) -> str:
    """Returns a path of something else than a folder in a sentence; if it holds arrays, with what to do."""
    arrays = root.lower().endswith((".npy", ".npz"))
    how = " (np.savez(path, images=images, labels=labels) writes what --data FILE.npz reads)" if arrays else ""
    return f"{shown(root)}{how or ('' if os.path.exists(root) else near_path(Path(root)))}"


def _refused(must: str, got: str) -> PydanticCustomError:
    """Returns the error that `require` raises; `got` stands in full, because a path that is cut helps nobody."""
    context = {"path": "path", "must": must, "got": got}
    return PydanticCustomError("require", "{path} must be {must}, got {got}", context)


def mistakes(tree: Layout) -> Iterator[tuple[str, str]]:
    """Yields what must be so and is not, and what is so instead: why a folder cannot be read as ImageFolder."""
    for flaw in tree.flaws:
        yield "a folder of which all can be read", shown(f"{flaw.at}: {flaw.why}")
    for folders in tree.folders.values():
        if len(folders) > 1:
            yield "a folder with one folder a split", shown(" and ".join(folders))
    train = tree.images["train"]
    if not train:
        names, more = ", ".join(tree.others[:MOST]), ", ..." * (len(tree.others) > MOST)
        how = f" (call {names}{more} train, val or test, or let each hold the images of one class)" if names else ""
        empty = [name for split in SPLITS for name in tree.folders[split] if not tree.classes[split]]
        if flat := [name for name in empty if any(path.startswith(f"{name}/") for path in tree.unread)]:
            how = f" (the images in {flat[0]}/ are of no class; if it is a class, put all classes into a folder train/)"
        if os.path.basename(tree.root).lower() in NAMES:
            how = " (name the folder above it, or call this one otherwise)"
        yield FOLDER, shown(f"{tree.root}{how}")
        return
    classes = sorted({file.label for file in train})
    for names in look_alikes(sorted({file.label for file in tree.files})):
        yield "a folder whose classes have names that differ to the eye", names
    if len(classes) < 2:
        yield shown(f"a folder with two classes or more in {tree.folders['train'][0]}/"), shown(f"{classes[0]} alone")
    for split in SPLITS:
        labels = {file.label for file in tree.images[split]}
        for name in tree.folders[split]:
            for label in sorted({*classes, *tree.classes[split]} - labels):
                yield shown(f"a folder with images in {name}/{label}"), "none there"
            for label in sorted(labels - {*classes}):
                yield shown(f"a folder without classes that train/ has not, such as {name}/{label}"), f"{name}/{label}"
    if tree.others:
        must = "a folder without folders of images that are not read (splits are train, val or valid, test)"
        yield must, shown(", ".join(tree.others))


def content(tree: Layout, held: Mapping[str, Content]) -> dict[str, Any]:
    """Returns what a folder holds: its digest, its classes, their names, and how many images each of its splits has.

    The digest is of the paths and contents of all images; if they are too large together, of paths, sizes and times.
    What a split's folder is called is no part of it.
    """
    text = hashlib.sha256()
    for split in SPLITS:
        for file in tree.images[split]:
            value = held[file.at].digest if held else f"{file.seen.size} {file.seen.mtime}"
            text.update(os.fsencode(f"{split}/{file.path}\0{value}\0"))
    scored = [tree.images[split] or tree.images["train"] for split in SPLITS[1:]]
    names = sorted({file.label for file in tree.images["train"]})
    return {
        "digest": text.hexdigest()[:16],
        "classes": len(names),
        "names": [shown(name) for name in names],
        "images": [len(tree.images[split]) for split in SPLITS],
        "most": [max(_class_shares(images)) for images in scored],
        "least": [min(_class_shares(images)) for images in scored],
    }


def sources(images: Sequence[int], val_from: str | None = None) -> tuple[Split, Split, Split]:
    """Returns the splits of a folder that the images to train, to validate and to test come from.

    `images`: how many there are in `train`, `val` and `test`. A split that nothing is named after is part of another
    one: of `train`, or of what `val_from` says.
    """
    _, val, test = map(bool, images)
    if val and test:
        return "train", "val", "test"
    if val:
        return ("train", "train", "val") if val_from == "train" else ("train", "val", "train")
    return "train", "test" if val_from == "test" else "train", "test" if test else "train"


def _class_shares(images: list[ImageFile]) -> list[float]:
    return [count / len(images) for count in Counter(file.label for file in images).values()]


Shares = tuple[float, float] | None


class Folder(ImagesSpec):
    """Images in the ImageFolder layout: `<path>/train/<class>/...`, and the same in `val` and `test`.

    If nothing in the folder is named after a split, its own folders are the classes, and all images are those of
    `train`. `val` may be called `valid`, `validation` or `dev`, and all of them in capitals. The images of `val`
    validate and those of `test` test; what is missing is held out of the training images, where `val_from` says nothing
    else: "train" makes `val` the test set, as in ImageNet, where the labels of the test images are not published;
    "test" lets half of the images of `test` validate. `digest`, `classes`, `images` (in `train`, `val` and `test`) and
    `most` and `least` (the shares of the most frequent and of the rarest class in `val` and in `test`, or in `train`
    where there is none; without them classes count as even) and `names` are read from the folder where they are not
    given; where the folder lies is no part of a run's key. Images become RGB of 8 bits
    (`trainables.data.upright_rgb`): gray of 16 bits is divided by 257, transparent pixels become white, and photographs
    are turned as their EXIF data say.
    Source: torchvision's ImageFolder. Differs: classes are known by the folders of `train`; other splits must have the
    same.
    """

    READ: ClassVar[tuple[str, ...]] = ("digest", "classes", "images", "most", "least", "names")

    kind: Literal["folder"] = Field(default="folder", init=False)
    path: FilePath = Field(default="", min_length=1, validate_default=True, description=f"the path of {FOLDER}")
    digest: str = Field(
        default="",
        pattern="^[0-9a-f]{16}$",
        validate_default=True,
        description="the 16 hex digits of a folder's digest",
    )
    classes: int = Field(default=0, gt=0, validate_default=True, description="a positive number of classes")
    images: tuple[int, int, int] = Field(
        default=(0, 0, 0), strict=False, description="the numbers of images in train, val and test"
    )
    most: Annotated[Shares, WHERE] = Field(
        default=None, strict=False, description="the shares of the most frequent class in val and in test, or null"
    )
    least: Annotated[Shares, WHERE] = Field(
        default=None, strict=False, description="the shares of the rarest class in val and in test, or null"
    )
    names: Annotated[tuple[str, ...], WHERE] = Field(
        default=(), strict=False, description="the names of the classes, in the order of a model's outputs"
    )
    val_from: Literal["train", "test"] | None = Field(
        default=None, description="'train' or 'test', of which a part validates where val or test is missing, or null"
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

    @model_validator(mode="after")
    def _validates(self) -> Folder:
        """`val_from` decides where a split is missing, and names what is there."""
        _, val, test = map(bool, self.images)
        legal = {None, "train"} if not test else {None} if val else {None, "train", "test"}
        must = "null where there are val/ and test/" if val and test else "train or null where there is no test/"
        require(self.val_from in legal, "val_from", must, self.val_from)
        return self

    def identity(self) -> Any:
        """Returns the identity without a `val_from` that changes nothing."""
        fields = super().identity()
        if self.sources == sources(self.images):
            fields.pop("val_from", None)
        return fields

    @property
    def sources(self) -> tuple[Split, Split, Split]:
        """The splits of the folder that the images to train, to validate and to test come from."""
        return sources(self.images, self.val_from)

    def root(self, folder: Path) -> Path:
        return Path(self.path)

    def must(self, folder: Path) -> str:
        return f"data.path must name a folder with the digest {self.digest}, got no folder in {self.path}"

    def described(self) -> Described:
        """Returns which folders the images come from, and what a reader should know of them. It looks at the folder."""
        try:
            tree, held = scan(self.path)
        except PydanticCustomError:  # it is gone, or has changed: a run says so
            return super().described()
        if wrong := self.wrong_counts(tree):
            return super().described()._replace(remarks=(f"runs will fail: {wrong}",))
        names = {split: f"{tree.folders[split][0]}/" for split in SPLITS if tree.folders[split]}
        train, validates, tests = (names[split] for split in self.sources)
        validation = f"held out of {validates}" if validates in (train, tests) else f"of {validates}"
        test = f"held out of {tests}" if tests == train else f"of {tests}"
        remarks = []
        if {*names} == {"train", "val"} and self.val_from is None:
            remarks.append(
                f"there is no test/: data.val_from=train makes {names['val']} the test set, as in ImageNet; then "
                "data.folds=5 validates on train/ in turn"
            )
        if {*names} == {"train", "test"} and self.val_from is None and not self.folds:
            remarks.append(f"there is no val/: data.val_from=test lets half of {names['test']} validate")
        return self._with_folds(Described(train, validation, test, (*remarks, *_remarks(tree, held))))

    def wrong_counts(self, tree: Layout) -> str:
        """Returns what is wrong if a folder has other numbers of images than this spec says, else nothing.

        A spec from before `val` without `test` was the validation set says that the images of `val` test.
        """
        counts = tuple(len(tree.images[split]) for split in SPLITS)
        if counts == self.images:
            return ""
        must = f"{[*counts]}, the numbers in train, val and test of {shown(self.path)}"
        return f"data.images must be {must}, got {[*self.images]}; name the study with its values again"

    @property
    def natural_side(self) -> int:
        """The median of the images' shorter sides; the default where they are too large together to be read."""
        try:
            _, held = scan(self.path)
        except PydanticCustomError:  # it is gone, or has changed: a run says so
            return super().natural_side
        return median_low(image.side for image in held.values()) if held else super().natural_side

    @property
    def available(self) -> ImageCounts:
        train, val, test = self.images
        match self.sources[1:]:
            case "test", "test":
                return ImageCounts(train, test // 2, test - test // 2)
            case "train", "val":
                return ImageCounts(train, 0, val)
        return ImageCounts(train, val, test)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def frequent(self) -> Chances:
        return super().frequent if self.most is None else self._of_scored(self.most)

    @property
    def rarest(self) -> Chances:
        return super().rarest if self.least is None else self._of_scored(self.least)

    def _of_scored(self, shares: tuple[float, float]) -> Chances:
        """Returns the shares of the images that validate and of those that test, from those of `val` and of `test`.

        If a folder is missing, its share is that of `train`.
        """
        match self.sources[1:]:
            case "test", "test":
                return Chances(shares[1], shares[1])
            case "train", "val":
                return Chances(shares[1], shares[0])
        return Chances(*shares)

    @property
    def fingerprint(self) -> str:
        return self.digest


def _remarks(tree: Layout, held: Mapping[str, Content]) -> Iterator[str]:
    """Yields what a reader should know of a folder: what is not read, and what becomes of images of unusual kinds."""
    if not tree.is_split:
        names = sorted(tree.classes["train"])
        first = ", ".join(names[:MOST_CLASSES]) + ", ..." * (len(names) > MOST_CLASSES)
        yield shown(f"no folder is named train, val or test, so each folder is a class: {first}")
    if tree.unread:
        yield unread(tree)
    if alpha := sum(image.has_alpha for image in held.values()):
        yield f"{_images(alpha)} can have transparent pixels, which become white"
    if deep := sum(image.is_deep for image in held.values()):
        yield f"{_images(deep)} of 16 bits gray, scaled to 8 bits"
    if several := sum(image.pages for image in held.values()):
        yield f"{_images(several)} of several pages or frames, of which the first counts"
    yield from _copies(tree, held)
    if not held:
        yield (
            f"{shown(tree.root)} holds more than {READ_BYTES / 2**30:.3g} GiB: its images are known by name, size and "
            f"time of change, and what they hold is not looked at (locus doctor --data reads them all)"
        )


def _copies(tree: Layout, held: Mapping[str, Content]) -> Iterator[str]:
    """Yields how many files are copies of others, and of which that matters most: labels, then splits."""
    alike: dict[str, list[tuple[str, ImageFile]]] = {}
    for split in SPLITS if held else ():
        for file in tree.images[split]:
            alike.setdefault(held[file.at].digest, []).append((split, file))

    def apart(key: Callable[[str, ImageFile], str]) -> list[list[str]]:
        """Returns one path for each key, of images that have several."""
        firsts = [{key(*copy): copy[1].at for copy in reversed(group)} for group in alike.values()]
        return [[*first.values()][::-1] for first in firsts if len(first) > 1]

    of_classes, of_splits = apart(lambda _, file: file.label), apart(lambda split, _: split)
    others = [] if of_classes or of_splits else apart(lambda _, file: file.at)
    for groups, copies in (
        (of_classes, "found in more than one class"),
        (of_splits, "found in more than one split (scores of images that were trained say little)"),
        (others, "found more than once (one may be trained, and another scored)"),
    ):
        if groups:
            pair = " and ".join(os.path.relpath(path, tree.root) for path in groups[0][:2])
            yield shown(f"{_images(len(groups))} {copies}, such as {pair}")


def unread(tree: Layout) -> str:
    """Returns which files are not read, in a sentence: images of no class, and what is no image, by ending."""
    kinds = Counter(os.path.splitext(path)[1].lower() or "no ending" for path in tree.unread)
    endings = ", ".join(f"{count:,} of {ending}" for ending, count in kinds.most_common(MOST))
    more = ", ..." if len(kinds) > MOST else ""
    are = "file is" if len(tree.unread) == 1 else "files are"
    first = os.path.join(tree.root, tree.unread[0])
    return shown(f"{len(tree.unread):,} {are} not read: {endings}{more}, such as {first}")


def _images(count: int) -> str:
    return "1 image" if count == 1 else f"{count:,} images"
