"""Attention with linear biases in two dimensions: logits fall with the distance of two patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from trainables.encodings.declared import HeadsSpec

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import Heads


class ALiBi(HeadsSpec):
    """Adds minus slope times distance to the logits of two patches; pairs with a prefix token get zero. Not learned.

    `distance`: Euclidean, or the sum of rows and columns (manhattan). Slopes are 2^(-8i/H) for heads i = 1 ... H.
    Units: distance in patches. Source: Press et al. 2022, Train short, test long, section 3; Fuller et al. 2023, CROMA,
    section 3.2 (2-D, Euclidean). Differs: one formula for any number of heads (the published code interpolates where it
    is no power of two); no term for the class token, which has no place.
    """

    accepts_fewer_queries: ClassVar[bool] = True

    kind: Literal["alibi"] = Field(default="alibi", init=False)
    distance: Literal["euclidean", "manhattan"] = Field(default="euclidean", description="euclidean or manhattan")

    def terms(self, p: Parameters, at: Positions) -> tuple[Any, ...]:
        """Returns the bias of all pairs. Shapes: (1, H, N, N)."""
        columns, rows = ((line[:, None] - line[None, :]).abs() for line in (at.x, at.y))
        distance = (columns.square() + rows.square()).sqrt() if self.distance == "euclidean" else columns + rows
        heads = at.widths.heads
        slopes = at.tensor([2 ** (-8 * (head + 1) / heads) for head in range(heads)])
        return (at.between_patches(-slopes[:, None, None] * distance),)

    def heads(self, h: Heads, terms: tuple[Any, ...], block: int) -> Heads:
        return h.plus(terms[0])
