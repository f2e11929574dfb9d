"""Learned Gabor waves of the coordinates, and markers of the image's edges."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from trainables.encodings import gabor
from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Code, CodeND, Grid

LinesP2 = Float[Tensor, "P 2"]
EdgesP4 = Float[Tensor, "P 4"]


def line_coordinates(grid: Grid) -> LinesP2:
    """Coordinates (x, y) from -1 to 1 along each side, 0 on a side of one patch. Shapes: (P, 2), float64."""
    last = torch.tensor([grid.columns - 1, grid.rows - 1])
    return (2 * grid.coordinates().double() - last) / last.clamp(min=1)


def edge_maps(grid: Grid) -> EdgesP4:
    """Ones on the left, right, upper and lower border, zeros elsewhere. Shapes: (P, 4), float64.

    Source: Gabor paper eq. 8. Differs: the printed matrices are damaged; these are the ones of the sentence above them.
    """
    x, y = grid.coordinates().unbind(1)
    return torch.stack([x == 0, x == grid.columns - 1, y == 0, y == grid.rows - 1], dim=1).double()


def gabor_waves(lines: Tensor, sigma: Tensor, wavelength: Tensor, phase: Tensor) -> Tensor:
    """exp(-x^2 / (2 sigma^2)) cos(2 pi x / wavelength + phase) of each channel along x and y.

    Shapes: lines (P, 2), the others (D, 2), to (P, D, 2). Source: Gabor paper eqs. 5, 6. Differs: centred at 0, for the
    paper's list of parameters and its counts have no centre.
    """
    x = lines[:, None]
    return torch.exp(-x.square() / (2 * sigma.square())) * torch.cos(2 * math.pi * x / wavelength + phase)


class Gabor(Code):
    """A weighted sum of two waves, of four edges, or of both, plus an offset; prefix tokens get vectors of their own.

    Shapes: log_sigma, log_wavelength, phase, weight (D, 2), edges (D, 4), offset (D), prefix (prefix, D): 14 numbers a
    channel with a class token. Source: Gabor paper eqs. 5-9. Differs: sigma and wavelength are learned as logarithms
    and so stay positive; they start log-uniform in 0.3-1.5 and 0.5-4, the phase uniform, the rest with deviation 0.02
    (the paper gives no start).
    """

    no_decay = ("log_sigma", "log_wavelength", "phase", "weight", "edges", "prefix")

    def __init__(self, spec: gabor.Gabor, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        dim = widths.dim
        names: dict[str, tuple[int, ...]] = {"offset": (dim,)}
        if "gabor" in spec.form:
            names |= {name: (dim, 2) for name in ("log_sigma", "log_wavelength", "phase", "weight")}
        if "edge" in spec.form:
            names |= {"edges": (dim, 4)}
        if grid.prefix:
            names |= {"prefix": (grid.prefix, dim)}
        for name, shape in names.items():
            self.register_parameter(name, nn.Parameter(torch.empty(shape)))
        self.waves, self.markers = "gabor" in spec.form, "edge" in spec.form
        self.register_buffer("lines", line_coordinates(grid).to(torch.get_default_dtype()), persistent=False)
        self.register_buffer("edge_maps", edge_maps(grid).to(torch.get_default_dtype()), persistent=False)

    def code(self) -> CodeND:
        code = self.get_buffer("lines").new_zeros(()) + self.get_parameter("offset")
        if self.waves:
            sigma, wavelength = self.get_parameter("log_sigma").exp(), self.get_parameter("log_wavelength").exp()
            waves = gabor_waves(self.get_buffer("lines"), sigma, wavelength, self.get_parameter("phase"))
            code = code + (waves * self.get_parameter("weight")).sum(2)
        if self.markers:
            code = code + self.get_buffer("edge_maps") @ self.get_parameter("edges").T
        prefix = self._parameters.get("prefix")
        return code if prefix is None else torch.cat([prefix, code])

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        if name == "log_sigma":
            value.uniform_(math.log(0.3), math.log(1.5), generator=stream)
        elif name == "log_wavelength":
            value.uniform_(math.log(0.5), math.log(4.0), generator=stream)
        elif name == "phase":
            value.uniform_(-math.pi, math.pi, generator=stream)
        else:
            value.normal_(std=0.02, generator=stream)
