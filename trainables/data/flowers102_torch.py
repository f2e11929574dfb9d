"""Opens Oxford 102 Flower as torchvision reads it."""

from __future__ import annotations

from pathlib import Path

from torchvision.datasets import Flowers102 as Reader

from trainables.data.flowers102 import Flowers102
from trainables.data.images_torch import Records, load_known, of_files
from trainables.data.splits_torch import Reading, Splits

SPLITS = {"train": "train", "validation": "val", "test": "test"}


def load(spec: Flowers102, reading: Reading) -> Splits:
    """Returns the splits that the spec asks for. Raises: LocusError if the set is not there, or damaged."""
    return load_known(spec, reading, records)


def records(spec: Flowers102, folder: Path) -> dict[str, Records]:
    """Returns the images of the set's own splits.

    Torchvision compares the labels' files with their published checksums.
    """
    readers = {name: Reader(folder, split=split) for name, split in SPLITS.items()}
    return {name: of_files(own._labels, own._image_files) for name, own in readers.items()}


def download(spec: Flowers102, folder: Path) -> None:
    """Fetches the set."""
    Reader(folder, download=True)
