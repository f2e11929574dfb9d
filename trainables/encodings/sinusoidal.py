"""Sines and cosines of the coordinates: fixed, or with learned frequencies that start as the fixed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from trainables.encodings.declared import Param, Params, values
from trainables.encodings.encoding import Grid
from trainables.encodings.injection import CodeSpec

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import CodeND


def frequencies(dim: int) -> list[list[float]]:
    """Returns the linear maps of (x, y) whose sines and cosines are the fixed code: D/4 of x, then D/4 of y.

    Shapes: (D/2, 2). Source: thesis eq. 1, w_k = 10000^(-4k/D). Differs: written as one matrix, as eq. 6 needs it.
    """
    waves = [10000.0 ** (-4 * k / dim) for k in range(dim // 4)]
    return [[wave, 0.0] for wave in waves] + [[0.0, wave] for wave in waves]


def waves(at: Positions, frequencies: Any) -> CodeND:
    """Returns the sine of frequency k in channel 2k, its cosine in channel 2k + 1; zeros for prefix tokens.

    Shapes: frequencies (K, 2), to (N, 2K).
    """
    phases = at.xy @ frequencies.mT
    return at.prefixed(at.stack(phases.sin(), phases.cos()).flatten(1))


class Sinusoidal(CodeSpec):
    """Fixed 2-D sines and cosines: the first half of the channels x, the second y.

    Source: thesis eq. 1. Differs: nothing; the class token gets zeros, as the thesis adds it afterwards.
    """

    multiple: ClassVar[int] = 4

    kind: Literal["sinusoidal"] = Field(default="sinusoidal", init=False)

    def code(self, p: Parameters, at: Positions) -> CodeND:
        return waves(at, at.tensor(frequencies(at.dim)))


class LearnableSinusoidal(CodeSpec):
    """Sines and cosines of learned linear maps of (x, y), equal to `sinusoidal` at the start.

    Shapes: frequencies (D/2, 2). Source: thesis eq. 6. Differs: sine before cosine, so that the start equals eq. 1.
    """

    multiple: ClassVar[int] = 4

    kind: Literal["learnable_sinusoidal"] = Field(default="learnable_sinusoidal", init=False)

    def params(self, dim: int, grid: Grid) -> Params:
        return {"frequencies": Param((dim // 2, 2), values(frequencies(dim)))}

    def code(self, p: Parameters, at: Positions) -> CodeND:
        return waves(at, p("frequencies"))
