"""Images that a person gives to a trained model, as the bytes that the model's data set would have of them.

Photographs go through the functions that read the run's own images: turned, converted, resized and cropped alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, TiffImagePlugin
from torch import Tensor

from trainables.data import Data, ImagesSpec
from trainables.data.images_torch import centered
from trainables.data.upright_rgb import WHITE, load, opened
from trainables.spec import SpecError

Picture = str | Path | Image.Image | NDArray[Any] | Tensor
Pictures = Picture | Iterable[Picture]
KINDS = (str, Path, Image.Image, np.ndarray, Tensor)


def white(data: Data) -> int:
    """Returns the byte that is white in the images of a data set."""
    half = import_module(f"{type(data).__module__}_torch")
    return int(getattr(data, "max_value", getattr(half, "MAX_VALUE", WHITE)))


def listed(images: Pictures) -> Iterator[Picture]:
    """Yields one image after another. Raises: SpecError for what is no image and holds none."""
    if isinstance(images, str | Path | Image.Image):
        yield images
        return
    if isinstance(images, np.ndarray | Tensor):
        _require(images.ndim in (3, 4), "images", "of 3 axes, or of 4 if they are several", tuple(images.shape))
        yield from images if images.ndim == 4 else [images]
        return
    _require(isinstance(images, Iterable), "images", "paths, Pillow images, arrays or tensors", type(images).__name__)
    for image in images:
        _require(isinstance(image, KINDS), "images", "paths, Pillow images, arrays or tensors", type(image).__name__)
        if isinstance(image, np.ndarray | Tensor):
            _require(image.ndim == 3, "each image of a list", "of 3 axes", tuple(image.shape))
        yield image


def pixels(name: str, image: Picture, data: Data) -> Tensor:
    """Returns an image as bytes of the data set; a tensor of floats from 0 (black) to 1 (white) as it is.

    Arrays are bytes of shape (H, W, C), tensors have the shape (C, H, W).
    Shapes: (C, R, S). Raises: LocusError for an image that cannot be read, SpecError for one that does not fit.
    """
    if isinstance(image, Tensor) and image.is_floating_point():
        # never resized: nothing rounds floats as the bytes of a file are rounded
        shape = tuple(image.shape)
        must = f"of shape {data.size} where it has floats (bytes are resized)"
        _require(shape == data.size, f"image {name}", must, shape)
        low, high = image.min().item(), image.max().item()
        must = "from 0 (black) to 1 (white), before they are normalized"
        _require(low >= 0 and high <= 1, f"floats of image {name}", must, f"{low:.3g} to {high:.3g}")
        return image.cpu()
    array = _array(name, image.permute(1, 2, 0).cpu().numpy() if isinstance(image, Tensor) else image, data)
    return torch.from_numpy(np.ascontiguousarray(array.transpose(2, 0, 1)))


def _array(name: str, image: str | Path | Image.Image | NDArray[Any], data: Data) -> NDArray[np.uint8]:
    """Returns a picture or an array as one of the data's images; of a set that is made, it is not resized.

    Shapes: (R, S, C); an array (H, W, C).
    """
    if isinstance(image, np.ndarray):
        _require(image.dtype == np.uint8, f"image {name}", "of bytes (uint8)", image.dtype)
        if isinstance(data, ImagesSpec):
            _require(image.shape[2] in (1, 3, 4), f"image {name}", "of 1, 3 or 4 channels, the last axis", image.shape)
            _require(image.size > 0, f"image {name}", "of one row and one column or more", image.shape)
            image = Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image)
    channels, rows, columns = data.size
    if not isinstance(image, np.ndarray):
        must = f"an array or a tensor, because nothing says how a picture becomes one of {data.label}"
        _require(channels == 3 and white(data) == WHITE, f"image {name}", must, "a picture")
        path = isinstance(image, str | Path)
        picture = opened(name, partial(Image.open if path else _left_open, image))  # type: ignore[arg-type]
        if isinstance(data, ImagesSpec):
            return np.asarray(centered(picture, data))
        image = np.asarray(picture)
    shape, most = (rows, columns, channels), white(data)
    _require(image.shape == shape, f"image {name}", f"of shape {shape}", image.shape)
    _require(image.max() <= most, f"bytes of image {name}", f"up to {most}, which is white", image.max())
    return image


def _left_open(image: Image.Image) -> AbstractContextManager[Image.Image]:
    """Returns what gives an image of the caller's own, whose file stays open: it may have more pages."""
    return nullcontext(copied(image))


def copied(image: Image.Image) -> Image.Image:
    """Returns a copy, which may be turned."""
    if isinstance(image, TiffImagePlugin.TiffImageFile):  # Pillow turns it when it loads it; a copy lacks its tags
        return image
    load(image)
    copy = image.copy()
    copy.format = image.format  # tells gray of 16 bits from other integers
    return copy


def _require(holds: bool, name: str, must: str, got: object) -> None:
    if not holds:
        raise SpecError(f"{name} must be {must}, got {got}")
