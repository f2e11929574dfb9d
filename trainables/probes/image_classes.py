"""Image classes: what position does to single images, from predictions with and without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainables.probes.inputs import ProbeError, float64

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class ImageClasses:
    """Which images are in which class, each in exactly one. Shapes: (images,) each.

    `ignored`: right with and without position; `mislead`: right only without; `correct`: right only with; `useless`:
    wrong in both.
    """

    ignored: Mask
    mislead: Mask
    correct: Mask
    useless: Mask

    @property
    def counts(self) -> dict[str, int]:
        """How many images are in each class."""
        return {name: int(mask.sum()) for name, mask in vars(self).items()}


def image_classes(with_position: Any, without_position: Any, targets: Any) -> ImageClasses:
    """The class of each image, from the predictions of two models and the true classes.

    Shapes: predictions (images,) as classes, or (images, outputs) of which the largest counts; targets (images,).
    Raises: ProbeError where they differ in their number of images.
    Source: Gabor paper 4.2, table 2. Differs: nothing; both models share one frozen backbone there.
    """
    truth = float64(targets)
    said = [_classes(outputs) for outputs in (with_position, without_position)]
    if any(one.shape != truth.shape for one in said) or truth.ndim != 1:
        shapes = ", ".join(str(one.shape) for one in (*said, truth))
        raise ProbeError(f"predictions and targets must be of the same images, got {shapes}")
    with_it, without_it = (one == truth for one in said)
    return ImageClasses(with_it & without_it, ~with_it & without_it, with_it & ~without_it, ~with_it & ~without_it)


def _classes(outputs: Any) -> NDArray[Any]:
    found = float64(outputs)
    return found.argmax(axis=1) if found.ndim == 2 else found
