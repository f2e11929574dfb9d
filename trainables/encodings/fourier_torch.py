"""Learnable Fourier features of the coordinates, through a small MLP."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from trainables.encodings import fourier
from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Code, CodeND, Grid


def fourier_features(coordinates: Tensor, frequencies: Tensor) -> Tensor:
    """All cosines, then all sines, over the root of their number. Shapes: (P, 2) and (F/2, 2) to (P, F).

    With frequencies of standard deviation 1/gamma the expected inner product of two places at distance d is
    0.5 exp(-d^2 / (2 gamma^2)). Source: thesis eq. 3. Differs: eq. 4 drops two factors.
    """
    phases = coordinates @ frequencies.T
    return torch.cat([phases.cos(), phases.sin()], dim=1) / math.sqrt(2 * frequencies.shape[0])


def scaled_coordinates(grid: Grid, scale: str) -> Tensor:
    """Coordinates (x, y) in patches (`raw`), or from 0 to 1 along each side (`unit`). Shapes: (P, 2), float64."""
    raw = grid.coordinates().double()
    extent = torch.tensor([grid.columns - 1, grid.rows - 1]).clamp(min=1)
    return raw if scale == "raw" else raw / extent


class Fourier(Code):
    """Fourier features with learned frequencies, mixed by an MLP; prefix tokens get zeros.

    Shapes: frequencies.weight (F/2, 2), mlp F -> hidden -> D. Units: gamma in patches (raw) or grid widths (unit).
    Source: thesis eq. 3; Li et al. 2021, algorithm 1. Differs: frequencies start with standard deviation 1/gamma
    (public ports use other powers), the MLP as torch's linear layers.
    """

    no_decay = ("frequencies.weight",)

    def __init__(self, spec: fourier.Fourier, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        features = spec.features or widths.dim
        self.gamma, self.prefix = spec.gamma, grid.prefix
        self.frequencies = nn.Linear(2, features // 2, bias=False)
        self.mlp = nn.Sequential(nn.Linear(features, spec.hidden), nn.GELU(), nn.Linear(spec.hidden, widths.dim))
        coordinates = scaled_coordinates(grid, spec.coordinates).to(torch.get_default_dtype())
        self.register_buffer("coordinates", coordinates, persistent=False)

    def code(self) -> CodeND:
        code = self.mlp(fourier_features(self.get_buffer("coordinates"), self.frequencies.weight))
        return pad(code, (0, 0, self.prefix, 0))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        if name == "frequencies.weight":
            value.normal_(std=1 / self.gamma, generator=stream)
        else:
            super().init_parameter(name, value, stream)
