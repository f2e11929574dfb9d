"""DeiT's and DeiT III's changes of training images: processes that decode cut out a part; the rest is for batches.

Flips, RandAugment, 3-Augment and erasing are computed on whole batches of bytes, where they are: on a GPU they cost
little of a step, while Pillow, which changes one image after another, takes a core more time for them than to decode a
photograph. What is done to an image is drawn for this image alone, so its pixels depend on no batch.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from timm.data import auto_augment
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.data.transforms import RandomResizedCropAndInterpolation
from torch import Tensor
from torch.nn.functional import conv2d, grid_sample, interpolate, pad

from trainables.data.augment import DeiT, ThreeAugment
from trainables.data.splits_torch import Drawn
from trainables.rng_torch import seeded, stream_seed, torch_stream

RATIO = (3 / 4, 4 / 3)
"""Width over height of the part that is cut out."""
BLURS = (0.1, 2.0)
"""The deviation of the Gaussian by which 3-Augment blurs. Units: pixels."""
ERASED, ERASED_RATIO, TRIES = (0.02, 1 / 3), (0.3, 1 / 0.3), 10
"""The share of an image that is erased, its height over its width, and how often a rectangle is drawn that may fit."""
FILL = tuple(round(255 * mean) for mean in IMAGENET_DEFAULT_MEAN)
"""The color beside an image that is turned or shifted."""
BITS, LEVELS, WHITE, DARK, REACH = 8, 256, 255, 128, 6

Level = tuple[float, ...]
"""How strong a change is, as timm's function of that name has it."""
Named = tuple[str, Level]
"""A change of one image by the name of timm's function."""
Rectangle = tuple[int, int, int, int, int, int]
"""Its top, left, height and width, and the row and the column where its noise begins. Units: pixels."""


@dataclass(frozen=True)
class Chosen:
    """What was drawn for one image. `erased`: the rectangle that becomes noise."""

    flip: bool
    changes: tuple[Named, ...]
    erased: Rectangle | None


@dataclass(frozen=True)
class Changes:
    """The changes of a run's images. `seed`: of the run."""

    spec: DeiT | ThreeAugment
    seed: int

    def __call__(self, image: Image.Image, drawn: Drawn, side: int) -> NDArray[np.uint8]:
        """Returns a random part of an image, resized. Shapes: (3, side, side)."""
        with seeded(stream_seed(self.seed, "augment", *drawn)):
            return random_part(image, self.spec.scale, side)

    def batch(self, images: Tensor, drawn: Sequence[Drawn]) -> Tensor:
        """Returns the parts of a batch, changed. Shapes: (B, 3, side, side) of bytes to the same."""
        side = images.shape[2]
        with seeded(0):
            chosen = [self.choose(image, side) for image in drawn]
        flips = _sent([float(choice.flip) for choice in chosen], images).bool()[:, None, None, None]
        images = torch.where(flips, images.flip(3), images)
        for layer in range(max((len(choice.changes) for choice in chosen), default=0)):
            images = changed(images, [choice.changes[layer : layer + 1] for choice in chosen])
        erased = {number: choice.erased for number, choice in enumerate(chosen) if choice.erased}
        return self._erased(images, erased, drawn[0][0]) if erased else images

    def choose(self, drawn: Drawn, side: int) -> Chosen:
        """Returns what is done to an image of this side. Draws from the global generators, which it seeds."""
        seed = stream_seed(self.seed, "change", *drawn)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        flip = random.random() < self.spec.flip
        if isinstance(self.spec, ThreeAugment):
            blurred = ("gaussian_blur", (random.uniform(*BLURS),))
            change = random.choice([("desaturate", (1.0,)), ("solarize", (float(DARK),)), blurred])
            return Chosen(flip, (change, *_jitter(self.spec.color_jitter)), None)
        changes = _jitter(self.spec.color_jitter) if self.spec.rand is None else _rand_augment(self.spec.rand, side)([])
        erased = _rectangle(side) if random.random() < self.spec.erase else None
        return Chosen(flip, tuple(changes), erased)

    def _erased(self, images: Tensor, rectangles: Mapping[int, Rectangle], epoch: int) -> Tensor:
        """Returns the images; in those of these numbers a rectangle is noise of the mean and deviation of ImageNet.

        The noise of an epoch is one picture, of which each rectangle takes another part.
        """
        side, line = images.shape[2], torch.arange(images.shape[2], device=images.device)
        numbers = _sent([*rectangles], images).long()
        corners = _sent([*rectangles.values()], images).long()[:, :, None]
        top, left, height, width, down, right = corners.unbind(1)
        inside = ((line >= top) & (line < top + height))[:, :, None] & ((line >= left) & (line < left + width))[:, None]
        noise = _noise(self.seed, epoch, side).to(images.device, non_blocking=True)
        taken = noise[:, ((line + down) % side)[:, :, None], ((line + right) % side)[:, None]].transpose(0, 1)
        return images.index_copy(0, numbers, torch.where(inside[:, None], taken, images[numbers]))


