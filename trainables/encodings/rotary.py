"""Rotary position embedding: channel pairs of queries and keys are rotated by angles that grow with the coordinates."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from trainables.encodings.declared import HeadsSpec, Init, Param, Params
from trainables.encodings.encoding import Grid, Shape, Widths
from trainables.spec import require

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import Heads

TEMPERATURES = {"axial": 100.0, "mixed": 10.0, "sequence": 10_000.0}
"""The papers' temperatures."""


Side = Annotated[int, Field(gt=0)]


def magnitudes(pairs: int, temperature: float) -> list[float]:
    """Returns the frequencies temperature^(-k/pairs) for k = 0 ... pairs - 1. Units: radians per patch."""
    return [temperature ** (-k / pairs) for k in range(pairs)]


def turned(sizes: list[float]) -> Init:
    """Draws vectors (x, y) of these lengths, then the same at right angles; a random direction per block and head.

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
    learned frequency of x and one of y. `sequence`: all pairs by the patch's number, row after row from 1, as in
    language. Prefix tokens are not rotated, nor are channels that another part appended.
    Coordinates are columns and rows from 0. With `normalize_coords` they run from -1 to 1, the middle of a patch is its
    place, and 1 is a whole turn at the first frequency: each side by its own length (separate), or both by the longer
    (max) or the shorter (min) one. With `ref_feat_shape` they are scaled as if the grid had these rows and columns. In
    training, all of a step's images have their coordinates shifted by up to `shift_coords` along each side, then each
    side scaled by a factor from 1/`jitter_coords` to `jitter_coords`, then both by one from 1/`rescale_coords` to
    `rescale_coords`; factors are log-uniform.
    Shapes: freqs (2, depth, H, E/2) where mixed. Units: frequencies in radians per patch. Source: Heo et al. 2024,
    Rotary position embedding for vision transformer, section 3; Su et al. 2021; Simeoni et al. 2025, DINOv3, and its
    published code (`normalize_coords`, and what is random); Fang et al. 2023, EVA-02, and its published code
    (`ref_feat_shape`). Differs: as timm (angles and rotation in float32, x before y, neighboring channels); random
    numbers come from the run's stream.
    Cost: mixed keeps sines and cosines of all blocks for one forward.
    """

    accepts_fewer_queries: ClassVar[bool] = True
    modifies_qk: ClassVar[bool] = True

    kind: Literal["rotary"] = Field(default="rotary", init=False)
    form: Literal["axial", "mixed", "sequence"] = Field(default="axial", description="axial, mixed or sequence")
    temperature: float | None = Field(
        default=None, gt=0, description="a positive number, or null: axial 100, mixed 10, sequence 10,000"
    )
    normalize_coords: Literal["separate", "max", "min"] | None = Field(
        default=None, description="separate, max or min, or null for patches"
    )
    ref_feat_shape: tuple[Side, Side] | None = Field(
        default=None, strict=False, description="positive numbers of rows and columns, or null"
    )
    shift_coords: float | None = Field(default=None, gt=0, description="a positive number, or null")
    jitter_coords: float | None = Field(default=None, gt=1, description="a factor above 1, or null")
    rescale_coords: float | None = Field(default=None, gt=1, description="a factor above 1, or null")

    @model_validator(mode="after")
    def _one_scale(self) -> Rotary:
        fits = self.normalize_coords is None or self.ref_feat_shape is None
        require(fits, "ref_feat_shape", "null where normalize_coords is not", self.ref_feat_shape)
        for name in ("normalize_coords", "ref_feat_shape", "shift_coords", "jitter_coords", "rescale_coords"):
            value = getattr(self, name)
            require(self.form != "sequence" or value is None, name, "null for patches in a sequence", value)
        return self

    @property
    def draws(self) -> int:
        return 5 if self.shift_coords or self.jitter_coords or self.rescale_coords else 0

    def check(self, shape: Shape) -> None:
        must = "such that a head's channels are divisible by 4 for rotary encodings"
        require(shape.widths.head_dim % 4 == 0, "model.embed_dim", must, shape.widths.head_dim)

    def params(self, widths: Widths, grid: Grid, depth: int) -> Params:
        if self.form != "mixed":
            return {}
        sizes = magnitudes(widths.head_dim // 4, self.temperature or TEMPERATURES["mixed"])
        return {"freqs": Param((2, depth, widths.heads, widths.head_dim // 2), turned(sizes))}

    def terms(self, p: Parameters, at: Positions) -> tuple[Any, ...]:
        """Returns cosines and signed sines. Shapes: (N, E/2, 1) and (N, E/2, 2); mixed: each with (depth, H) before."""
        x, y = self.coordinates(at).mT[..., None]
        pairs, temperature = at.widths.head_dim // 2, self.temperature or TEMPERATURES[self.form]
        if self.form == "mixed":
            of_x, of_y = p("freqs")[..., None, :]
            angles = x * of_x + y * of_y
        elif self.form == "axial":
            sizes = at.tensor(magnitudes(pairs // 2, temperature))
            angles = at.cat(x * sizes, y * sizes)
        else:
            angles = (y * at.grid.columns + x + 1) * at.tensor(magnitudes(pairs, temperature))
        angles = at.prefixed(angles)
        return angles.cos()[..., None], at.stack(-angles.sin(), angles.sin())

    def coordinates(self, at: Positions) -> Any:
        """Returns what the frequencies are multiplied with. Shapes: (P, 2: x, y)."""
        sides, xy = at.tensor([at.grid.columns, at.grid.rows]), at.xy
        if self.normalize_coords is not None:
            sides = {"separate": sides, "max": sides.max(), "min": sides.min()}[self.normalize_coords]
            xy = (2 * xy + 1) / sides - 1
        elif self.ref_feat_shape is not None:
            xy = xy / sides * at.tensor([self.ref_feat_shape[1], self.ref_feat_shape[0]])
        if at.drawn is not None:
            signed = 2 * at.drawn - 1
            xy = xy + (self.shift_coords or 0) * signed[:2]
            xy = xy * (self.jitter_coords or 1) ** signed[2:4] * (self.rescale_coords or 1) ** signed[4:]
        return xy if self.normalize_coords is None else 2 * math.pi * xy

    def heads(self, h: Heads, terms: tuple[Any, ...], block: int) -> Heads:
        cos, sin = (term[block] for term in terms) if self.form == "mixed" else terms
        return replace(h, q=rotated(h.q, cos, sin), k=rotated(h.k, cos, sin))


def rotated(channels: Any, cos: Any, sin: Any) -> Any:
    """Rotates the first E channels in pairs (2i, 2i + 1). Shapes: (B, H, Q, E or more), (..., N, E/2, 1 or 2)."""
    width, tokens = 2 * cos.shape[-2], channels.shape[2]
    cos, sin = cos[..., :tokens, :, :], sin[..., :tokens, :, :]
    pairs = channels[..., :width].unflatten(-1, (-1, 2))
    made = (pairs * cos + pairs.flip(-1) * sin).flatten(-2).to(channels.dtype)
    return made if width == channels.shape[-1] else channels.slice_scatter(made, -1, 0, width)
