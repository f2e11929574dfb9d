"""Opens a folder of images in the ImageFolder layout."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

import numpy as np
from pydantic_core import PydanticCustomError

from trainables.data.folder import Folder, content, scan
from trainables.data.images_torch import Files, Records, load_images, stratified_order
from trainables.data.splits_torch import SPLITS, Reading, Splits
from trainables.spec import LocusError


def load(spec: Folder, reading: Reading) -> Splits:
    """Returns the splits that the spec asks for. Raises: LocusError if the folder is not there, or has other images."""
    return load_images(spec, partial(records, spec), reading)


def records(spec: Folder) -> dict[str, Records]:
    """Returns the images of the folder's own splits, after a comparison with the digest of the spec.

    Each image must then stay as it was seen here, so that nothing else is decoded under that digest.
    """
    root = Path(spec.path)
    if not os.path.isdir(root):
        raise LocusError(spec.must(root))
    try:
        layout, held = scan(spec.path)
    except PydanticCustomError as error:  # the folder has lost its layout, or an image is damaged
        raise LocusError(f"data.{error.message()}") from None
    digest = content(layout, held)["digest"]
    if digest != spec.digest:
        raise LocusError(f"data.path must name a folder with the digest {spec.digest}, got {digest} in {spec.path}")
    if wrong := spec.wrong_counts(layout):
        raise LocusError(wrong)
    labels = {name: number for number, name in enumerate(sorted({file.label for file in layout.images["train"]}))}
    files = {name: layout.images[source] for name, source in zip(SPLITS, spec.sources, strict=True)}
    if spec.sources[1:] == ("test", "test"):
        both = files["test"]  # halves with the same share of each class, to one image
        order = stratified_order(np.array([file.label for file in both]), spec.data_seed, "images", "halves")
        halves = np.split(order, [len(both) // 2])
        files["validation"], files["test"] = ([both[number] for number in half] for half in halves)
    return {
        split: Files(
            np.array([labels[file.label] for file in files[split]]),
            [Path(file.at) for file in files[split]],
            [(file.seen.size, file.seen.mtime) for file in files[split]],
        )
        for split, count in zip(SPLITS, spec.available, strict=True)
        if count
    }
