"""Rotary position embedding: channel pairs of queries and keys are rotated by angles that grow with the coordinates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from trainables.encodings.declared import HeadsSpec, Init, Param, Params
from trainables.encodings.encoding import Grid, Shape, Widths
from trainables.spec import require

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import Heads

TEMPERATURES = {"axial": 100.0, "mixed": 10.0}
"""The paper's temperatures."""


def magnitudes(head_dim: int, temperature: float) -> list[float]:
    """The frequencies temperature^(-4k/E) for k = 0 ... E/4 - 1. Units: radians per patch."""
    return [temperature ** (-4 * k / head_dim) for k in range(head_dim // 4)]


def turned(sizes: list[float]) -> Init:
    """Frequency vectors (x, y) of these lengths, then the same at right angles; a random direction per block and head.

    Shapes: fills (2, depth, H, E/2) from E/4 lengths. Source: RoPE-ViT's code; timm's `init_random_2d_freqs`.
    Differs: drawn from the given generator.
    """

    def fill(value: Any, generator: Any) -> None:
        angle = value.new_empty((*value.shape[1:3], 1)).uniform_(0, 2 * math.pi, generator=generator)
        for half, turn in zip(value.chunk(2, dim=-1), (angle, angle + math.pi / 2), strict=True):
            half[0].copy_(turn.cos() * value.new_tensor(sizes))
            half[1].copy_(turn.sin() * value.new_tensor(sizes))

    return fill


class Rotary(HeadsSpec):
    """Rotates neighboring channel pairs of queries and keys, so that their products depend on the patches' offset.

    `axial`: fixed angles, the first half of the pairs by x, the second by y. `mixed`: each pair, head and block has a
    learned frequency of x and one of y. Prefix tokens are not rotated, nor are channels that another part appended.
    Shapes: freqs (2, depth, H, E/2) where mixed. Units: frequencies in radians per patch.
    Source: Heo et al. 2024, Rotary position embedding for vision transformer, section 3; Su et al. 2021. Differs: as
    timm (angles and rotation in float32, x before y).
    Cost: mixed keeps sines and cosines of all blocks for one forward.
    """

    accepts_fewer_queries: ClassVar[bool] = True

    kind: Literal["rotary"] = Field(default="rotary", init=False)
    form: Literal["axial", "mixed"] = Field(default="axial", description="axial or mixed")
    temperature: float | None = Field(
        default=None, gt=0, description="a positive number, or null for the paper's (axial 100, mixed 10)"
    )

    @property
    def modifies_qk(self) -> bool:
        return True

    def check(self, shape: Shape) -> None:
        must = "such that a head's channels are divisible by 4 for rotary encodings"
        require(shape.widths.head_dim % 4 == 0, "model.embed_dim", must, shape.widths.head_dim)

    def params(self, widths: Widths, grid: Grid, depth: int) -> Params:
        if self.form == "axial":
            return {}
        sizes = magnitudes(widths.head_dim, self.temperature or TEMPERATURES["mixed"])
        return {"freqs": Param((2, depth, widths.heads, widths.head_dim // 2), turned(sizes))}

    def terms(self, p: Parameters, at: Positions) -> tuple[Any, ...]:
        """Cosines and signed sines. Shapes: (N, E/2, 1) and (N, E/2, 2); mixed: each with (depth, H) before."""
        x, y = at.x[:, None], at.y[:, None]
        if self.form == "axial":
            sizes = at.tensor(magnitudes(at.widths.head_dim, self.temperature or TEMPERATURES["axial"]))
            angles = at.cat(x * sizes, y * sizes)
        else:
            of_x, of_y = p("freqs")[..., None, :]
            angles = x * of_x + y * of_y
        angles = at.prefixed(angles)
        return angles.cos()[..., None], at.stack(-angles.sin(), angles.sin())

    def heads(self, h: Heads, terms: tuple[Any, ...], block: int) -> Heads:
        cos, sin = terms if self.form == "axial" else (term[block] for term in terms)
        return replace(h, q=rotated(h.q, cos, sin), k=rotated(h.k, cos, sin))


def rotated(channels: Any, cos: Any, sin: Any) -> Any:
    """The first E channels, rotated in pairs (2i, 2i + 1). Shapes: (B, H, Q, E or more), (..., N, E/2, 1 or 2)."""
    width, tokens = 2 * cos.shape[-2], channels.shape[2]
    cos, sin = cos[..., :tokens, :, :], sin[..., :tokens, :, :]
    pairs = channels[..., :width].unflatten(-1, (-1, 2))
    made = (pairs * cos + pairs.flip(-1) * sin).flatten(-2).to(channels.dtype)
    return made if width == channels.shape[-1] else channels.slice_scatter(made, -1, 0, width)
