"""Encodings that declare their parameters as data and compute themselves in a method: one file each, without torch.

From the declaration follow the parameters' counts, initial values, weight decay and resampling to other grids. The
methods receive tensors and use tensor methods alone, so that this file and those of such encodings import no torch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from trainables.encodings.encoding import Grid, PairSpec, Shape, Widths

Init = Callable[[Any, Any], object]
"""Fills a tensor with initial values in place, drawing from a torch generator: `init(value, generator)`."""


@dataclass(frozen=True)
class Param:
    """One parameter: its shape, its initial values, whether weight decay applies, how it fits another grid.

    `resample`: "grid" for a table with a row for each patch, or for each token with the prefix rows first; "rows" or
    "columns" for a table with a vector for each row or column of patches. Such tables are resampled bicubically for
    another grid. Other parameters stay as they are.
    """

    shape: tuple[int, ...]
    init: Init
    decay: bool = False
    resample: Literal["grid", "rows", "columns"] | None = None


Params = Mapping[str, Param]
"""Parameters by name. A name may have dots, as in `mlp.0.weight`."""


def count(params: Params) -> int:
    """Returns the number of values in all parameters."""
    return sum(math.prod(param.shape) for param in params.values())


def normal(std: float) -> Init:
    """Draws normal values around 0."""
    return lambda value, generator: value.normal_(std=std, generator=generator)


def trunc_normal(std: float) -> Init:
    """Draws normal values around 0, cut at -2 and 2, as timm initializes tables."""

    def fill(value: Any, generator: Any) -> None:
        from trainables.encodings.initial_torch import fill_trunc_normal

        fill_trunc_normal(value, std, generator)

    return fill


def uniform(low: float, high: float) -> Init:
    """Draws uniform values."""
    return lambda value, generator: value.uniform_(low, high, generator=generator)


def zeros() -> Init:
    """Fills with zeros."""
    return lambda value, generator: value.zero_()


def values(rows: Sequence[Any]) -> Init:
    """Fills with given values, as nested lists of numbers."""
    return lambda value, generator: value.copy_(value.new_tensor(rows))


def linear(name: str, inputs: int, outputs: int) -> dict[str, Param]:
    """Declares weight and bias of a linear layer as `torch.nn.Linear` has them: uniform within 1 / sqrt(inputs)."""
    bound = 1 / math.sqrt(inputs)
    init = uniform(-bound, bound)
    return {f"{name}.weight": Param((outputs, inputs), init, decay=True), f"{name}.bias": Param((outputs,), init)}


class HeadsSpec(PairSpec):
    """An encoding inside attention that declares its parameters.

    `terms` is computed once in a forward pass, in float32 whatever precision the backbone has; `heads` applies it in
    each block. If a subclass has a number of `draws`, `at.drawn` has so many random numbers from 0 to 1 in training,
    others at each step, and is None in evaluation. A subclass declares `modifies_qk` where `heads` changes queries or
    keys, `reads_qk` where it reads them, and `accepts_fewer_queries` where `heads` is right also if only the first
    tokens have queries (`h.queries` of them).
    """

    accepts_fewer_queries: ClassVar[bool] = False
    modifies_qk: ClassVar[bool] = False
    reads_qk: ClassVar[bool] = False

    def params(self, widths: Widths, grid: Grid, depth: int) -> Params:
        """Returns the parameters for a ViT of these widths, grid and number of blocks."""
        return {}

    def terms(self, p: Any, at: Any) -> tuple[Any, ...]:
        """Returns tensors that all blocks use, from the parameters and the positions of the tokens."""
        raise NotImplementedError

    def heads(self, h: Any, terms: tuple[Any, ...], block: int) -> Any:
        """Changes queries, keys, values and the term of the logits, between projection and softmax of a block."""
        raise NotImplementedError

    def parameters(self, shape: Shape) -> int:
        return count(self.params(shape.widths, Grid.of(shape), shape.depth))
