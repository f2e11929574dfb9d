"""Learned Gabor waves of the coordinates, and markers of the image's edges."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainables.encodings.encoding import Shape
from trainables.encodings.injection import CodeSpec


class Gabor(CodeSpec):
    """A Gabor wave along x, one along y and four edge markers for each channel, all learned.

    `form`: both (G+E), the waves alone (G), the edges alone (E). Coordinates run from -1 to 1 along each side.
    Source: Gabor paper eqs. 5-9. Differs: start and guards, which the paper does not give (see the module).
    """

    kind: Literal["gabor"] = Field(default="gabor", init=False)
    form: Literal["gabor+edge", "gabor", "edge"] = Field(default="gabor+edge", description="gabor+edge, gabor or edge")

    def code_parameters(self, width: int, shape: Shape) -> int:
        numbers = 8 * ("gabor" in self.form) + 4 * ("edge" in self.form) + 1 + shape.prefix
        return numbers * width
