"""Functional interpolation of relative positions: a small network of offsets, scaled to the sides of the image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from trainables.encodings.declared import HeadsSpec, Param, Params, uniform, values, zeros
from trainables.encodings.encoding import Grid, Widths

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import Heads


class FIRE(HeadsSpec):
    """MLP(psi(d) / psi(max(L, side))) in the logits of two patches, where psi(x) = log(c |x| + 1) with the sign of x.

    d are the rows and columns between query and key (query minus key), each divided by psi of its own side: the largest
    offset along it, or L where L is more. So offsets stay in [-1, 1] on a grid of any size. c is learned, from
    0.1, and L as `threshold` times a learned multiplier. `shared`: one network for all blocks.
    Shapes: c and multiplier (depth or 1, 1, 1), mlp.0.weight (depth or 1, hidden, 2: row, column), mlp.2.weight (depth
    or 1, H, hidden). Units: patches. Source: Li et al. 2024, Functional interpolation for relative positions improves
    long context transformers, its definition of FIRE and its published code (appendix). Differs: that is of sequences,
    where a query sees what came before it; here it sees the whole grid, so the side stands for its place, and the
    network has two signed inputs for one. L starts at 16 patches, not 512 tokens. The biases of the hidden layer start
    at zero; the last layer has none, because the softmax over patches does not see it. Pairs with a prefix token get 0.
    Cost: a term of all pairs for each block and head; it turns flash attention off.
    """

    accepts_fewer_queries: ClassVar[bool] = True
    saved_pairs: ClassVar[int] = 1

    kind: Literal["fire"] = Field(default="fire", init=False)
    hidden: int = Field(default=32, gt=0, description="a positive number of hidden channels")
    threshold: float = Field(default=16.0, gt=0, description="a positive number of patches")
    shared: bool = Field(default=False, description="true (one network for all blocks) or false (one for each block)")

    def params(self, widths: Widths, grid: Grid, depth: int) -> Params:
        count, last = 1 if self.shared else depth, self.hidden**-0.5
        return {
            "c": Param((count, 1, 1), values([[[0.1]]])),
            "multiplier": Param((count, 1, 1), values([[[1.0]]])),
            "mlp.0.weight": Param((count, self.hidden, 2), uniform(-(2**-0.5), 2**-0.5)),
            "mlp.0.bias": Param((count, 1, self.hidden), zeros()),
            "mlp.2.weight": Param((count, widths.heads, self.hidden), uniform(-last, last)),
        }

    def terms(self, p: Parameters, at: Positions) -> tuple[Any, ...]:
        """Returns the biases of all pairs. Shapes: (1, depth or 1, H, N, N)."""
        longest, c = at.offsets.amax(0), p("c").abs()
        sides = (self.threshold * p("multiplier").abs()).maximum(longest)
        offsets = at.offsets.sign() * (c * at.offsets.abs() + 1).log() / ((c * sides + 1).log() + 1e-6)
        hidden = (offsets @ p("mlp.0.weight").mT + p("mlp.0.bias")).relu()
        return (at.between_patches(at.of_offsets((hidden @ p("mlp.2.weight").mT).mT)),)

    def heads(self, h: Heads, terms: tuple[Any, ...], block: int) -> Heads:
        return h.plus(terms[0][:, 0 if self.shared else block])
