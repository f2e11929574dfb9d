"""Log-spaced continuous position bias: a small network computes a term of the logits from the offset of two patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from trainables.encodings.declared import HeadsSpec, Param, Params, trunc_normal, zeros
from trainables.encodings.encoding import Grid, Widths

if TYPE_CHECKING:
    from trainables.encodings.declared_torch import Parameters, Positions
    from trainables.encodings.encoding_torch import Heads


Side = Annotated[int, Field(ge=2)]


class LogCPB(HeadsSpec):
    """16 sigmoid(MLP(offset)) in the logits of two patches, where an offset is sign(d) log2(1 + |d|) / log2(8).

    d is the offset, query minus key, scaled to [-8, 8] along each side by the largest one. `pretrained_window_size`:
    rows and columns of the grid whose largest offset that is; null is the model's own. If models are tested on other
    grids, the grid of training keeps the bias of a small offset as it was. `shared`: one network for all blocks.
    Shapes: mlp.0.weight (depth or 1, hidden, 2: row, column), mlp.2.weight (depth or 1, H, hidden). Units: patches.
    Source: Liu et al. 2022, Swin Transformer V2, section 3.3, eqs. 3, 4; its published code (ReLU, 16 sigmoid).
    Differs: the whole grid is one window. 8 is subtracted, which the softmax over patches does not see: so pairs with a
    prefix token, which get 0, begin as all others do. No cosine attention.
    Cost: a term of all pairs for each block and head; it turns flash attention off.
    """

    accepts_fewer_queries: ClassVar[bool] = True
    saved_pairs: ClassVar[int] = 1

    kind: Literal["log_cpb"] = Field(default="log_cpb", init=False)
    hidden: int = Field(default=512, gt=0, description="a positive number of hidden channels")
    pretrained_window_size: tuple[Side, Side] | None = Field(
        default=None, strict=False, description="rows and columns of patches, each at least 2, or null"
    )
    shared: bool = Field(default=False, description="true (one network for all blocks) or false (one for each block)")

    def params(self, widths: Widths, grid: Grid, depth: int) -> Params:
        count = 1 if self.shared else depth
        return {
            "mlp.0.weight": Param((count, self.hidden, 2), trunc_normal(0.02)),
            "mlp.0.bias": Param((count, 1, self.hidden), zeros()),
            "mlp.2.weight": Param((count, widths.heads, self.hidden), trunc_normal(0.02)),
        }

    def terms(self, p: Parameters, at: Positions) -> tuple[Any, ...]:
        """Returns the biases of all pairs. Shapes: (1, depth or 1, H, N, N)."""
        rows, columns = self.pretrained_window_size or (at.grid.rows, at.grid.columns)
        down, across = at.offsets.unbind(-1)
        scaled = 8 * at.stack(down / max(rows - 1, 1), across / max(columns - 1, 1))
        logs = scaled.sign() * (1 + scaled.abs()).log2() / 3
        hidden = (logs @ p("mlp.0.weight").mT + p("mlp.0.bias")).relu()
        return (at.between_patches(at.of_offsets(16 * (hidden @ p("mlp.2.weight").mT).sigmoid().mT - 8)),)

    def heads(self, h: Heads, terms: tuple[Any, ...], block: int) -> Heads:
        return h.plus(terms[0][:, 0 if self.shared else block])