def random_part(image: Image.Image, least: float, side: int) -> NDArray[np.uint8]:
    """Returns a random part of an image, resized; it draws from Python's global generator.

    `least`: the smallest share of the area. Bytes differ from Pillow's bicubic ones by at most 2, in 1 of 100 pixels.
    Cost: a third of Pillow's. Shapes: (3, side, side).
    """
    top, left, height, width = RandomResizedCropAndInterpolation.get_params(image, (least, 1.0), RATIO)
    part = torch.from_numpy(np.array(image.crop((left, top, left + width, top + height)))).permute(2, 0, 1)[None]
    resized: Tensor = interpolate(part, (side, side), mode="bicubic", antialias=True)
    pixels: NDArray[np.uint8] = resized[0].contiguous().numpy()
    return pixels


def _jitter(most: float) -> list[Named]:
    """Returns changes of brightness, contrast and saturation by up to this share, in a random order."""
    names = ["brightness", "contrast", "color"] if most else []
    random.shuffle(names)
    return [(name, (random.uniform(1 - most, 1 + most),)) for name in names]


def _rectangle(side: int) -> Rectangle | None:
    """Returns a random rectangle of an image, as timm's RandomErasing; None if it finds none that fits."""
    for _ in range(TRIES):
        area = random.uniform(*ERASED) * side * side
        ratio = math.exp(random.uniform(*(math.log(end) for end in ERASED_RATIO)))
        height, width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if height < side and width < side:
            top, left = random.randint(0, side - height), random.randint(0, side - width)
            return top, left, height, width, random.randrange(side), random.randrange(side)
    return None


@lru_cache(maxsize=2)
def _noise(seed: int, epoch: int, side: int) -> Tensor:
    normal = torch.randn(3, side, side, generator=torch_stream(seed, "erase", epoch))
    mean, std = torch.tensor([IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD])[:, :, None, None]
    return _bytes((normal * std + mean) * 255)


@lru_cache(maxsize=8)
def _rand_augment(text: str, side: int) -> auto_augment.RandAugment:
    """Returns timm's RandAugment, which adds what it would do to an image to a list, in place of an image."""
    drawing = auto_augment.rand_augment_transform(text, {"translate_const": int(side * 0.45), "img_mean": FILL})
    for op in drawing.ops:
        op.aug_fn = partial(_noted, op.aug_fn.__name__)
    return drawing


def _noted(name: str, changes: list[Named], *level: float, **_: Any) -> list[Named]:
    return [*changes, (name, level)]


