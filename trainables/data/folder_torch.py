"""Opens a folder of images in the ImageFolder layout."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from pydantic_core import PydanticCustomError

from trainables.data.folder import Folder, content, image_files
from trainables.data.images_torch import Records, load_images, of_files
from trainables.data.splits_torch import Reading, Splits
from trainables.spec import LocusError


def load(spec: Folder, reading: Reading) -> Splits:
    """The splits that the spec asks for. Raises: LocusError where the folder is not there, or has other images."""
    return load_images(spec, partial(records, spec), reading)


def records(spec: Folder) -> dict[str, Records]:
    """The images of the folder's own splits, after a comparison with the digest of the spec."""
    root = Path(spec.path)
    if not root.is_dir():
        raise LocusError(spec.must(root))
    try:
        found = content(root)["digest"]
    except PydanticCustomError as error:  # what `require` raises: the folder has lost its layout
        found = f"no images of a class ({error.message()})"
    if found != spec.digest:
        raise LocusError(f"data.path must name a folder with the digest {spec.digest}, got {found} in {spec.path}")
    train, val, test = (
        {file.path: file.label for file in image_files(root, name)} for name in ("train", "val", "test")
    )
    labels = {name: number for number, name in enumerate(sorted(set(train.values())))}
    own = {"train": ("train", train), "validation": ("val", val if test else {}), "test": ("test", test)}
    if not test:
        own["test"] = ("val", val)
    return {
        name: of_files([labels[label] for label in files.values()], [root / split / path for path in files])
        for name, (split, files) in own.items()
        if files
    }
