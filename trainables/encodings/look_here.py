"""Directed attention: each head sees the patches on one side of a patch, less the farther they are."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from trainables.encodings.declared import HeadsSpec

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import Heads

DIRECTIONS = (0, 180, 90, 270, 45, 225, 135, 315)
"""Where directed heads look: right, left, up, down, then between these. Units: degrees, counterclockwise."""

HIDDEN = -1e4
"""The term of a pair that a head does not see."""


class LookHere(HeadsSpec):
    """Hides patches outside a head's field of view; the logits of the others fall with the Euclidean distance.

    Two of every six heads, the last ones, see all patches. Each of the others looks in one of eight directions, and
    sees the patches within half of `field_of_view` on both sides of it, borders included. The slopes of the first eight
    of these are 1/2, of the next eight 1/4, and so on; of the heads that see all 1/4, 1/16, 1/64, 1/256, and again. All
    are multiplied by `slope`, and by a factor that falls in a line from 1.5 in the first block to 0.5 in the last one.
    Not learned.
    Units: distance in patches; `field_of_view` in degrees.
    Source: Fuller et al. 2024, LookHere: vision transformers with directed attention generalize and extrapolate,
    section 3; its published code, of whose many settings this is one: 12 heads, four along the axes, four along the
    diagonals, four that see all. Differs: any number of heads (the code has 6, 12 or 16); a field of 45 degrees begins
    at its direction, as the eighths of the code do; -10,000 for minus infinity. Prefix tokens see all and are seen by
    all, without a term, as in the code.
    """

    accepts_fewer_queries: ClassVar[bool] = True

    kind: Literal["look_here"] = Field(default="look_here", init=False)
    field_of_view: Literal[180, 90, 45] = Field(default=180, description="180, 90 or 45")
    slope: float = Field(default=1.0, gt=0, description="a positive factor of all slopes")

    def terms(self, p: Parameters, at: Positions) -> tuple[Any, ...]:
        """Returns the bias of all pairs, and the factor of each block. Shapes: (1, H, N, N), (depth)."""
        right, up = at.x[None, :] - at.x[:, None], at.y[:, None] - at.y[None, :]  # from the query to the key
        distance = (right.square() + up.square()).sqrt()
        last, maps = at.widths.heads // 6 * 2, []
        for head in range(at.widths.heads - last):
            center = DIRECTIONS[head % 8] + (22.5 if self.field_of_view == 45 else 0)
            seen = distance >= 0
            for border in (center + 90 - self.field_of_view / 2, center - 90 + self.field_of_view / 2):
                inward = right * math.cos(math.radians(border)) + up * math.sin(math.radians(border))
                seen = seen & (inward > -1e-3)  # a whole multiple of 1 or of the root of 1/2, up to rounding
            maps.append((-(0.5 ** (1 + head // 8)) * self.slope * distance).where(seen, HIDDEN))
        maps += [-(0.25 ** (1 + head % 4)) * self.slope * distance for head in range(last)]
        factors = at.tensor([1.5 - block / max(at.depth - 1, 1) for block in range(at.depth)])
        return at.between_patches(at.stack(*maps).permute(2, 0, 1)), factors

    def heads(self, h: Heads, terms: tuple[Any, ...], block: int) -> Heads:
        return h.plus(terms[0] * terms[1][block])
