"""Loads a set of real images: selects what a spec asks for, and reads decoded images or decodes them once.

`x_torch.py` of a set opens it: a function `records` there returns the images of the set's own splits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from trainables.data.decoded_torch import Decoded
from trainables.data.images import ImagesSpec
from trainables.data.splits_torch import Split, Splits
from trainables.rng_torch import numpy_stream
from trainables.spec import LocusError

WHITE = 255


@dataclass(frozen=True)
class Records:
    """The images of one split of a set, not decoded yet. Shapes: labels (N,) of class numbers.

    `image`: opens an image by its number; `name`: what to call it in an error message.
    """

    labels: NDArray[np.int64]
    image: Callable[[int], Image.Image]
    name: Callable[[int], str]

    def pixels(self, number: int, side: int) -> NDArray[np.uint8]:
        """An image in RGB, its shorter side resized to `side`, cropped at its center. Shapes: (3, side, side).

        Raises: LocusError that names an image that cannot be read.
        """
        try:
            image = self.image(number).convert("RGB")
        except (OSError, SyntaxError, ValueError) as error:  # what Pillow raises for a damaged file
            raise LocusError(f"{self.name(number)} must be an image that Pillow can read, got: {error}") from None
        return np.asarray(centered(image, side)).transpose(2, 0, 1)


def of_files(labels: Iterable[int], paths: Sequence[Path]) -> Records:
    """Images that are files."""
    return Records(np.array(labels), lambda number: Image.open(paths[number]), lambda number: str(paths[number]))


def centered(image: Image.Image, side: int) -> Image.Image:
    """An image whose shorter side is resized to `side`, bicubic, and cropped at its center. Units: pixels."""
    scale = side / min(image.size)
    width, height = (max(side, round(length * scale)) for length in image.size)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - side) // 2, (height - side) // 2
    return image.crop((left, top, left + side, top + side))


def stratified_order(labels: NDArray[np.int64], seed: int, *names: str) -> NDArray[np.int64]:
    """All images in a random order, of which every beginning has the same share of each class, to one image."""
    shuffled = numpy_stream(seed, *names).permutation(len(labels))
    share = np.empty(len(labels))
    for label in np.unique(labels):
        own = shuffled[labels[shuffled] == label]
        share[own] = (np.arange(len(own)) + 0.5) / len(own)
    return np.lexsort((labels, share))


def chosen(spec: ImagesSpec, labels: Mapping[str, NDArray[np.int64]]) -> dict[str, list[tuple[str, int]]]:
    """Which images a spec asks for, a split: the set's own split that each comes from, and its number there.

    Images that are held out come first in the order of the training images, so the size of one draw moves no other.
    Raises: LocusError where a class has too few images.
    """
    order = stratified_order(labels["train"], spec.data_seed, "images", "train")
    held, counts = spec.held_out, spec.image_counts
    test, validation, train = np.split(order, [held.test, held.test + held.validation])
    if spec.samples_per_class is None:
        train = train[: counts.train]
    else:
        train = _each(train, labels["train"], spec.samples_per_class)
    found = {"train": [("train", int(number)) for number in train]}
    for name, held_out, count in (("validation", validation, counts.validation), ("test", test, counts.test)):
        if len(held_out):
            found[name] = [("train", int(number)) for number in held_out]
        else:
            own = stratified_order(labels[name], spec.data_seed, "images", name)[:count]
            found[name] = [(name, int(number)) for number in own]
    return found


def _each(order: NDArray[np.int64], labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The first images of each class."""
    taken = [order[labels[order] == label][:count] for label in np.unique(labels)]
    fewest = min(len(images) for images in taken)
    if fewest < count:
        raise LocusError(f"data.samples_per_class must be at most {fewest}, the images of the smallest class")
    return order[np.isin(order, np.concatenate(taken))]


def load_images(spec: ImagesSpec, opened: Callable[[], dict[str, Records]], folder: Path | None) -> Splits:
    """The splits of a set, decoded once and then read by every run; without a folder, decoded for this run alone.

    Raises: LocusError where the set is not there, is not the one of the spec, or cannot be read.
    """
    known = spec.decoded_name
    counts = spec.image_counts
    if folder is not None and (found := Decoded.read(folder / "decoded", known)) is not None:
        return splits(found, counts)
    records = opened()
    _check(spec, records)
    wanted = chosen(spec, {name: of.labels for name, of in records.items()})
    each = [records[own] for name in counts._fields for own, _ in wanted[name]]
    numbers = [number for name in counts._fields for _, number in wanted[name]]

    def pixels(place: int) -> NDArray[np.uint8]:
        return each[place].pixels(numbers[place], spec.image_size)

    labels = np.array([of.labels[number] for of, number in zip(each, numbers, strict=True)])
    where = None if folder is None else folder / "decoded"
    return splits(Decoded.make(where, known, spec.size, labels, pixels), counts)


def splits(decoded: Decoded, counts: tuple[int, int, int]) -> Splits:
    """The splits of decoded images, which lie one after another."""
    images = torch.split(torch.from_numpy(decoded.images), list(counts))
    labels = torch.split(torch.from_numpy(decoded.labels), list(counts))
    train, validation, test = (Split(*pair, WHITE) for pair in zip(images, labels, strict=True))
    return Splits(train, validation, test)


def _check(spec: ImagesSpec, records: Mapping[str, Records]) -> None:
    """Refuses a set that is not the one of the spec, by the numbers of its images and classes."""
    there = {name: len(of.labels) for name, of in records.items()}
    expected = {name: count for name, count in zip(spec.available._fields, spec.available, strict=True) if count}
    if there != expected:
        raise LocusError(f"the images of data.kind {spec.kind} must be {expected}, got {there}")
    classes = len(np.unique(records["train"].labels))
    if classes != spec.outputs:
        raise LocusError(f"the images of data.kind {spec.kind} must have {spec.outputs} classes, got {classes}")


def load_known(spec: ImagesSpec, folder: Path | None, records: Callable[[Any, Path], dict[str, Records]]) -> Splits:
    """The splits of a known set, which lies in the folder of all data.

    Raises: LocusError where it is not there, or where `records` finds that it is damaged.
    """

    def opened() -> dict[str, Records]:
        if folder is None or not spec.root(folder).is_dir():
            raise LocusError(spec.must(folder or Path("<home>/data")))
        try:
            return records(spec, folder)
        except (RuntimeError, OSError) as error:  # torchvision's RuntimeError: a checksum is wrong
            raise LocusError(f"{spec.must(folder)} ({error})") from None

    return load_images(spec, opened, folder)
