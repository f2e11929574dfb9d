"""Opens Tiny ImageNet as its archive lays it out."""

from __future__ import annotations

from pathlib import Path

from torchvision.datasets.utils import download_and_extract_archive

from trainables.data.images_torch import Records, load_known, of_files
from trainables.data.splits_torch import Reading, Splits
from trainables.data.tiny_imagenet import TinyImageNet

URL = "http://cs231n.stanford.edu/tiny-imagenet-200.zip"


def load(spec: TinyImageNet, reading: Reading) -> Splits:
    """Returns the splits that the spec asks for. Raises: LocusError if the set is not there."""
    return load_known(spec, reading, records)


def records(spec: TinyImageNet, folder: Path) -> dict[str, Records]:
    """Returns the images of `train` by the folders of their classes, those of `val` by its list of labels."""
    root = folder / spec.FOLDER
    classes = sorted((root / "wnids.txt").read_text(encoding="utf-8").split())
    annotations = (root / "val" / "val_annotations.txt").read_text(encoding="utf-8")
    lines = [line.split("\t") for line in annotations.splitlines()]
    train = [(name, path) for name in classes for path in sorted((root / "train" / name / "images").glob("*.JPEG"))]
    test = [(name, root / "val" / "images" / file) for file, name, *_ in lines]
    labels = {name: number for number, name in enumerate(classes)}
    own = {"train": train, "test": test}
    return {
        split: of_files([labels[name] for name, _ in images], [path for _, path in images])
        for split, images in own.items()
    }


def download(spec: TinyImageNet, folder: Path) -> None:
    """Fetches the set."""
    download_and_extract_archive(URL, str(folder))
