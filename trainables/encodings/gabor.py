"""Learned Gabor waves of the coordinates, and markers of the image's edges."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from trainables.encodings.declared import Param, Params, normal, uniform
from trainables.encodings.encoding import Grid
from trainables.encodings.injection import CodeSpec

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import CodeND


def edge_maps(at: Positions) -> Any:
    """Returns ones on the left, right, upper and lower border, zeros elsewhere. Shapes: (P, 4).

    Source: Gabor paper eq. 8. Differs: the printed matrices are damaged; these follow the sentence above them.
    """
    return at.stack(at.x == 0, at.x == at.grid.columns - 1, at.y == 0, at.y == at.grid.rows - 1)


def gabor_waves(lines: Any, sigma: Any, wavelength: Any, phase: Any) -> Any:
    """Computes exp(-x^2 / (2 sigma^2)) cos(2 pi x / wavelength + phase) of each channel along x and y.

    Shapes: lines (P, 2), the others (D, 2), to (P, D, 2). Source: Gabor paper eqs. 5, 6. Differs: centered at 0,
    because the paper's list of parameters and its counts have no center.
    """
    x = lines[:, None]
    return (-x.square() / (2 * sigma.square())).exp() * (2 * math.pi * x / wavelength + phase).cos()


class Gabor(CodeSpec):
    """A Gabor wave along x, one along y and four edge markers for each channel, all learned.

    `form`: both (G+E), the waves alone (G), the edges alone (E). Coordinates run from -1 to 1 along each side. Prefix
    tokens get vectors of their own.
    Shapes: log_sigma, log_wavelength, phase, weight (D, 2), edges (D, 4), offset (D), prefix (prefix, D): 14 values for
    each channel with a class token. Source: Gabor paper eqs. 5-9. Differs: sigma and wavelength are learned as
    logarithms and so stay positive; they start log-uniform in 0.3-1.5 and 0.5-4, the phase uniform, the rest with
    deviation 0.02 (the paper gives no initial values).
    """

    kind: Literal["gabor"] = Field(default="gabor", init=False)
    form: Literal["gabor+edge", "gabor", "edge"] = Field(default="gabor+edge", description="gabor+edge, gabor or edge")

    def params(self, dim: int, grid: Grid) -> Params:
        params = {"offset": Param((dim,), normal(0.02))}
        if "gabor" in self.form:
            params["log_sigma"] = Param((dim, 2), uniform(math.log(0.3), math.log(1.5)))
            params["log_wavelength"] = Param((dim, 2), uniform(math.log(0.5), math.log(4.0)))
            params["phase"] = Param((dim, 2), uniform(-math.pi, math.pi))
            params["weight"] = Param((dim, 2), normal(0.02))
        if "edge" in self.form:
            params["edges"] = Param((dim, 4), normal(0.02))
        if grid.prefix:
            params["prefix"] = Param((grid.prefix, dim), normal(0.02))
        return params

    def code(self, p: Parameters, at: Positions) -> CodeND:
        code = p("offset")
        if "gabor" in self.form:
            sigma, wavelength = p("log_sigma").exp(), p("log_wavelength").exp()
            code = code + (gabor_waves(at.centered, sigma, wavelength, p("phase")) * p("weight")).sum(2)
        if "edge" in self.form:
            code = code + edge_maps(at) @ p("edges").mT
        return at.prefixed(code, p("prefix") if at.grid.prefix else None)
