"""Loads a set of real images: selects what a spec asks for, and reads decoded images or decodes them once.

`x_torch.py` of a set opens it: a function `records` there returns the images of the set's own splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

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

    `image`: opens an image by its number; `name`: what to call it in an error message.
    Shapes: labels (N,) of class numbers.
    """

    labels: NDArray[np.int64]
    image: Callable[[int], Image.Image]
    name: Callable[[int], str]

    def opened(self, number: int) -> Image.Image:
        """Returns an image in RGB. Raises: LocusError that names an image that cannot be read."""
        return opened(self.name(number), partial(self.image, number))

    def pixels(self, spec: ImagesSpec, number: int) -> NDArray[np.uint8]:
        """Returns an image as a spec asks for it, decoded. Shapes: (3, R, S)."""
        return np.asarray(centered(self.opened(number), spec)).transpose(2, 0, 1)


@dataclass(frozen=True)
class _Files:
    """Images that are files. `seen`: the size and the time of change that each must have; empty if nobody looked."""

    paths: Sequence[Path]
    seen: Sequence[tuple[int, int]]

    def image(self, number: int) -> Image.Image:
        path = self.paths[number]
        if self.seen:
            status = path.stat()
            if (status.st_size, status.st_mtime_ns) != self.seen[number]:
                raise LocusError(f"{path} must stay as it is while runs read it, got a change: run the study again")
        return Image.open(path)

    def name(self, number: int) -> str:
        return str(self.paths[number])


