"""Gradient checkpointing: training keeps what goes into each block alone, and computes its inside again going back.

A run needs far less memory and more time (deploy/gpu-first-hour.md has figures). It has the recipe, the key and the
numbers of any other: the same operations run in the same order, twice. timm and PyTorch call it so, too; it is no
checkpoint of a run.
Source: Chen et al. 2016, Training deep nets with sublinear memory cost. Differs: each block is a segment, as in timm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from trainables.backbones.drop_path_torch import DropPath
from trainables.encodings.declared_torch import Declared, that_draw
from trainables.encodings.encoding_torch import Tokens
from trainables.spec import SpecError

ATTENTIONS = {"attn", "attn_in", "attn_out"}
"""The names of what attends in a block, in timm's models; TNT's blocks have two."""


def checkpointed(module: nn.Module) -> nn.Module:
    """Returns the same module, whose blocks from now on keep their inputs alone while they train.

    A block is what has attention: also those of pyramids and windows. Evaluations, which keep nothing, stay as they
    are. Raises: as `require_still`. A recipe is refused before (`check_placement`); a user's own encoding may have one.
    """
    require_still(module)
    drawing = [encoding for _, encoding in that_draw(module)]
    for block in module.modules():
        if ATTENTIONS & {child for child, _ in block.named_children()}:
            block.forward = _Recomputed(block, drawing)
    return module


def require_still(module: nn.Module) -> None:
    """Raises: SpecError if a batch norm learns, whose statistics a second pass would move again."""
    norms = (part for part in module.modules() if isinstance(part, nn.modules.batchnorm._BatchNorm))
    if any(norm.weight.requires_grad for norm in norms):
        raise SpecError("grad_checkpointing must be false where a batch norm learns, got true")


class _Recomputed:
    """The forward pass of a block that is done again in the backward pass, with the same random numbers.

    `drawing`: the encodings of the model that need random numbers in training. It is no function: a copy of the model,
    as a moving average of weights is, must compute with its own blocks.
    """

    def __init__(self, block: nn.Module, drawing: list[Declared]) -> None:
        self._block, self._drawing, self._compute = block, drawing, block.forward

    def __call__(self, *args: Any, **named: Any) -> Any:
        if not (torch.is_grad_enabled() and self._block.training):
            return self._compute(*args, **named)
        drops = [part for part in self._block.modules() if isinstance(part, DropPath)]
        return checkpoint(Repeated(self._compute, drops, self._drawing, args), *args, use_reentrant=False, **named)


class Repeated:
    """What a block computes for some tokens, each time as the first time.

    A first pass fills the cache of the tokens and takes the random numbers of stochastic depth and of encodings; later
    ones get all as they were.
    """

    def __init__(
        self, compute: Callable[..., Any], drops: list[DropPath], drawing: list[Declared], args: tuple[Any, ...]
    ) -> None:
        self._compute, self._drops, self._drawing = compute, drops, drawing
        self._factors, self._numbers = [drop.factors for drop in drops], [encoding.drawn for encoding in drawing]
        self._caches = [dict(arg.cache) for arg in args if isinstance(arg, Tokens)]
        self._again = False

    def __call__(self, *args: Any, **named: Any) -> Any:
        if self._again:
            caches = iter(self._caches)
            args = tuple(replace(arg, cache=dict(next(caches))) if isinstance(arg, Tokens) else arg for arg in args)
            for drop, factors in zip(self._drops, self._factors, strict=True):
                drop.factors = factors
            for encoding, numbers in zip(self._drawing, self._numbers, strict=True):
                encoding.drawn = numbers
        self._again = True
        return self._compute(*args, **named)
