"""Learnable Fourier features of the coordinates, through a small MLP."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from trainables.encodings.encoding import Shape
from trainables.encodings.injection import CodeSpec
from trainables.spec import require


class Fourier(CodeSpec):
    """Learnable Fourier features of the coordinates, through a small MLP.

    Units: gamma is a length, in patches with raw coordinates, in grid widths with unit ones.
    Source: thesis eq. 3. Differs: frequencies start with standard deviation 1/gamma; eq. 4 drops two factors, so the
    features' expected inner product is 0.5 exp(-d^2 / (2 gamma^2)).
    """

    kind: Literal["fourier"] = Field(default="fourier", init=False)
    gamma: float = Field(default=2.5, gt=0, description="a positive length in patches")
    features: int | None = Field(
        default=None, gt=0, description="a positive even number of features, or null for the code's channels"
    )
    hidden: int = Field(default=32, gt=0, description="a positive width of the MLP")
    coordinates: Literal["raw", "unit"] = Field(
        default="raw", description="'raw' (patches, from 0) or 'unit' (scaled to [0, 1])"
    )

    @model_validator(mode="after")
    def _even(self) -> Fourier:
        require(self.features is None or self.features % 2 == 0, "features", "even", self.features)
        return self

    @property
    def multiple(self) -> int:
        return 2 if self.features is None else 1

    def code_parameters(self, width: int, shape: Shape) -> int:
        features = self.features or width
        return features + (features + 1) * self.hidden + (self.hidden + 1) * width
