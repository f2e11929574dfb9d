"""The workers that train one run together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn


def _alone(module: nn.Module) -> nn.Module:
    return module


@dataclass(frozen=True)
class Team:
    """The workers that train one run together: this one's rank, how many they are, how the objective is wrapped (DDP).

    With more than one, torch's process group must stand, and all must see the run's folder; rank 0 alone writes.
    """

    rank: int = 0
    size: int = 1
    wrap: Callable[[nn.Module], nn.Module] = _alone

    def share(self, chosen: Tensor) -> Tensor:
        """The part of the images chosen for all that is this worker's; may be empty at the end of an epoch."""
        return chosen[self.rank :: self.size]

    def agree(self, model: nn.Module) -> None:
        """Gives all workers the statistics of rank 0, which are those that it saves."""
        if self.size > 1:
            for value in model.buffers():
                torch.distributed.broadcast(value, 0)

    def total(self, value: Tensor) -> Tensor:
        """The sum of a value over all workers."""
        if self.size > 1:
            torch.distributed.all_reduce(value)
        return value


SOLO = Team()
"""One worker for the whole run."""
