"""Changes training images at random, batch by batch; `deit_torch` changes photographs before they are floats.

All numbers come from streams named by the run's seed, the epoch and the image (or the step, where images are mixed).
timm draws from the global generators; they are seeded for each step and restored.
"""

from __future__ import annotations

import torch
from timm.data.mixup import Mixup, mixup_target
from torch import Tensor
from torch.nn.functional import pad

from trainables.data.augment import Augment, DeiT, Mixing, Standard, ThreeAugment
from trainables.data.deit_torch import Changes
from trainables.data.splits_torch import Change
from trainables.rng_torch import seeded, stream_seed, torch_stream


class Augmentation:
    """The augmentation of a run. `count`: the training images; `classes`: how many classes soft targets have."""

    def __init__(self, spec: Augment, seed: int, count: int, classes: int) -> None:
        self.spec, self.seed, self.count, self.classes = spec, seed, count, classes
        self._epoch: tuple[int, Tensor] | None = None

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

    @property
    def change(self) -> Change:
        """What cuts a part out of each image, and changes the parts of a batch."""
        assert isinstance(self.spec, DeiT | ThreeAugment), "other kinds change floats alone"
        return Changes(self.spec, self.seed)

    def batch(self, images: Tensor, targets: Tensor, numbers: Tensor, epoch: int, step: int) -> tuple[Tensor, Tensor]:
        """Returns a batch of floats, changed, with its targets: classes, or a probability of each class.

        `numbers`: the numbers of the images. Each image is mixed with the one that is as far from the batch's other
        end, so a worker's share must hold both (`DataParallel.shard`).
        Shapes: (B, C, R, S) and (B,) to the same and (B,) or (B, K).
        """
        if isinstance(self.spec, Standard):
            return self._cropped(self.spec, images, numbers, epoch), targets
        if isinstance(self.spec, Mixing) and self.spec.mixes:
            mixup = Mixup(
                mixup_alpha=self.spec.mixup, cutmix_alpha=self.spec.cutmix, label_smoothing=self.spec.smoothing,
                num_classes=self.classes,
            )  # fmt: skip
            middle, odd = len(images) // 2, len(images) % 2 == 1
            if odd:  # timm wants an even number: the middle one is there twice
                images, targets = (torch.cat([values[: middle + 1], values[middle:]]) for values in (images, targets))
            with seeded(stream_seed(self.seed, "mixup", step)):
                images, targets = mixup(images, targets)
            if odd:
                images, targets = (torch.cat([values[:middle], values[middle + 1 :]]) for values in (images, targets))
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
        if self._epoch is None or self._epoch[0] != epoch:
            stream = torch_stream(self.seed, "augment", epoch)
            self._epoch = epoch, torch.rand(self.count, 3, generator=stream).to(device)
        return self._epoch[1]
