"""Opens CIFAR-10 and CIFAR-100 as torchvision reads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from torchvision.datasets import CIFAR10, CIFAR100

from trainables.data.cifar import Cifar10, Cifar100
from trainables.data.images_torch import Records, load_known
from trainables.data.splits_torch import Reading, Splits

READERS = {"cifar10": CIFAR10, "cifar100": CIFAR100}


def load(spec: Cifar10 | Cifar100, reading: Reading) -> Splits:
    """The splits that the spec asks for. Raises: LocusError where the set is not there, or damaged."""
    return load_known(spec, reading, records)


def records(spec: Cifar10 | Cifar100, folder: Path) -> dict[str, Records]:
    """The images of the set's own splits; torchvision compares the files with their published checksums."""
    return {name: _records(READERS[spec.kind](folder, train=name == "train")) for name in ("train", "test")}


def download(spec: Cifar10 | Cifar100, folder: Path) -> None:
    """Fetches the set."""
    READERS[spec.kind](folder, download=True)


def _records(found: CIFAR10) -> Records:
    name = f"image {{}} of {found.base_folder}".format
    return Records(np.array(found.targets), lambda number: Image.fromarray(found.data[number]), name)
