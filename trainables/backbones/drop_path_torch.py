"""Stochastic depth: training leaves out branches of blocks at random. It draws again for each image.

The random numbers do not come from a global generator. They are drawn for a step and given to the modules before the
forward pass, so they are a function of the seed, the step and the image's place in the batch: a resumed run, a batch
computed in parts and one shared by several workers have the same ones.
"""

from __future__ import annotations

import torch
from timm.layers import DropPath as TimmDropPath
from torch import Tensor, nn

from trainables.rng_torch import torch_stream
from trainables.spec import LocusError


class DropPath(nn.Module):
    """timm's DropPath with given random numbers: a branch times 0, or times 1 / (1 - drop_prob), an image.

    Source: Huang et al. 2016, Deep networks with stochastic depth; timm scales what it keeps in training, and so
    changes nothing in evaluation. Differs: nothing but where random numbers come from.
    """

    def __init__(self, drop_prob: float) -> None:
        super().__init__()
        self.drop_prob = drop_prob
        self.factors: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        """Returns the branch as it is kept. Shapes: (B, N, D) to the same. Raises: LocusError without numbers."""
        if not self.training:
            return x
        if self.factors is None:
            must = "given random numbers before each forward pass in training (assign_factors)"
            raise LocusError(f"model.drop_path must be {must}, got none; model.eval() leaves nothing out")
        factors, self.factors = self.factors, None  # a second pass must not use them again
        return x * factors.to(torch.promote_types(x.dtype, torch.float32))[:, None, None]


def replace_drop_paths(model: nn.Module) -> None:
    """Puts a DropPath with the same rate in the place of each of timm's."""
    for block in model.modules():
        for name, module in [*block.named_children()]:
            if isinstance(module, TimmDropPath):
                setattr(block, name, DropPath(module.drop_prob))


def draw_factors(model: nn.Module, images: int, seed: int, step: int) -> Tensor:
    """Returns the factors of all branches for the images of a step. Shapes: (B, branches) float64."""
    drops = torch.tensor([drop.drop_prob for drop in _drop_paths(model)], dtype=torch.float64)
    drawn = torch.rand((images, len(drops)), dtype=torch.float64, generator=torch_stream(seed, "drop_path", step))
    return (drawn >= drops) / (1 - drops)


def assign_factors(model: nn.Module, factors: Tensor) -> None:
    """Gives the factors of some images to the modules, for the next forward pass. Shapes: (B, branches)."""
    for drop, column in zip(_drop_paths(model), factors.unbind(dim=1), strict=True):
        drop.factors = column


def _drop_paths(model: nn.Module) -> list[DropPath]:
    return [module for module in model.modules() if isinstance(module, DropPath)]
