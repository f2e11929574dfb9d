"""Learnable Fourier features of the coordinates, mixed by a small MLP."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from trainables.encodings.declared import Param, Params, linear, normal
from trainables.encodings.encoding import Grid
from trainables.encodings.injection import CodeSpec
from trainables.spec import require

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import CodeND


class Fourier(CodeSpec):
    """Learnable Fourier features of the coordinates, mixed by a small MLP; prefix tokens get zeros.

    Shapes: frequencies.weight (F/2, 2), mlp F -> hidden -> D. Units: gamma is a length, in patches with raw
    coordinates, in grid widths with unit ones.
    Source: thesis eq. 3; Li et al. 2021, algorithm 1. Differs: frequencies start with standard deviation 1/gamma
    (public ports use other powers), the MLP as torch's linear layers; eq. 4 drops two factors, so the features'
    expected inner product is 0.5 exp(-d^2 / (2 gamma^2)).
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

    def params(self, dim: int, grid: Grid) -> Params:
        features = self.features or dim
        frequencies = {"frequencies.weight": Param((features // 2, 2), normal(1 / self.gamma))}
        return frequencies | linear("mlp.0", features, self.hidden) | linear("mlp.2", self.hidden, dim)

    def code(self, p: Parameters, at: Positions) -> CodeND:
        return at.prefixed(p.mlp("mlp", self.fourier_features(at, p("frequencies.weight"))))

    def fourier_features(self, at: Positions, frequencies: Any) -> Any:
        """Returns all cosines, then all sines, over the root of their number. Shapes: frequencies (K, 2) to (P, 2K)."""
        phases = (at.xy if self.coordinates == "raw" else at.unit) @ frequencies.mT
        return at.cat(phases.cos(), phases.sin()) / math.sqrt(2 * len(frequencies))