def changed(images: Tensor, changes: Sequence[Sequence[Named]]) -> Tensor:
    """Returns images, each changed in at most one way. Shapes: (B, 3, S, S) of bytes."""
    groups: dict[str, list[tuple[int, Level]]] = defaultdict(list)
    for number, of_image in enumerate(changes):
        for name, level in of_image:
            groups[name].append((number, level))
    for name, members in groups.items():
        numbers = _sent([number for number, _ in members], images).long()
        levels = _sent([level or (0.0,) for _, level in members], images)[:, 0]
        images = images.index_copy(0, numbers, CHANGES[name](images[numbers], levels))
    return images


def _sent(values: Sequence[Any], like: Tensor) -> Tensor:
    """Returns numbers on the device of a tensor; the host does not wait for it."""
    numbers = torch.tensor(values, dtype=torch.float32)
    return numbers.pin_memory().to(like.device, non_blocking=True) if like.is_cuda else numbers


def _bytes(values: Tensor) -> Tensor:
    return values.round().clamp(0, WHITE).to(torch.uint8)


# What follows are the changes, by timm's names, as Pillow computes them. Shapes: images (B, 3, S, S) of bytes, levels
# (B,), tables (B, 3 or 1, 256).


def _looked_up(images: Tensor, tables: Tensor) -> Tensor:
    whole = tables.expand(-1, 3, -1).clamp(0, WHITE).to(torch.uint8)
    return whole.gather(2, images.flatten(2).long()).view_as(images)


def _values(images: Tensor) -> Tensor:
    """Returns all bytes, as a table that changes nothing. Shapes: (1, 1, 256)."""
    return torch.arange(LEVELS, device=images.device)[None, None]


def _auto_contrast(images: Tensor, _: Tensor) -> Tensor:
    flat = images.flatten(2).float()
    low, high = flat.amin(2, keepdim=True), flat.amax(2, keepdim=True)
    scale = WHITE / (high - low)  # infinite where there is one value, which stays
    stretched = (_values(images) * scale - low * scale).floor()
    return _looked_up(images, torch.where(high > low, stretched, _values(images)))