def of_files(labels: Iterable[int], paths: Sequence[Path], seen: Sequence[tuple[int, int]] = ()) -> Records:
    """Returns images that are files. Units: `seen` in bytes and nanoseconds; a file that has others is refused."""
    files = _Files(paths, seen)
    return Records(np.array(labels), files.image, files.name)


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
        own = shuffled[labels[shuffled] == label]
        share[own] = (np.arange(len(own)) + 0.5) / len(own)
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
        train = _each(train, labels["train"], spec.samples_per_class)
    places = {"train": [("train", int(number)) for number in train]}
    for name, held_out, count in (("validation", validation, counts.validation), ("test", test, counts.test)):
        if len(held_out) or name not in labels:
            places[name] = [("train", int(number)) for number in held_out]
        else:
            own = stratified_order(labels[name], spec.data_seed, "images", name)[:count]
            places[name] = [(name, int(number)) for number in own]
    return places


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
    mine = dealt(labels[:second], spec.folds, spec.data_seed, seed // spec.folds) == seed % spec.folds
    fold = np.flatnonzero(mine)
    assert len(fold) == counts.validation
    return [np.flatnonzero(~mine), fold, fold if spec.cross_validated else range(second, last)]


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


def _each(order: NDArray[np.int64], labels: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """Returns the first images of each class."""
    taken = [order[labels[order] == label][:count] for label in np.unique(labels)]
    fewest = min(len(images) for images in taken)
    if fewest < count:
        raise LocusError(f"data.samples_per_class must be at most {fewest}, the images of the smallest class")
    return order[np.isin(order, np.concatenate(taken))]


def selected(spec: ImagesSpec, records: Mapping[str, Records]) -> Records:
    """Returns the images that a spec asks for: those to train first, then those to validate and to test.

    Raises: LocusError if the set is not the one of the spec.
    """
    _check(spec, records)
    wanted = chosen(spec, {name: of.labels for name, of in records.items()})
    places = [(records[own], number) for name in spec.image_counts._fields for own, number in wanted[name]]
    labels = np.array([of.labels[number] for of, number in places])
    return Records(labels, partial(_image, places), partial(_name, places))


def _image(places: Sequence[tuple[Records, int]], place: int) -> Image.Image:
    of, number = places[place]
    return of.image(number)


def _name(places: Sequence[tuple[Records, int]], place: int) -> str:
    of, number = places[place]
    return of.name(number)


def load_images(spec: ImagesSpec, records: Callable[[], dict[str, Records]], reading: Reading) -> Splits:
    """Returns the splits of a set. Images are decoded once, and then read by every run: of a large set batch by batch.

    Without a folder they are decoded for this run alone. Images to train which are changed one by one are decoded for
    each batch, and so is a large set for which there is no room on the disk.
    Raises: LocusError if the set is not there, is not the one of the spec, or cannot be read.
    """
    where = None if reading.folder is None else reading.folder / "decoded"
    name = spec.decoded_name
    on_disk = where is not None and reading.change is None and has_room(where, name, spec.decoded_bytes)
    decoded = kept(where, name) if where is not None and (on_disk or not spec.streamed) else None
    if decoded is not None and reading.change is None:
        return _of_decoded(spec, reading, decoded)
    images = selected(spec, records())
    split = parts(spec, images.labels, reading.seed)
    if spec.streamed and not on_disk:
        changes = (reading.change, None, None)
        return Splits(
            *(
                _streamed(images, spec, part, reading.workers, change)
                for part, change in zip(split, changes, strict=True)
            )
        )
    if decoded is None:
        decoded = decode(where, name, spec.size, images.labels, partial(images.pixels, spec))
    if reading.change is None:
        return _of_decoded(spec, reading, decoded)
    _, validation, test = _resident(decoded, split)
    return Splits(_streamed(images, spec, split[0], reading.workers, reading.change), validation, test)


def _of_decoded(spec: ImagesSpec, reading: Reading, decoded: Arrays) -> Splits:
    """Returns the splits of decoded images; those of a large set are read from their file, batch by batch."""
    split = parts(spec, decoded[1], reading.seed)
    if not spec.streamed:
        return Splits(*_resident(decoded, split))
    assert reading.folder is not None
    read, labels = partial(stored, reading.folder / "decoded", spec.decoded_name), torch.from_numpy(decoded[1])
    parts_read = (StreamedSplit(partial(_read, read, some), labels[_index(some)], reading.workers) for some in split)
    return Splits(*parts_read)


def _read(read: Callable[[int], NDArray[np.uint8]], places: Places, drawn: Drawn) -> NDArray[np.uint8]:
    """Returns one decoded image of a split."""
    return read(int(places[drawn[1]]))


def _streamed(
    images: Records, spec: ImagesSpec, places: Places, workers: Workers, change: Change | None
) -> StreamedSplit:
    """Returns the images in some places, decoded batch by batch."""
    labels = torch.from_numpy(images.labels)[_index(places)]
    later = change if isinstance(change, OfBatches) else None
    return StreamedSplit(partial(_drawn, images, spec, places, change), labels, workers, later)


def _drawn(images: Records, spec: ImagesSpec, places: Places, change: Change | None, drawn: Drawn) -> NDArray[np.uint8]:
    """Returns one image of a split."""
    place = int(places[drawn[1]])
    return images.pixels(spec, place) if change is None else change(images.opened(place), drawn, spec.image_size)


def _resident(decoded: Arrays, split: list[Places]) -> list[Split]:
    """Returns the splits of decoded images. Those that lie one after another are not copied."""
    images, labels = (torch.from_numpy(array) for array in decoded)
    return [Split(images[_index(part)], labels[_index(part)], WHITE) for part in split]


def _index(places: Places) -> slice | Tensor:
    return slice(places.start, places.stop) if isinstance(places, range) else torch.from_numpy(places)


def _check(spec: ImagesSpec, records: Mapping[str, Records]) -> None:
    """Refuses a set that is not the one of the spec, by the numbers of its images and classes."""
    there = {name: len(of.labels) for name, of in records.items()}
    expected = {name: count for name, count in zip(spec.available._fields, spec.available, strict=True) if count}
    if there != expected:
        raise LocusError(f"the images of data.kind {spec.kind} must be {expected}, got {there}")
    classes = len(np.unique(records["train"].labels))
    if classes != spec.outputs:
        raise LocusError(f"the images of data.kind {spec.kind} must have {spec.outputs} classes, got {classes}")


def load_known(spec: ImagesSpec, reading: Reading, records: Callable[[Any, Path], dict[str, Records]]) -> Splits:
    """Returns the splits of a known set, which lies in the folder of all data.

    Raises: LocusError if it is not there, or where `records` finds that it is damaged.
    """
    folder = reading.folder or Path("<home>/data")

    def whole() -> dict[str, Records]:
        if not spec.root(folder).is_dir():
            raise LocusError(spec.must(folder))
        try:
            return records(spec, folder)
        except (
            RuntimeError,
            OSError,
            ValueError,
            LookupError,
        ) as error:  # a checksum or a list is wrong
            raise LocusError(f"{spec.must(folder)} ({error})") from None

    return load_images(spec, whole, reading)
