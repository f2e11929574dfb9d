"""Opens images that are arrays in a file of numpy."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from trainables.data.arrays import Arrays, digest_of, read
from trainables.data.images_torch import Pixels, Records, load_images
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
    return {"train": Pixels(labels, images, spec.path)}
