"""Red-green images: one red and one green square on black, and a question about where they lie.

The places are drawn first, for all images at once; the labels are then made exact by symmetry: an image of the wrong
class is turned into the right one by a reflection, which keeps the draw uniform within each class. Every split has a
stream of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainables.data.red_green import RedGreen
from trainables.rng_torch import numpy_stream

Split = Literal["train", "validation", "test"]
Images = NDArray[np.uint8]
Places = NDArray[np.int64]


@dataclass(frozen=True)
class Scene:
    """Where the squares lie: the upper left pixels of the green and the red ones, row before column.

    Shapes: green, red: (N, 2). Units: pixels.
    """

    green: Places
    red: Places

    def reflected(self, which: NDArray[np.bool_], axis: int, span: int) -> Scene:
        """The scene with some images reflected along an axis (0 up-down, 1 left-right); places run from 0 to span."""
        green, red = self.green.copy(), self.red.copy()
        for places in (green, red):
            places[which, axis] = span - places[which, axis]
        return Scene(green, red)


PEAK = 255
"""The value of a whole color."""


def arrays(spec: RedGreen) -> dict[str, tuple[Images, NDArray[Any]]]:
    """The images of all splits with their targets: see `red_green`."""
    return {split: red_green(spec, split) for split in ("train", "validation", "test")}


def red_green(spec: RedGreen, split: Split) -> tuple[Images, NDArray[np.int64] | NDArray[np.float64]]:
    """The images of one split with their targets.

    Classes are balanced exactly, or to one where the count does not divide. `direction`: 0 green left of red, 1 right;
    validation and test come in left-right mirrored pairs (images 2i and 2i + 1), so that a model blind to reflection
    scores exactly one half. `direction4`: 2 * (green below) + (green right). `absolute`: 0 upper half, 1 lower half.
    `distance`: the column and the row offset from green to red.

    Shapes: images (N, 3, S, S); targets (N,), for `distance` (N, 2). Units: offsets in sides of the image (-1 to 1).
    Source: thesis 4 and 5.1. Differs: class and place of the pair are independent (the thesis' generator ties them);
    the squares are wholly inside the half of `absolute`.
    """
    rng = numpy_stream(spec.data_seed, "red_green", split)
    count = {"train": spec.train_size, "validation": spec.val_size, "test": spec.test_size}[split]
    mirrored = spec.task == "direction" and split != "train"
    scene = _draw(spec, rng, count // 2 if mirrored else count)
    labels = _balanced(rng, len(scene.green), spec.outputs)
    scene = _classed(spec, scene, labels)
    if mirrored:
        scene, labels = _paired(spec, scene, labels)
    if spec.task == "distance":
        return paint(spec, scene), np.ascontiguousarray((scene.red - scene.green)[:, ::-1] / spec.image_size)
    return paint(spec, scene), labels


def paint(spec: RedGreen, scene: Scene) -> Images:
    """The pictures of a scene: red in channel 0, green in channel 1. Shapes: (N, 3, S, S)."""
    images = np.zeros((len(scene.green), 3, spec.image_size, spec.image_size), np.uint8)
    line = np.arange(spec.image_size)
    for channel, places in ((0, scene.red), (1, scene.green)):
        inside = (line >= places[..., None]) & (line < places[..., None] + spec.square)
        images[:, channel] = (inside[:, 0, :, None] & inside[:, 1, None, :]) * np.uint8(255)
    return images


def _draw(spec: RedGreen, rng: np.random.Generator, count: int) -> Scene:
    """Legal scenes, uniform among all legal ones, by drawing again what is not legal."""
    green, red = np.empty((0, 2), np.int64), np.empty((0, 2), np.int64)
    while len(green) < count:
        candidates = _candidates(spec, rng, 2 * count + 8)
        keep = _legal(spec, candidates)
        green, red = np.concatenate([green, candidates.green[keep]]), np.concatenate([red, candidates.red[keep]])
    return Scene(green[:count], red[:count])


def _candidates(spec: RedGreen, rng: np.random.Generator, count: int) -> Scene:
    pitch = spec.square if spec.aligned else 1
    room = spec.image_size // 2 if spec.task == "absolute" else spec.image_size
    high = ((room - spec.square) // pitch + 1, (spec.image_size - spec.square) // pitch + 1)
    return Scene(pitch * rng.integers(0, high, (count, 2)), pitch * rng.integers(0, high, (count, 2)))


def _legal(spec: RedGreen, scene: Scene) -> NDArray[np.bool_]:
    """Squares apart; for `direction` in different columns; for `direction4` also in different rows."""
    offset = np.abs(scene.red - scene.green)
    legal: NDArray[np.bool_] = (offset >= spec.square).any(axis=1)
    if spec.task in ("direction", "direction4"):
        legal &= offset[:, 1] > 0
    if spec.task == "direction4":
        legal &= offset[:, 0] > 0
    return legal


def _balanced(rng: np.random.Generator, count: int, classes: int) -> NDArray[np.int64]:
    return rng.permutation(np.arange(count, dtype=np.int64) % classes)


def _classed(spec: RedGreen, scene: Scene, labels: NDArray[np.int64]) -> Scene:
    """The scene reflected, where needed, into the class that its label says."""
    span = spec.image_size - spec.square
    if spec.task == "absolute":
        return scene.reflected(labels == 1, 0, span)
    if spec.task in ("direction", "direction4"):
        right = scene.green[:, 1] > scene.red[:, 1]
        scene = scene.reflected(right != (labels % 2 == 1), 1, span)
    if spec.task == "direction4":
        below = scene.green[:, 0] > scene.red[:, 0]
        scene = scene.reflected(below != (labels >= 2), 0, span)
    return scene


def _paired(spec: RedGreen, scene: Scene, labels: NDArray[np.int64]) -> tuple[Scene, NDArray[np.int64]]:
    """Each scene followed by its left-right mirror image, which has the other label."""
    twice = Scene(np.repeat(scene.green, 2, axis=0), np.repeat(scene.red, 2, axis=0))
    second = np.arange(len(twice.green)) % 2 == 1
    return twice.reflected(second, 1, spec.image_size - spec.square), np.repeat(labels, 2) ^ second
