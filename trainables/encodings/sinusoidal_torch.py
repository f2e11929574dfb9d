"""Sines and cosines of the coordinates: fixed, or with learned frequencies that start as the fixed ones."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import pad

from trainables.encodings import sinusoidal
from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Code, CodeND, Grid

FrequenciesK2 = Float[Tensor, "K 2"]


def frequencies(dim: int) -> FrequenciesK2:
    """The linear maps of (x, y) whose sines and cosines are the fixed code: D/4 of x, then D/4 of y.

    Shapes: (D/2, 2), float64. Source: thesis eq. 1, w_k = 10000^(-4k/D).
    Differs: written as one matrix, as eq. 6 needs it.
    """
    waves = 10000.0 ** (-4 * torch.arange(dim // 4, dtype=torch.float64) / dim)
    zeros = torch.zeros_like(waves)
    return torch.cat([torch.stack([waves, zeros], dim=1), torch.stack([zeros, waves], dim=1)])


def waves(coordinates: Tensor, frequencies: Tensor) -> Tensor:
    """Channel 2k is the sine, 2k + 1 the cosine, of frequency k. Shapes: (P, 2) and (K, 2) to (P, 2K)."""
    phases = coordinates @ frequencies.T
    return torch.stack([phases.sin(), phases.cos()], dim=2).flatten(1)


def sinusoidal_table(grid: Grid, dim: int) -> CodeND:
    """The fixed code of the patches, the first half of the channels x, the second y. Shapes: (P, D), float64."""
    return waves(grid.coordinates().double(), frequencies(dim))


class Sinusoidal(Code):
    """The fixed code; prefix tokens get zeros.

    Source: thesis eq. 1. Differs: the class token gets zeros (the thesis does not say).
    """

    def __init__(self, spec: sinusoidal.Sinusoidal, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        table = pad(sinusoidal_table(grid, widths.dim), (0, 0, grid.prefix, 0))
        self.register_buffer("table", table.to(torch.get_default_dtype()), persistent=False)

    def code(self) -> CodeND:
        return self.get_buffer("table")


class LearnableSinusoidal(Code):
    """The same code with learned frequencies, equal to the fixed one at the start; prefix tokens get zeros.

    Shapes: frequencies (D/2, 2). Source: thesis eq. 6. Differs: sine before cosine, as the equality with eq. 1 demands.
    """

    no_decay = ("frequencies",)

    def __init__(self, spec: sinusoidal.LearnableSinusoidal, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        self.dim, self.prefix = widths.dim, grid.prefix
        self.frequencies = nn.Parameter(torch.empty(widths.dim // 2, 2))
        coordinates = grid.coordinates().to(torch.get_default_dtype())
        self.register_buffer("coordinates", coordinates, persistent=False)

    def code(self) -> CodeND:
        return pad(waves(self.get_buffer("coordinates"), self.frequencies), (0, 0, self.prefix, 0))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        value.copy_(frequencies(self.dim))