def _equalize(images: Tensor, _: Tensor) -> Tensor:
    flat = images.flatten(2).long()
    none = torch.zeros(*flat.shape[:2], LEVELS, dtype=torch.int64, device=images.device)
    counts = none.scatter_add_(2, flat, torch.ones_like(flat))  # how many pixels have each byte
    highest = LEVELS - 1 - (counts.flip(2) > 0).byte().argmax(2, keepdim=True)
    step = (counts.sum(2, keepdim=True) - counts.gather(2, highest)) // WHITE
    before = counts.cumsum(2) - counts
    spread = (step // 2 + before) // step.clamp(min=1)
    return _looked_up(images, torch.where(step > 0, spread, _values(images)))


def _posterize(images: Tensor, level: Tensor) -> Tensor:
    """Keeps the first bits; none are black, where Pillow 13 refuses what timm asks for."""
    lost = (2 ** (BITS - level.clamp(0, BITS))).long()[:, None, None]
    return _looked_up(images, _values(images) // lost * lost)


def _blended(other: Tensor, images: Tensor, level: Tensor) -> Tensor:
    """Returns what lies between other bytes (level 0) and the images (1), or beyond the images."""
    mixed = other + level[:, None, None, None] * (images.float() - other)
    return mixed.clamp(0, WHITE).floor().to(torch.uint8)


def _gray(images: Tensor) -> Tensor:
    """Returns Pillow's gray. Shapes: (B, 1, S, S), whole numbers."""
    red, green, blue = torch.split(images.long(), 1, dim=1)
    gray: Tensor = (19595 * red + 38470 * green + 7471 * blue + 0x8000) // 2**16
    return gray.float()


def _contrast(images: Tensor, level: Tensor) -> Tensor:
    mean = (_gray(images).mean((1, 2, 3), keepdim=True) + 0.5).floor()
    return _blended(mean, images, level)


def _sharpness(images: Tensor, level: Tensor) -> Tensor:
    """Blends with the image smoothed; Pillow smooths no pixel at an edge."""
    kernel = torch.ones(3, 1, 3, 3, device=images.device)
    kernel[:, :, 1, 1] = 5
    smooth = images.float()
    smooth[:, :, 1:-1, 1:-1] = (conv2d(images.float(), kernel / kernel[0].sum(), groups=3) + 0.5).floor()
    return _blended(smooth, images, level)


def _gaussian_blur(images: Tensor, level: Tensor) -> Tensor:
    """Blurs with a Gaussian of this deviation; Pillow comes near it with three boxes. Units: pixels."""
    offsets = torch.arange(-REACH, REACH + 1, device=images.device)
    weights = torch.softmax(-(offsets**2) / (2 * level[:, None] ** 2), dim=1)
    count, side = len(images), images.shape[2]
    rows = weights.repeat_interleave(3, 0)[:, None, :, None]
    wide = pad(images.float(), (REACH,) * 4, mode="replicate").view(1, 3 * count, *(side + 2 * REACH,) * 2)
    blurred = conv2d(conv2d(wide, rows, groups=3 * count), rows.transpose(2, 3), groups=3 * count)
    return _bytes(blurred.view_as(images))


def _moved(images: Tensor, *matrix: Tensor | float) -> Tensor:
    """Returns images that have at (x, y) what they had at (ax + by + c, dx + ey + f), from the center of the image.

    Sampled by torch's bicubic kernel, which is a little sharper than Pillow's. Units: pixels.
    """
    side = images.shape[2]
    a, b, c, d, e, f = (value[:, None, None] if isinstance(value, Tensor) else value for value in matrix)
    center = torch.arange(side, device=images.device) + 0.5 - side / 2
    x, y = center[None, None], center[None, :, None]
    column, row = a * x + b * y + c, d * x + e * y + f
    whole = torch.zeros(len(images), side, side, device=images.device)
    places = torch.stack([whole + column, whole + row], dim=3) * (2 / side)
    sampled = grid_sample(images.float(), places, mode="bicubic", padding_mode="border", align_corners=False)
    inside = ((places >= -1) & (places < 1)).all(3)[:, None]
    fill = torch.tensor(FILL, dtype=torch.uint8).to(images.device, non_blocking=True)[None, :, None, None]
    return torch.where(inside, _bytes(sampled), fill)


def _rotate(images: Tensor, level: Tensor) -> Tensor:
    cosine, sine = torch.cos(torch.deg2rad(level)), torch.sin(torch.deg2rad(level))
    return _moved(images, cosine, -sine, 0, sine, cosine, 0)


CHANGES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "auto_contrast": _auto_contrast,
    "brightness": lambda images, level: _blended(torch.zeros_like(images, dtype=torch.float32), images, level),
    "color": lambda images, level: _blended(_gray(images), images, level),
    "contrast": _contrast,
    "desaturate": lambda images, level: _blended(_gray(images), images, (1 - level).clamp(0, 1)),
    "equalize": _equalize,
    "gaussian_blur": _gaussian_blur,
    "invert": lambda images, level: WHITE - images,
    "posterize": _posterize,
    "rotate": _rotate,
    "sharpness": _sharpness,
    "shear_x": lambda images, level: _moved(images, 1, level, level * images.shape[2] / 2, 0, 1, 0),
    "shear_y": lambda images, level: _moved(images, 1, 0, 0, level, 1, level * images.shape[2] / 2),
    "solarize": lambda images, level: torch.where(images < level[:, None, None, None], images, WHITE - images),
    "solarize_add": lambda images, level: torch.where(
        images < DARK, (images + level[:, None, None, None]).clamp(max=WHITE).to(torch.uint8), images
    ),
    "translate_x_rel": lambda images, level: _moved(images, 1, 0, level * images.shape[2], 0, 1, 0),
    "translate_y_rel": lambda images, level: _moved(images, 1, 0, 0, 0, 1, level * images.shape[2]),
}
"""The changes by timm's names. Pillow's shear begins at the upper edge."""
