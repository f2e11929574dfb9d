"""Loads a set of real images: selects what a spec asks for, and reads decoded images or decodes them once.

`x_torch.py` of a set opens it: a function `records` there returns the images of the set's own splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor

from trainables.data.decoded_torch import Arrays, decode, has_room, kept, stored
from trainables.data.images import ImagesSpec
from trainables.data.splits_torch import Change, Drawn, Reading, Split, Splits, Workers
from trainables.data.streamed_torch import WHITE, OfBatches, StreamedSplit
from trainables.data.upright_rgb import opened
from trainables.rng_torch import numpy_stream
from trainables.spec import LocusError


@dataclass(frozen=True)
class Records:
    """Images that are not decoded yet: of one split of a set, or those that a spec asks for.

    Shapes: labels (N,) of class numbers.
    """

    labels: NDArray[np.int64]

    def image(self, number: int) -> Image.Image:
        raise NotImplementedError

    def name(self, number: int) -> str:
        """Returns what to call an image in an error message."""
        raise NotImplementedError

    def opened(self, number: int) -> Image.Image:
        """Returns an image in RGB. Raises: LocusError that names an image that cannot be read."""
        return opened(self.name(number), partial(self.image, number))

    def pixels(self, spec: ImagesSpec, number: int) -> NDArray[np.uint8]:
        """Returns an image as a spec asks for it, decoded. Shapes: (3, R, S)."""
        return np.asarray(centered(self.opened(number), spec)).transpose(2, 0, 1)


@dataclass(frozen=True)
class Files(Records):
    """Images that are files. `seen`: the size and the time of change that each must have; empty if nobody looked.

    Units: `seen` in bytes and nanoseconds.
    """

    paths: Sequence[Path]
    seen: Sequence[tuple[int, int]] = ()

    def image(self, number: int) -> Image.Image:
        path = self.paths[number]
        if self.seen:
            status = path.stat()
            if (status.st_size, status.st_mtime_ns) != self.seen[number]:
                raise LocusError(f"{path} must stay as it is while runs read it, got a change: run the study again")
        return Image.open(path)

    def name(self, number: int) -> str:
        return str(self.paths[number])


@dataclass(frozen=True)
class Pixels(Records):
    """Images that lie in memory. Shapes: images (N, H, W, C) with 1 or 3 channels."""

    images: NDArray[np.uint8]
    file: str

    def image(self, number: int) -> Image.Image:
        pixels = self.images[number]
        return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels)

    def name(self, number: int) -> str:
        return f"image {number} of {self.file}"


@dataclass(frozen=True)
class Selected(Records):
    """Images of several sets, each with its set and its number there."""

    members: Sequence[tuple[Records, int]]

    def image(self, number: int) -> Image.Image:
        images, member = self.members[number]
        return images.image(member)

    def name(self, number: int) -> str:
        images, member = self.members[number]
        return images.name(member)


def centered(image: Image.Image, spec: ImagesSpec) -> Image.Image:
    """Returns an image as a spec asks for it: resized by its shorter side, bicubic, and cropped at its center.

    Source: timm's transforms_imagenet_eval. Differs: lengths are rounded to the nearest pixel, and of an odd margin the
    smaller part is always on the left or above (timm's crop may lie one pixel further).
    """
    side = spec.image_size
    shorter = math.floor(side / spec.crop_pct)
    width, height = (max(shorter, round(length * shorter / min(image.size))) for length in image.size)
    if image.size != (width, height):
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    left, top = (width - side) // 2, (height - side) // 2
    return image.crop((left, top, left + side, top + side))


def stratified_order(labels: NDArray[np.int64], seed: int, *names: str) -> NDArray[np.int64]:
    """Returns all images in a random order, of which every beginning has the same share of each class, to one image.

    Where that leaves a choice of classes, it is random, too: the first ten images are of any ten of a hundred classes.
    """
    shuffled = numpy_stream(seed, *names).permutation(len(labels))
    share = np.empty(len(labels))
    for label in np.unique(labels):
        members = shuffled[labels[shuffled] == label]
        share[members] = (np.arange(len(members)) + 0.5) / len(members)
    return shuffled[np.argsort(share[shuffled], kind="stable")]


def chosen(spec: ImagesSpec, labels: Mapping[str, NDArray[np.int64]]) -> dict[str, list[tuple[str, int]]]:
    """Returns which images a spec asks for, a split: the set's own split that each comes from, and its number there.

    In the order of the training images those that are held out to test come first, then those that are held out to
    validate, then those to train. So the size of a draw moves those that come after it, and none before it.
    If seeds are folds, all images that train or validate are those to train: `parts` deals them.
    Raises: LocusError if a class has too few images.
    """
    order = stratified_order(labels["train"], spec.data_seed, "images", "train")
    held, counts = spec.held_out_at(0), spec.counts_at(0)
    test, validation, train = np.split(order, [held.test, held.test + held.validation])
    if spec.folds:
        train, validation = order[held.test :], order[:0]
    elif spec.samples_per_class is None:
        train = train[: counts.train]
    else:
        classes = labels["train"][train]
        every = np.unique(labels["train"])
        firsts = [train[classes == label][: spec.samples_per_class] for label in every]
        fewest = min(len(images) for images in firsts)
        if fewest < spec.samples_per_class:
            raise LocusError(f"data.samples_per_class must be at most {fewest}, the images of the smallest class")
        train = train[np.isin(train, np.concatenate(firsts))]
    numbers = {"train": [("train", int(number)) for number in train]}
    for name, held_out, count in (("validation", validation, counts.validation), ("test", test, counts.test)):
        if len(held_out) or name not in labels:
            numbers[name] = [("train", int(number)) for number in held_out]
        else:
            drawn = stratified_order(labels[name], spec.data_seed, "images", name)[:count]
            numbers[name] = [(name, int(number)) for number in drawn]
    return numbers


Places = range | NDArray[np.int64]
"""Places among all images that are used, in the order of `selected`."""


def parts(spec: ImagesSpec, labels: NDArray[np.int64], seed: int) -> list[Places]:
    """Returns where the images of each split lie in a run of this seed. `labels`: of all images that are used.

    Raises: LocusError if a class has fewer images than there are folds.
    """
    counts = spec.counts_at(seed)
    first, second, last = (int(end) for end in np.cumsum(counts))
    if not spec.folds:
        assert last == len(labels)
        return [range(first), range(first, second), range(second, last)]
    is_held_out = dealt(labels[:second], spec.folds, spec.data_seed, seed // spec.folds) == seed % spec.folds
    fold = np.flatnonzero(is_held_out)
    assert len(fold) == counts.validation
    return [np.flatnonzero(~is_held_out), fold, fold if spec.cross_validated else range(second, last)]


def dealt(labels: NDArray[np.int64], folds: int, seed: int, time: int) -> NDArray[np.int64]:
    """Returns the fold of each image: each has the same number of images, and of each class, to one image.

    `time`: how many times the images were dealt before. Raises: LocusError if a class has too few images.
    """
    fewest = int(np.unique(labels, return_counts=True)[1].min())
    if fewest < folds:
        raise LocusError(f"data.folds must be at most {fewest}, the images of the smallest class, got {folds}")
    shuffled = numpy_stream(seed, "folds", time).permutation(len(labels))
    by_class = shuffled[np.argsort(labels[shuffled], kind="stable")]
    fold = np.empty(len(labels), np.int64)
    fold[by_class] = np.arange(len(labels)) % folds
    return fold


def selected(spec: ImagesSpec, records: Mapping[str, Records]) -> Records:
    """Returns the images that a spec asks for: those to train first, then those to validate and to test.

    Raises: LocusError if the set is not the one of the spec, by the numbers of its images and classes.
    """
    counts = {split: len(images.labels) for split, images in records.items()}
    expected = {split: count for split, count in zip(spec.available._fields, spec.available, strict=True) if count}
    if counts != expected:
        raise LocusError(f"the images of data.kind {spec.kind} must be {expected}, got {counts}")
    classes = len(np.unique(records["train"].labels))
    if classes != spec.outputs:
        raise LocusError(f"the images of data.kind {spec.kind} must have {spec.outputs} classes, got {classes}")
    numbers = chosen(spec, {split: images.labels for split, images in records.items()})
    members = [(records[split], number) for use in spec.image_counts._fields for split, number in numbers[use]]
    return Selected(np.array([images.labels[number] for images, number in members]), members)


def load_images(spec: ImagesSpec, records: Callable[[], dict[str, Records]], reading: Reading) -> Splits:
    """Returns the splits of a set. Images are decoded once, and then read by every run: of a large set batch by batch.

    Without a folder they are decoded for this run alone. Images to train which are changed one by one are decoded for
    each batch, and so is a large set for which there is no room on the disk.
    Raises: LocusError if the set is not there, is not the one of the spec, or cannot be read.
    """
    folder = None if reading.folder is None else reading.folder / "decoded"
    name, change, workers = spec.decoded_name, reading.change, reading.workers
    on_disk = folder is not None and change is None and has_room(folder, name, spec.decoded_bytes)
    decoded = kept(folder, name) if folder is not None and (on_disk or not spec.streamed) else None
    if decoded is not None and change is None:
        return _of_decoded(spec, reading, decoded)
    images = selected(spec, records())
    train, validation, test = split = parts(spec, images.labels, reading.seed)
    if spec.streamed and not on_disk:
        unchanged = (_streamed(images, spec, part, workers, None) for part in (validation, test))
        return Splits(_streamed(images, spec, train, workers, change), *unchanged)
    if decoded is None:
        decoded = decode(folder, name, spec.size, images.labels, partial(images.pixels, spec))
    if change is None:
        return _of_decoded(spec, reading, decoded)
    return Splits(_streamed(images, spec, train, workers, change), *_resident(decoded, split)[1:])


def _of_decoded(spec: ImagesSpec, reading: Reading, decoded: Arrays) -> Splits:
    split = parts(spec, decoded[1], reading.seed)
    if not spec.streamed:
        return Splits(*_resident(decoded, split))
    assert reading.folder is not None
    read, labels = partial(stored, reading.folder / "decoded", spec.decoded_name), torch.from_numpy(decoded[1])
    return Splits(*(StreamedSplit(partial(_read, read, part), labels[_index(part)], reading.workers) for part in split))


def _read(read: Callable[[int], NDArray[np.uint8]], places: Places, drawn: Drawn) -> NDArray[np.uint8]:
    return read(int(places[drawn[1]]))


def _streamed(
    images: Records, spec: ImagesSpec, places: Places, workers: Workers, change: Change | None
) -> StreamedSplit:
    labels = torch.from_numpy(images.labels)[_index(places)]
    of_batches = change if isinstance(change, OfBatches) else None
    return StreamedSplit(partial(_drawn, images, spec, places, change), labels, workers, of_batches)


def _drawn(images: Records, spec: ImagesSpec, places: Places, change: Change | None, drawn: Drawn) -> NDArray[np.uint8]:
    number = int(places[drawn[1]])
    return images.pixels(spec, number) if change is None else change(images.opened(number), drawn, spec.image_size)


def _resident(decoded: Arrays, split: list[Places]) -> list[Split]:
    """Returns the splits of decoded images. Those that lie one after another are not copied."""
    images, labels = (torch.from_numpy(array) for array in decoded)
    return [Split(images[_index(part)], labels[_index(part)], WHITE) for part in split]


def _index(places: Places) -> slice | Tensor:
    return slice(places.start, places.stop) if isinstance(places, range) else torch.from_numpy(places)
