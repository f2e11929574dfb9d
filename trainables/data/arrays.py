"""Images that are arrays: a file of numpy with `images` and `labels`."""

from __future__ import annotations

import hashlib
import zipfile
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from trainables.data.dataset import Chances, ImageCounts
from trainables.data.images import ImagesSpec
from trainables.spec import WHERE, FilePath, SpecError, absolute

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

NAMES = ("images", "labels")
"""What the arrays of a file are called."""


def checked(images: Any, labels: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns images and labels as they are kept.

    Shapes: images (N, H, W), (N, H, W, C) or (N, C, H, W), returned as (N, H, W, C) with 1 or 3 channels; labels (N,).
    Raises: SpecError for other types, shapes and labels.
    """
    import numpy as np

    pixels, targets = np.asarray(images), np.asarray(labels)
    if pixels.dtype != np.uint8:
        ways = {"f": "where white is 1, (images * 255).round().astype('uint8')", "b": "images.astype('uint8') * 255"}
        how = ways.get(pixels.dtype.kind, "images.astype('uint8')")
        if pixels.dtype == np.uint16:
            how = "where white is 65535, (images / 257).round().astype('uint8')"
        raise SpecError(f"images must be of type uint8, black 0 and white 255, got {pixels.dtype}; {how} makes them so")
    if pixels.ndim == 3 and pixels.size:
        pixels = pixels[..., None]
    else:
        shape = pixels.shape
        first, last = (pixels.ndim == 4 and pixels.size > 0 and shape[axis] in (1, 3) for axis in (1, 3))
        if first and last:
            raise SpecError(f"images must be of a shape that says where channels are, got {shape}: axis 1 or axis 3?")
        if not (first or last):
            must = "(N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3"
            raise SpecError(f"images must be of shape {must}, got {shape}")
        pixels = pixels.transpose(0, 2, 3, 1) if first else pixels
    if targets.dtype.kind not in "iu" or targets.shape != pixels.shape[:1]:
        got = f"{targets.dtype} of shape {targets.shape}"
        raise SpecError(f"labels must be {len(pixels)} integers, one for each image, got {got}")
    classes = np.unique(targets)
    if len(classes) < 2 or classes.tolist() != [*range(len(classes))]:
        got = ", ".join(map(str, classes[:3])) + (", ..." if len(classes) > 3 else "")
        raise SpecError(f"labels must be 0, 1 and so on, each with images, two classes or more, got {got or 'none'}")
    return np.ascontiguousarray(pixels), targets.astype(np.int64)


def read(path: str) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns the arrays of a file. Raises: SpecError if it is none, or its arrays cannot be used."""
    import numpy as np

    must = "an .npz file with arrays images and labels, as np.savez(path, images=images, labels=labels) writes it"
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            names = list(getattr(file, "files", []))
            arrays = [file[name] for name in NAMES] if {*NAMES} <= {*names} else None
    except (OSError, ValueError, EOFError, TypeError, zipfile.BadZipFile, zlib.error) as error:
        why = "no file" if isinstance(error, FileNotFoundError) else " ".join(str(error).split())
        raise SpecError(f"data.path must be {must}, got {path} ({why})") from None
    if arrays is None:
        raise SpecError(f"data.path must be {must}, got {path} with {', '.join(names) or 'none'}")
    try:
        return checked(*arrays)
    except SpecError as error:
        raise SpecError(f"{path}: {error}") from None


def digest_of(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> str:
    """Returns the first digits of the SHA-256 of checked images and labels."""
    text = hashlib.sha256(f"{images.shape}\n".encode())
    text.update(images.data)
    text.update(labels.astype("<i8").data)
    return text.hexdigest()[:16]


def content(images: NDArray[np.uint8], labels: NDArray[np.int64]) -> dict[str, Any]:
    """Returns what a spec says of checked images and labels."""
    counts = Counter(labels.tolist()).values()
    return {
        "digest": digest_of(images, labels),
        "classes": len(counts),
        "images": len(images),
        "side": min(images.shape[1:3]),
        "most": max(counts) / len(images),
        "least": min(counts) / len(images),
    }


class Arrays(ImagesSpec):
    """Images and labels in an `.npz` file of numpy, as `np.savez(path, images=images, labels=labels)` writes it.

    `images` are bytes, gray or RGB, and become RGB; `labels` are 0, 1 and so on. Those that validate and those that
    test are held out of them. What stands in the file (`digest`, `classes`, `images`, `side`, and the shares `most` and
    `least` of the most frequent and the rarest class) is read where it is not given, and `image_size` is `side` where
    it is not given. Where the file lies is no part of a run's key.
    Shapes: images (N, H, W), (N, H, W, C) or (N, C, H, W) with C 1 or 3; labels (N,). Units: `side` in pixels.
    """

    OWN: ClassVar[tuple[str, str, str]] = ("the file", "", "")
    READ: ClassVar[tuple[str, ...]] = ("digest", "classes", "images", "side", "most", "least")

    kind: Literal["arrays"] = Field(default="arrays", init=False)
    path: FilePath = Field(default="", min_length=1, validate_default=True, description="the path of an .npz file")
    digest: str = Field(
        default="",
        pattern="^[0-9a-f]{16}$",
        validate_default=True,
        description="the 16 hex digits of the arrays' digest",
    )
    classes: int = Field(default=0, gt=0, validate_default=True, description="a positive number of classes")
    images: int = Field(default=0, gt=0, validate_default=True, description="a positive number of images")
    side: Annotated[int, WHERE] = Field(
        default=0, gt=0, validate_default=True, description="a positive number of pixels"
    )
    most: Annotated[float, WHERE] = Field(default=0.0, gt=0, le=1, validate_default=True, description="a share")
    least: Annotated[float, WHERE] = Field(default=0.0, gt=0, le=1, validate_default=True, description="a share")

    @model_validator(mode="before")
    @classmethod
    def _scan(cls, value: Any) -> Any:
        if not isinstance(value, dict) or not isinstance(value.get("path"), str):
            return value
        whole = value if value.get("digest") else {**value, **content(*read(absolute(value["path"])))}
        return {"image_size": whole["side"], **whole} if "side" in whole else whole

    @classmethod
    def unread(cls, node: Mapping[str, Any]) -> dict[str, Any]:
        """Returns what is no part of the file; an `image_size` that is its side follows from it."""
        left = super().unread(node)
        if left.get("image_size") == node.get("side"):
            left.pop("image_size", None)
        return left

    def root(self, folder: Path) -> Path:
        return Path(self.path)

    def missing(self, folder: Path) -> str:
        return "" if Path(self.path).is_file() else super().missing(folder)

    def must(self, folder: Path) -> str:
        return f"data.path must name a file of arrays with the digest {self.digest}, got no file in {self.path}"

    @property
    def natural_side(self) -> int:
        return self.side

    @property
    def available(self) -> ImageCounts:
        return ImageCounts(self.images, 0, 0)

    @property
    def outputs(self) -> int:
        return self.classes

    @property
    def frequent(self) -> Chances:
        return Chances(self.most, self.most)

    @property
    def rarest(self) -> Chances:
        return Chances(self.least, self.least)

    @property
    def fingerprint(self) -> str:
        return self.digest
