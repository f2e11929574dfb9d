"""Opens CIFAR-10 and CIFAR-100 as torchvision reads them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from torchvision.datasets import CIFAR10, CIFAR100

from trainables.data.cifar import Cifar10, Cifar100
from trainables.data.images_torch import Records, load_known
from trainables.data.splits_torch import Reading, Splits

READERS = {"cifar10": CIFAR10, "cifar100": CIFAR100}


def load(spec: Cifar10 | Cifar100, reading: Reading) -> Splits:
    """Returns the splits that the spec asks for. Raises: LocusError if the set is not there, or damaged."""
    return load_known(spec, reading, records)


def records(spec: Cifar10 | Cifar100, folder: Path) -> dict[str, Records]:
    """Returns the images of the set's own splits; torchvision compares the files with their published checksums."""
    return {name: _records(READERS[spec.kind](folder, train=name == "train")) for name in ("train", "test")}


def download(spec: Cifar10 | Cifar100, folder: Path) -> None:
    """Fetches the set."""
    READERS[spec.kind](folder, download=True)


@dataclass(frozen=True)
class _Pixels:
    """Images that lie in memory. Shapes: (N, 32, 32, 3)."""

    pixels: NDArray[np.uint8]
    folder: str

    def image(self, number: int) -> Image.Image:
        return Image.fromarray(self.pixels[number])

    def name(self, number: int) -> str:
        return f"image {number} of {self.folder}"


def _records(reader: CIFAR10) -> Records:
    own = _Pixels(reader.data, reader.base_folder)
    return Records(np.array(reader.targets), own.image, own.name)
