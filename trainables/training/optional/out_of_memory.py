"""What a run does where a GPU's memory does not hold a batch: it is trained again in twice as many parts, once.

The batch stays the same, for the gradients of its parts add up (`optimizer.accumulate`); the last digits may differ.
"""

from __future__ import annotations

import gc

import torch

from trainables.recipe import Recipe
from trainables.recipe.cost import estimate_cost
from trainables.recipe.optimizer import normalizes_batches
from trainables.spec import LocusError
from trainables.training.runtime import release_memory

FACTOR = 2
"""By how much the number of parts grows."""


class GpuMemoryError(LocusError):
    """A run that the memory of its GPU does not hold."""


def check_parts(recipe: Recipe, world_size: int, device: str) -> None:
    """Checks that a run may be trained in more parts. Raises: GpuMemoryError with advice."""
    parts = FACTOR * recipe.optimizer.accumulate
    if normalizes_batches(recipe.model, recipe.encoding, recipe.trainable):
        raise too_large(recipe, 1, device, "a batch norm that learns must see a batch as a whole")
    if world_size > 1:  # the others wait for this worker's gradients
        raise too_large(recipe, 1, device, "a group of workers is not trained again in more parts")
    if parts > recipe.optimizer.batch_size:
        raise too_large(recipe, 1, device)


def too_large(recipe: Recipe, factor: int, device: str, why: str = "") -> GpuMemoryError:
    """Returns the error for a run in so many times the parts of its recipe, with what needs less memory."""
    batch, parts = recipe.optimizer.batch_size, factor * recipe.optimizer.accumulate
    predicted = f"{estimate_cost(recipe).memory_bytes / 2**30:.1f} GiB a run were predicted"
    if device.startswith("cuda"):
        predicted += f", the GPU has {torch.cuda.get_device_properties(device).total_memory / 2**30:.1f} GiB"
    greater = "" if why else "a greater optimizer.accumulate, "
    advice = f"{greater}a smaller optimizer.batch_size or fewer runs on a GPU (--runs-per-gpu) need less memory"
    must = f"optimizer.batch_size must fit into the GPU's memory, got {batch} images in {parts} part{'s' * (parts > 1)}"
    return GpuMemoryError("; ".join(text for text in (must, predicted, why, advice) if text))


def free_memory() -> None:
    """Frees what a failed training held; its error must be gone, because the frames in an error hold tensors."""
    gc.collect()
    release_memory()
