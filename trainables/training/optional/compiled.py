"""Compiles what a run computes in a training step with `torch.compile`, where a placement asks for it.

A compiled run has the recipe and the key of any other. Its numbers differ in the last digits, because torch joins
operations and sums in another order. So a run's environment records whether it was compiled, and in how many graphs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch._dynamo.utils import counters


def compiled(computed: Any, backend: str = "inductor") -> Any:
    """Returns the same module, or a function like the given one, that from now on computes compiled graphs.

    The names in a module's state dict stay. Modules inside it compute as before where they are called themselves, as a
    model is in evaluation. There is a graph for each size of a batch: a full batch, the last one of an epoch and their
    parts have at most five sizes. A graph for all sizes would be slower, and a resumed run would use other graphs than
    an undisturbed one.
    Cost: seconds to minutes for each graph; a process that trains another run of the same model finds it in a cache.
    """
    torch._dynamo.reset()  # forgets the graphs of earlier runs of this process, which count toward torch's limit
    counters.clear()
    if not isinstance(computed, nn.Module):
        return torch.compile(computed, backend=backend, dynamic=False)
    computed.compile(backend=backend, dynamic=False)
    return computed


def graphs() -> int:
    """Returns how many graphs were compiled since the last call of `compiled`: one for each size of a batch.

    More mean that torch cannot trace some of the model in one piece, such as an encoding of a user's own.
    """
    return int(counters["stats"]["unique_graphs"])
