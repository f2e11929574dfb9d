"""Dense relative localization: an auxiliary loss, for which tokens must predict how far apart their patches are."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn

from trainables.encodings.encoding_torch import Grid, Tokens
from trainables.encodings.initial_torch import torch_init
from trainables.recipe import DRLoc
from trainables.rng_torch import torch_stream
from trainables.training.init import init_weights


class Localization(nn.Module):
    """An MLP that predicts the absolute offset of two patches from their last tokens, and its error.

    Source: Liu et al. 2021, Efficient training of visual transformers with small datasets, section 4.
    Differs: the error is a mean over the two coordinates, as the published code has it; `unit` offsets are over the
    numbers of columns and rows, as the paper has it; the weight is constant; grids need not be square.
    """

    def __init__(self, spec: DRLoc, dim: int, seed: int) -> None:
        super().__init__()
        self.spec, self.seed = spec, seed
        widths = (2 * dim, spec.hidden, spec.hidden, 2)
        with torch.random.fork_rng(devices=[]):  # torch draws from the global generator, which must not change
            first, second, last = (nn.Linear(*pair) for pair in pairwise(widths))
        self.mlp = nn.Sequential(first, nn.ReLU(), second, nn.ReLU(), last)
        init_weights(nn.ModuleDict({"drloc": self}), seed)  # its parameters have qualified names of their own

    def places(self, images: int, step: int) -> Tensor:
        """Returns the pairs of patches of a step's images, as shares of the number of patches, for grids of any size.

        Shapes: (B, pairs, 2) float64. Units: 0 <= share < 1; each is uniform, so a pair may be one patch twice.
        """
        stream = torch_stream(self.seed, "drloc", step)
        return torch.rand((images, self.spec.pairs, 2), dtype=torch.float64, generator=stream)

    def forward(self, t: Tokens, places: Tensor) -> Tensor:
        """Returns the weighted L1 error of the offsets: a mean over pairs and coordinates, a sum over images."""
        patches = t.x[:, t.grid.prefix :]
        pairs = (places * t.grid.patches).long()
        image = torch.arange(len(patches), device=patches.device)[:, None, None]
        predicted = self.mlp(patches[image, pairs].flatten(2))
        error: Tensor = (predicted.double() - self.offsets(pairs, t.grid)).abs()
        return self.spec.weight * error.mean(dim=(1, 2)).sum()

    def offsets(self, pairs: Tensor, grid: Grid) -> Tensor:
        """Returns the absolute offsets (x, y) of pairs of patches. Shapes: (B, pairs, 2) to the same, float64."""
        coordinates = torch.stack([pairs % grid.columns, pairs // grid.columns], dim=3).double()
        apart = (coordinates[:, :, 0] - coordinates[:, :, 1]).abs()
        if self.spec.offsets == "patches":
            return apart
        return torch.stack([apart[..., 0] / grid.columns, apart[..., 1] / grid.rows], dim=2)

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Initializes the MLP as torch does; the published code does the same."""
        torch_init(self, name, value, stream)
