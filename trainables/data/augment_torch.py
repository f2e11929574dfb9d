"""Changes training images at random: on whole batches, and for DeiT's augmentations image by image before.

All numbers come from streams named by the run's seed, the epoch and the image (or the step, where images are mixed).
timm draws from the global generators; they are seeded for each image and restored.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, ImageFilter, ImageOps
from timm.data import auto_augment, create_transform
from timm.data.constants import IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD
from timm.data.mixup import Mixup, mixup_target
from timm.data.random_erasing import RandomErasing
from torch import Tensor
from torch.nn.functional import pad
from torchvision import transforms

from trainables.data.augment import Augment, DeiT, Mixing, Standard, ThreeAugment
from trainables.data.splits_torch import Drawn
from trainables.rng_torch import seeded, stream_seed, torch_stream


def _posterized(image: Image.Image, bits: int, **_: Any) -> Image.Image:
    """Returns an image with fewer bits a channel; with none it is black, where Pillow 13 refuses what timm asks for."""
    return auto_augment.posterize(image, bits) if bits else Image.new(image.mode, image.size)


def _blurred(image: Image.Image) -> Image.Image:
    return image.filter(ImageFilter.GaussianBlur(random.uniform(0.1, 2.0)))


class Augmentation:
    """The augmentation of a run. `count`: the training images; `classes`: how many classes soft targets have."""

    def __init__(self, spec: Augment, seed: int, count: int, classes: int) -> None:
        self.spec, self.seed, self.count, self.classes = spec, seed, count, classes
        self._epoch: tuple[int, Tensor] | None = None
        self._transforms: dict[int, Callable[[Image.Image], Tensor]] = {}

    @property
    def by_image(self) -> bool:
        """Whether images are changed one by one, before they are a batch."""
        return isinstance(self.spec, Mixing)

    @property
    def repeats(self) -> int:
        """How often an image is drawn in a row of an epoch."""
        return self.spec.repeats if isinstance(self.spec, Mixing) else 1

    def repeated(self, order: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the images of an epoch, each some times in a row, as many in all; and how often each came before.

        Source: DeiT's repeated augmentation. Differs: with several workers the copies may be in one worker's share.
        Shapes: (N,) to (N,) and (N,).
        """
        copies = torch.arange(self.repeats, device=order.device).repeat(len(order))
        return order.repeat_interleave(self.repeats)[: len(order)], copies[: len(order)]

    def change(self, image: Image.Image, drawn: Drawn, side: int) -> NDArray[np.uint8]:
        """Returns one image, changed. Shapes: (3, side, side)."""
        with seeded(stream_seed(self.seed, "augment", *drawn)):
            pixels = np.asarray(self._transform(side)(image))
            erased = isinstance(self.spec, DeiT) and random.random() < self.spec.erase
            return self._erased(pixels) if erased else pixels

    def batch(self, images: Tensor, targets: Tensor, numbers: Tensor, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """Returns a batch of floats, changed, with its targets: classes, or a probability of each class.

        `numbers`: the numbers of the images. If images are mixed, a worker's share must hold the two images that
        are mixed, the first of one half and the last of the other (`DataParallel.shard`).
        Shapes: (B, C, R, S) and (B,) to the same and (B,) or (B, K).
        """
        if isinstance(self.spec, Standard):
            return self._cropped(self.spec, images, numbers, epoch), targets
        if isinstance(self.spec, Mixing) and self.spec.mixes:
            images, targets = self._mixed(self.spec, images, targets, step)
        elif isinstance(self.spec, Mixing) and self.spec.soft:
            targets = mixup_target(targets, self.classes, 1.0, self.spec.smoothing)
        return images, targets.to(images.dtype) if targets.is_floating_point() else targets

    def _cropped(self, spec: Standard, images: Tensor, numbers: Tensor, epoch: int) -> Tensor:
        """Returns each image shifted by up to the border, and flipped or not."""
        rows, columns = images.shape[2:]
        drawn = self._table(epoch, images.device)[numbers]
        shift = (drawn[:, :2] * (2 * spec.border + 1)).long()
        flip = drawn[:, 2] < spec.flip
        row = shift[:, :1] + torch.arange(rows, device=images.device)
        column = torch.arange(columns, device=images.device).expand(len(images), -1)
        column = shift[:, 1:2] + torch.where(flip[:, None], column.flip(1), column)
        bordered = pad(images, (spec.border,) * 4)
        image = torch.arange(len(images), device=images.device)[:, None, None]
        return bordered.permute(0, 2, 3, 1)[image, row[:, :, None], column[:, None, :]].permute(0, 3, 1, 2)

    def _table(self, epoch: int, device: torch.device) -> Tensor:
        """Returns three random numbers for each training image of an epoch."""
        if self._epoch is None or self._epoch[0] != epoch:
            stream = torch_stream(self.seed, "augment", epoch)
            self._epoch = epoch, torch.rand(self.count, 3, generator=stream).to(device)
        return self._epoch[1]

    def _mixed(self, spec: Mixing, images: Tensor, targets: Tensor, step: int) -> tuple[Tensor, Tensor]:
        """Returns each image mixed with the one that is as far from the batch's other end."""
        mixup = Mixup(
            mixup_alpha=spec.mixup, cutmix_alpha=spec.cutmix, label_smoothing=spec.smoothing, num_classes=self.classes
        )
        middle = len(images) // 2
        odd = len(images) % 2 == 1
        if odd:  # timm wants an even number: the middle one is there twice
            images, targets = (torch.cat([of[: middle + 1], of[middle:]]) for of in (images, targets))
        with seeded(stream_seed(self.seed, "mixup", step)):
            images, targets = mixup(images, targets)
        if odd:
            images, targets = (torch.cat([of[:middle], of[middle + 1 :]]) for of in (images, targets))
        return images, targets

    def _transform(self, side: int) -> Callable[[Image.Image], Tensor]:
        """Returns the transform of timm for images of a side, up to bytes."""
        assert isinstance(self.spec, Mixing), "other kinds change whole batches"
        if side not in self._transforms:
            crop, change, end = create_transform(
                side, is_training=True, use_prefetcher=True, scale=(self.spec.scale, 1.0), hflip=self.spec.flip,
                auto_augment=self.spec.rand if isinstance(self.spec, DeiT) else None, re_prob=0.0, separate=True,
                color_jitter=self.spec.color_jitter or None, interpolation="bicubic",
            )  # fmt: skip
            for op in (op for step in change.transforms for op in getattr(step, "ops", ())):
                op.aug_fn = _posterized if op.aug_fn is auto_augment.posterize else op.aug_fn
            three = [transforms.Grayscale(3), ImageOps.solarize, _blurred]
            first = [transforms.RandomChoice(three)] if isinstance(self.spec, ThreeAugment) else []
            self._transforms[side] = transforms.Compose([crop, *first, change, end])
        return self._transforms[side]

    def _erased(self, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Returns an image in which a rectangle is noise of the mean and deviation of ImageNet's pixels."""
        mean, std = (torch.tensor(of)[:, None, None] for of in (IMAGENET_DEFAULT_MEAN, IMAGENET_DEFAULT_STD))
        normalized = (torch.from_numpy(pixels) / 255 - mean) / std
        erased: Tensor = RandomErasing(1.0, mode="pixel", device="cpu")(normalized)
        noisy: NDArray[np.uint8] = ((erased * std + mean) * 255).round().clamp(0, 255).to(torch.uint8).numpy()
        return noisy
