"""Sines and cosines of the coordinates: fixed, or with learned frequencies that start as the fixed ones."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainables.encodings.encoding import Shape
from trainables.encodings.injection import CodeSpec


class Sinusoidal(CodeSpec):
    """Fixed 2-D sines and cosines: the first half of the channels x, the second y.

    Source: thesis eq. 1. Differs: the class token gets zeros (the thesis does not say).
    """

    kind: Literal["sinusoidal"] = Field(default="sinusoidal", init=False)

    @property
    def multiple(self) -> int:
        return 4


class LearnableSinusoidal(CodeSpec):
    """Sines and cosines of learned linear maps of (x, y), equal to `sinusoidal` at the start.

    Source: thesis eq. 6. Differs: sine before cosine, as the equality with eq. 1 demands.
    """

    kind: Literal["learnable_sinusoidal"] = Field(default="learnable_sinusoidal", init=False)

    @property
    def multiple(self) -> int:
        return 4

    def code_parameters(self, width: int, shape: Shape) -> int:
        return width
