"""Red-green images: one red and one green square on black, and a question about where they lie.

The places of all images are drawn first, then the labels; an image of the wrong class becomes one of the right class by
a reflection, which keeps the draw uniform within each class. Every split has a stream of its own, and an image that is
already in another split is drawn again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from trainables.data.red_green import RedGreen
from trainables.rng_torch import numpy_stream
from trainables.spec import SpecError

Split = Literal["train", "validation", "test"]
Images = NDArray[np.uint8]
Places = NDArray[np.int64]
Labels = NDArray[np.int64]
Colors = tuple[tuple[int, ...], tuple[int, ...]]
"""The channels that are lit in each of the two squares."""

RED_GREEN: Colors = ((0,), (1,))
BLUE_YELLOW: Colors = ((2,), (0, 1))


@dataclass(frozen=True)
class Scene:
    """Where the squares lie: the upper left pixels of the green and the red ones, row before column.

    Shapes: green, red: (N, 2). Units: pixels.
    """

    green: Places
    red: Places

    def __len__(self) -> int:
        return len(self.green)

    def reflected(self, which: NDArray[np.bool_], axis: int, span: int) -> Scene:
        """Reflects some images along an axis (0 up-down, 1 left-right) on which places run from 0 to span."""
        green, red = self.green.copy(), self.red.copy()
        for places in (green, red):
            places[which, axis] = span - places[which, axis]
        return Scene(green, red)

    def replaced(self, which: NDArray[np.bool_], other: Scene) -> Scene:
        """Returns the scene with the images of another one in some places."""
        green, red = self.green.copy(), self.red.copy()
        green[which], red[which] = other.green, other.red
        return Scene(green, red)


MAX_VALUE = 255
"""The value of a pixel at full brightness."""


def arrays(spec: RedGreen) -> dict[Split, tuple[Images, NDArray[Any]]]:
    """Returns the images of all splits with their targets.

    Classes are balanced exactly, or to one where the count does not divide. `direction`: 0 green left of red, 1 right;
    validation and test come in left-right mirrored pairs (images 2i and 2i + 1), so that a model blind to reflection
    scores exactly one half. `direction4`: 2 * (green below) + (green right). `absolute`, `color_shift`: 0 upper half, 1
    lower half. `distance`: the column and the row offset from green to red. An image of validation or test occurs once,
    and in no other split; for `direction` this holds for mirrored pairs.
    Shapes: images (N, 3, S, S); targets (N,), for `distance` (N, 2). Units: offsets in sides of the image (-1 to 1).
    Raises: SpecError if all offsets of a split are equal along an axis, because then R^2 is not defined.
    Source: thesis 4 and 5.1. Differs: class and place of the pair are independent; the squares are wholly inside
    their half.
    """
    return {
        split: (paint(spec, scene, colors(spec, split)), _targets(spec, split, scene, labels))
        for split, (scene, labels) in _scenes(spec)
    }


def further_test(spec: RedGreen, number: int) -> tuple[Images, NDArray[Any]]:
    """Returns another draw of the test images, with their targets: drawn as they are, and shared with no other split.

    `number`: of the draw, from 1 on. An image may be in several draws.
    """
    seen = {number for _, (scene, _) in _scenes(spec, SEEN) for number in _numbers(spec, scene).tolist()}
    scene, labels = _scene(spec, "test", numpy_stream(spec.data_seed, "red_green", "test", number), seen)
    return paint(spec, scene, colors(spec, "test")), _targets(spec, "test", scene, labels)


SEEN: tuple[Split, ...] = ("train", "validation")
"""The splits that a model has seen, or was chosen by."""


def _scenes(spec: RedGreen, splits: tuple[Split, ...] = (*SEEN, "test")) -> list[tuple[Split, tuple[Scene, Labels]]]:
    seen: set[int] = set()
    drawn: list[tuple[Split, tuple[Scene, Labels]]] = []
    for split in splits:
        scene, labels = _scene(spec, split, numpy_stream(spec.data_seed, "red_green", split), seen)
        seen.update(_numbers(spec, scene).tolist())
        drawn.append((split, (scene, labels)))
    return drawn


def _scene(spec: RedGreen, split: Split, rng: np.random.Generator, seen: set[int]) -> tuple[Scene, Labels]:
    """Returns where the squares lie in the images of one split, none of them `seen`, with the labels."""
    count = {"train": spec.train_size, "validation": spec.val_size, "test": spec.test_size}[split]
    mirrored = spec.task == "direction" and split != "train"
    scene = _draw(spec, rng, count // 2 if mirrored else count)
    labels: Labels = rng.permutation(np.arange(len(scene), dtype=np.int64) % spec.outputs)  # classes are balanced
    scene = _classed(spec, scene, labels)
    if split != "train":
        scene = _unseen(spec, rng, scene, labels, seen)
    if not mirrored:
        return scene, labels
    twice = Scene(np.repeat(scene.green, 2, axis=0), np.repeat(scene.red, 2, axis=0))
    second = np.arange(len(twice)) % 2 == 1
    return twice.reflected(second, 1, spec.image_size - spec.square), np.repeat(labels, 2) ^ second


def _unseen(spec: RedGreen, rng: np.random.Generator, scene: Scene, labels: Labels, seen: set[int]) -> Scene:
    """Returns the scene with each image drawn again, in its class, until it is new and occurs once.

    Cost: one draw where few images are drawn again; more of them where few different images are left.
    """
    while True:
        numbers = _numbers(spec, scene)
        again = np.isin(numbers, np.fromiter(seen, np.int64, len(seen)))
        first = np.zeros(len(numbers), np.bool_)
        first[np.unique(numbers, return_index=True)[1]] = True
        again |= ~first
        if not again.any():
            return scene
        drawn = _draw(spec, rng, int(again.sum()))
        scene = scene.replaced(again, _classed(spec, drawn, labels[again]))


def _numbers(spec: RedGreen, scene: Scene) -> NDArray[np.int64]:
    """Returns a number for each image, equal for equal images; for `direction` also for mirror images. Shapes: (N,)."""
    side = spec.image_size

    def number(scene: Scene) -> NDArray[np.int64]:
        rows_columns = np.concatenate([scene.green, scene.red], axis=1)
        numbers: NDArray[np.int64] = rows_columns @ np.array([side**3, side**2, side, 1])
        return numbers

    if spec.task != "direction":
        return number(scene)
    mirror = scene.reflected(np.ones(len(scene), np.bool_), 1, side - spec.square)
    return np.minimum(number(scene), number(mirror))


def _targets(spec: RedGreen, split: Split, scene: Scene, labels: Labels) -> NDArray[Any]:
    if spec.task != "distance":
        return labels
    offsets = np.ascontiguousarray((scene.red - scene.green)[:, ::-1] / spec.image_size)
    if split != "train" and not np.ptp(offsets, axis=0).all():
        name = "data.val_size" if split == "validation" else "data.test_size"
        raise SpecError(f"{name} must be so large that the offsets of its images differ, got {len(scene)}")
    return offsets


def colors(spec: RedGreen, split: Split) -> Colors:
    """Returns red and green; in the test images of `color_shift` blue and yellow, which no other image shows."""
    return BLUE_YELLOW if spec.task == "color_shift" and split == "test" else RED_GREEN


def paint(spec: RedGreen, scene: Scene, colors: Colors) -> Images:
    """Returns the images of a scene, its squares `red` and `green` in two colors. Shapes: (N, 3, S, S)."""
    images = np.zeros((len(scene), 3, spec.image_size, spec.image_size), np.uint8)
    line = np.arange(spec.image_size)
    for channels, places in zip(colors, (scene.red, scene.green), strict=True):
        inside = (line >= places[..., None]) & (line < places[..., None] + spec.square)
        pixels = (inside[:, 0, :, None] & inside[:, 1, None, :]) * np.uint8(MAX_VALUE)
        for channel in channels:
            images[:, channel] |= pixels
    return images


def _draw(spec: RedGreen, rng: np.random.Generator, count: int) -> Scene:
    """Draws scenes, uniform among all legal ones: the others are dropped.

    Squares are apart; for `direction` in other columns, for `direction4` also in other rows. They lie anywhere in the
    image, or in its upper half where halves are asked for.
    """
    step = spec.square if spec.aligned else 1
    green, red = np.empty((0, 2), np.int64), np.empty((0, 2), np.int64)
    while len(green) < count:
        new_green = step * rng.integers(0, spec.places, (2 * count + 8, 2))
        new_red = step * rng.integers(0, spec.places, (2 * count + 8, 2))
        offset = np.abs(new_red - new_green)
        legal = (offset >= spec.square).any(axis=1)
        if spec.task in ("direction", "direction4"):
            legal &= offset[:, 1] > 0
        if spec.task == "direction4":
            legal &= offset[:, 0] > 0
        green, red = np.concatenate([green, new_green[legal]]), np.concatenate([red, new_red[legal]])
    return Scene(green[:count], red[:count])


def _classed(spec: RedGreen, scene: Scene, labels: Labels) -> Scene:
    """Returns the scene with each image reflected, where needed, into the class of its label."""
    span = spec.image_size - spec.square
    if spec.halves:
        return scene.reflected(labels == 1, 0, span)
    if spec.task in ("direction", "direction4"):
        right = scene.green[:, 1] > scene.red[:, 1]
        scene = scene.reflected(right != (labels % 2 == 1), 1, span)
    if spec.task == "direction4":
        below = scene.green[:, 0] > scene.red[:, 0]
        scene = scene.reflected(below != (labels >= 2), 0, span)
    return scene
