"""Reads what a user gives as `data=` in Python: a folder, a file, a known set, or images that this process has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from search_spaces.fit import data_values
from service.storage.home import Home
from trainables.data.arrays import checked, digest_of, read
from trainables.data.dataset import DatasetSpec
from trainables.spec import SpecError, absolute
from trainables.whole_files import rename_durably

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MUST = "a folder of images, an .npz file, a known set, (images, labels), or a Dataset of (image, label)"


class ImageDataset(Protocol):
    """Is anything that holds pairs of an image and its label, by number, such as a Dataset of torch."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> Any: ...


Images = str | Path | tuple[Any, Any] | ImageDataset
"""A folder of images, an `.npz` file with arrays `images` and `labels`, the name of a known set; or images themselves:
two arrays, images of bytes (N, H, W), (N, H, W, C) or (N, C, H, W) and labels (N,), or a Dataset of such pairs."""


def image_values(data: Images, home: str | None, beside: Mapping[str, Any], called: str) -> dict[str, Any]:
    """Returns the values, by path, with which a recipe trains on these images; no values for an empty name.

    Arrays are written to a file in the data folder of the home; their digest is in the file's name. `beside` holds the
    values that the user gives beside `data`, and an error calls them `called`.
    Raises: SpecError for what holds no such images, and for values that name images, too.
    """
    if isinstance(data, str) and not data:
        return {}
    if isinstance(data, DatasetSpec):
        word = str(getattr(data, "path", "") or data.kind)
        raise SpecError(f"data must be {MUST}, got a {type(data).__name__}; for these, data={word!r}")
    if isinstance(data, Path):
        name = absolute(str(data))  # never the name of a known set
    else:
        name = data if isinstance(data, str) else str(_file_of(*_arrays(data), Home.usable(home).data))
    values = data_values(name)
    if both := [path for path in ("data", *values) if path in beside]:
        raise SpecError(f"{called} must leave out {', '.join(both)}, as data says it")
    return values


def check_sendable(data: Images) -> None:
    """Refuses images that this process alone has, because a cluster does not see them. Raises: SpecError."""
    if not isinstance(data, str | Path):
        must = "a folder, an .npz file or a known set that the cluster sees, where a study is submitted"
        how = "np.savez(path, images=images, labels=labels) writes a file"
        raise SpecError(f"data must be {must}, got {type(data).__name__}; {how}")


def _arrays(data: Any) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Returns the images and labels of two arrays, or of a Dataset, in the form in which they are kept.

    Raises: SpecError, which names the code that mends the labels, if there is any.
    """
    import numpy as np

    if isinstance(data, tuple) and len(data) == 2:
        images, labels = data
        if isinstance(images, list | tuple) and len(images):
            images = _stacked(images)
    elif isinstance(data, tuple | Mapping | np.ndarray) or not (
        hasattr(data, "__getitem__") and hasattr(data, "__len__")
    ):
        raise SpecError(f"data must be {MUST}, got {type(data).__name__}")
    else:
        pairs = [data[number] for number in range(len(data))]
        if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
            raise SpecError(f"data must be {MUST}, got {type(data).__name__} of other entries")
        images = _stacked([image for image, _ in pairs])
        try:
            labels = np.array([np.asarray(label) for _, label in pairs])
        except ValueError:  # of several shapes
            raise SpecError(f"labels must be integers, one for each image, got {pairs[0][1]!r} first") from None
    if any(isinstance(array, np.ma.MaskedArray) and array.mask.any() for array in (images, labels)):
        raise SpecError("data must be whole arrays, got masked ones, whose masks would be left out")
    if np.ndim(images) == 1 and np.ndim(labels) >= 3:
        raise SpecError("data must be (images, labels), got labels first")
    try:
        return checked(images, labels)
    except SpecError as error:
        how = _mended(np.asarray(labels), len(images)) if str(error).startswith("labels") else ""
        raise SpecError(f"{error}; {how} makes them so" if how else str(error)) from None


def _mended(labels: NDArray[Any], count: int) -> str:
    """Returns the line of Python that turns labels of another form into numbers of classes; empty if none is known."""
    import numpy as np

    if labels.shape[:1] != (count,) or labels.ndim > 2 or (labels.dtype.kind == "f" and np.isnan(labels).any()):
        return ""
    if labels.ndim == 2:
        one_hot = labels.dtype.kind in "biuf" and (np.sort(labels, axis=1) == np.eye(labels.shape[1])[-1]).all()
        return "labels[:, 0]" if labels.shape[1] == 1 else "labels.argmax(axis=1)" if one_hot else ""
    if labels.dtype.kind in "USb" or (labels.dtype.kind in "iu" and labels.min() >= 0 and len(np.unique(labels)) > 1):
        return "np.unique(labels, return_inverse=True)[1]"
    return "labels.astype(int)" if labels.dtype.kind == "f" and (labels == labels.round()).all() else ""


def _stacked(images: Sequence[Any]) -> NDArray[Any]:
    """Returns several images as one array. Images of Pillow are turned upright and to RGB, in copies.

    Raises: SpecError for images of several sizes, and for an image that cannot become RGB.
    """
    import numpy as np
    from PIL import Image

    from trainables.data.upright_rgb import rgb
    from trainables.training.pictures import copied

    try:
        images = [rgb(copied(image)) if isinstance(image, Image.Image) else image for image in images]
    except ValueError as error:
        raise SpecError(f"images of a Dataset must be images of 8 bits, got {error}") from None
    arrays = [np.asarray(image) for image in images]
    shapes = {array.shape for array in arrays}
    if len(shapes) > 1:
        got = " and ".join(map(str, sorted(shapes)[:2]))
        raise SpecError(f"images must have one size, got {got}: resize them (a Dataset by its transform)")
    return np.stack(arrays)


def _file_of(images: NDArray[np.uint8], labels: NDArray[np.int64], folder: Path) -> Path:
    """Returns the path of the file that holds these arrays; if it is missing or damaged, it is written first."""
    import os

    import numpy as np

    digest = digest_of(images, labels)
    path = folder / f"arrays-{digest}.npz"
    try:
        is_whole = digest_of(*read(str(path))) == digest
    except SpecError:
        is_whole = False
    if not is_whole:
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_name(f".{path.stem}.{os.getpid()}.npz")
        np.savez(draft, images=images, labels=labels)
        rename_durably(draft, path)
    return path
