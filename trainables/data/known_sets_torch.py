"""Opens and fetches the known sets, as torchvision or their archive lays them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from torchvision.datasets import CIFAR10, CIFAR100, Flowers102, OxfordIIITPet
from torchvision.datasets.utils import download_and_extract_archive

from trainables.data.images import ImagesSpec
from trainables.data.images_torch import Files, Pixels, Records, load_images
from trainables.data.known_sets import Cifar10, Cifar100, OxfordPets
from trainables.data.splits_torch import Reading, Splits
from trainables.spec import LocusError

READERS: dict[str, Any] = {
    "cifar10": CIFAR10, "cifar100": CIFAR100, "flowers102": Flowers102, "oxford_pets": OxfordIIITPet,
}  # fmt: skip
"""The sets that torchvision reads; it compares what it reads with the published checksums."""
TINY_IMAGENET = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"


def load(spec: ImagesSpec, reading: Reading) -> Splits:
    """Returns the splits that the spec asks for. Raises: LocusError if the set is not there, or damaged."""
    folder = reading.folder or Path("<home>/data")

    def whole() -> dict[str, Records]:
        if not spec.root(folder).is_dir():
            raise LocusError(spec.must(folder))
        try:
            return records(spec, folder)
        except (RuntimeError, OSError, ValueError, LookupError) as error:  # a checksum or a list is wrong
            raise LocusError(f"{spec.must(folder)} ({error})") from None

    return load_images(spec, whole, reading)


def records(spec: ImagesSpec, folder: Path) -> dict[str, Records]:
    """Returns the images of the set's own splits. `folder`: that of all data."""
    if spec.kind not in READERS:
        return _tiny_imagenet(spec.root(folder))
    reader = READERS[spec.kind]
    if isinstance(spec, Cifar10 | Cifar100):
        sets = {name: reader(folder, train=name == "train") for name in ("train", "test")}
        return {
            name: Pixels(np.array(images.targets), images.data, images.base_folder) for name, images in sets.items()
        }
    splits = zip(("train", "validation", "test"), spec.OWN, spec.available, strict=True)
    sets = {name: reader(folder, split=split) for name, split, count in splits if count}
    paths = "_images" if isinstance(spec, OxfordPets) else "_image_files"
    return {name: Files(np.array(images._labels), getattr(images, paths)) for name, images in sets.items()}


def _tiny_imagenet(root: Path) -> dict[str, Records]:
    """Returns the images of `train` by the folders of their classes, those of `val` by its list of labels."""
    classes = sorted((root / "wnids.txt").read_text(encoding="utf-8").split())
    annotations = (root / "val" / "val_annotations.txt").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in annotations.splitlines()]
    train = [(name, path) for name in classes for path in sorted((root / "train" / name / "images").glob("*.JPEG"))]
    test = [(name, root / "val" / "images" / file) for file, name, *_ in lines]
    labels = {name: number for number, name in enumerate(classes)}
    return {
        split: Files(np.array([labels[name] for name, _ in images]), [path for _, path in images])
        for split, images in {"train": train, "test": test}.items()
    }


def download(spec: ImagesSpec, folder: Path) -> None:
    """Fetches the set."""
    if spec.kind in READERS:
        READERS[spec.kind](folder, download=True)
    else:
        download_and_extract_archive(TINY_IMAGENET, str(folder))
