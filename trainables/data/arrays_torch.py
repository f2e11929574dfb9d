"""Opens images that are arrays in a file of numpy."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from trainables.data.arrays import Arrays, digest_of, read
from trainables.data.images_torch import Records, load_images
from trainables.data.splits_torch import Reading, Splits
from trainables.spec import LocusError


def load(spec: Arrays, reading: Reading) -> Splits:
    """Returns the splits that the spec asks for. Raises: LocusError if the file is not there, or has other arrays."""
    return load_images(spec, partial(records, spec), reading)


def records(spec: Arrays) -> dict[str, Records]:
    """Returns the images of the file, after a comparison with the digest of the spec."""
    path = Path(spec.path)
    if not path.is_file():
        raise LocusError(spec.must(path))
    images, labels = read(spec.path)
    if (digest := digest_of(images, labels)) != spec.digest:
        raise LocusError(f"data.path must name a file of arrays with the digest {spec.digest}, got {digest} in {path}")
    return {"train": Records(labels, partial(_image, images), partial(_name, spec.path))}


def _image(images: NDArray[np.uint8], number: int) -> Image.Image:
    pixels = images[number]
    return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)


def _name(path: str, number: int) -> str:
    return f"image {number} of {path}"
