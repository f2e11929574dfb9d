"""The workers that train one run together, each with a share of every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from trainables.backbones.backbone_torch import Host
from trainables.spec import SpecError

AGREE_STEPS = 50
"""Steps after which the workers of a run agree whether to save; it costs a message, and waits for the GPU."""


@dataclass(frozen=True)
class DataParallel:
    """One of the workers of a run: its rank, how many workers there are, and how its objective is wrapped (DDP).

    With more than one worker, torch's process group must have been initialized, and all workers must see the run's
    folder; rank 0 alone writes. `more_parts`: a batch is computed in so many times the parts that a recipe says.
    """

    rank: int = 0
    world_size: int = 1
    wrap: Callable[[nn.Module], nn.Module] = lambda module: module
    more_parts: int = 1

    def share(self, rows: Tensor) -> Tensor:
        """Returns the rows of this worker in a batch of all workers; the first row where none is left for it.

        The first and the last row, the second and the last but one, and so on are of one worker, because augmentation
        mixes such pairs of images.
        """
        if self.world_size == 1:
            return rows
        count = len(rows)
        if self.idle(count):
            return rows[:1]
        # indices are made on the device, so that no copy waits for it
        first = torch.arange(self.rank, (count + 1) // 2, self.world_size, device=rows.device)
        mirrored = torch.arange(self.rank, max(count // 2, self.rank), self.world_size, device=rows.device)
        return rows[torch.cat([first, count - 1 - mirrored.flip(0)])]

    def idle(self, count: int) -> bool:
        """Returns whether no row of a batch of so many is this worker's; it happens at the end of an epoch."""
        return self.rank >= (count + 1) // 2

    def parts(self, module: Any, images: int, count: int) -> Iterator[slice]:
        """Yields the parts in which this worker computes its images, at most `count * more_parts`, as equal as can be.

        Gradients of a wrapped module are exchanged with the last part alone, for its forward and its backward.
        """
        count = min(count * self.more_parts, images)
        for part in range(count):
            waits = self.world_size > 1 and part < count - 1
            with module.no_sync() if waits else nullcontext():
                yield slice(images * part // count, images * (part + 1) // count)

    def broadcast_buffers(self, model: nn.Module) -> None:
        """Copies the statistics of rank 0 to all workers, because rank 0 saves its own."""
        if self.world_size > 1:
            for value in saved_buffers(model).values():
                torch.distributed.broadcast(value, 0)

    def rank_0(self, condition: Callable[[], bool], step: int, device: torch.device) -> bool:
        """Returns whether a condition holds on rank 0, to all workers; several of them ask every 50 steps only."""
        if self.world_size == 1:
            return condition()
        if step % AGREE_STEPS:
            return False
        verdict = torch.tensor(int(self.rank == 0 and condition()), device=device)
        torch.distributed.broadcast(verdict, 0)
        return bool(verdict)

    def all_reduce(self, value: Tensor) -> Tensor:
        """Returns the sum of a value over all workers."""
        if self.world_size > 1:
            torch.distributed.all_reduce(value)
        return value

    def synchronized(self, model: Host, device: torch.device) -> Host:
        """Returns the model, with batch norms over the whole batch of all workers where there are several.

        Raises: SpecError if a batch norm learns on CPUs, which torch cannot synchronize.
        """
        if self.world_size == 1 or not any(_learns(module) for module in model.modules()):
            return model
        if device.type != "cuda":
            raise SpecError(f"workers must be 0 on CPUs where a model has batch norms, got {self.world_size}")
        synchronized: Host = nn.SyncBatchNorm.convert_sync_batchnorm(model)  # type: ignore[no-untyped-call]
        return synchronized


def saved_buffers(model: nn.Module) -> dict[str, Tensor]:
    """Returns the buffers that are saved, such as running statistics; others are fixed tables, equal on all workers."""
    learned = {name for name, _ in model.named_parameters()}
    return {name: value for name, value in model.state_dict().items() if name not in learned}


def check_accumulate(model: nn.Module, count: int) -> None:
    """Refuses batches in parts where a batch norm learns, as one of a user's own: it would normalize each by itself.

    Raises: SpecError.
    """
    if count > 1 and any(_learns(module) for module in model.modules()):
        raise SpecError(f"optimizer.accumulate must be 1 where a batch norm learns, got {count}")


def _learns(module: nn.Module) -> bool:
    """Returns whether a module normalizes by batches in training; a frozen one keeps its statistics."""
    return isinstance(module, nn.modules.batchnorm._BatchNorm) and module.weight.requires_grad


SINGLE = DataParallel()
"""One worker for the whole run."""
