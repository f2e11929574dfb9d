"""Opens Oxford-IIIT Pet as torchvision reads it."""

from __future__ import annotations

from pathlib import Path

from torchvision.datasets import OxfordIIITPet as Reader

from trainables.data.images_torch import Records, load_known, of_files
from trainables.data.oxford_pets import OxfordPets
from trainables.data.splits_torch import Reading, Splits

SPLITS = {"train": "trainval", "test": "test"}


def load(spec: OxfordPets, reading: Reading) -> Splits:
    """Returns the splits that the spec asks for. Raises: LocusError if the set is not there."""
    return load_known(spec, reading, records)


def records(spec: OxfordPets, folder: Path) -> dict[str, Records]:
    """Returns the images of the set's own splits."""
    readers = {name: Reader(folder, split=split) for name, split in SPLITS.items()}
    return {name: of_files(own._labels, own._images) for name, own in readers.items()}


def download(spec: OxfordPets, folder: Path) -> None:
    """Fetches the set; torchvision compares the archives with their published checksums."""
    Reader(folder, download=True)
