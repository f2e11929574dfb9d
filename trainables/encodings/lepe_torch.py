"""Locally-enhanced position encoding: a convolution over the map of the values, added to what attention puts out."""

from __future__ import annotations

from torch import nn
from torch.nn.functional import pad

from trainables.encodings import lepe
from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Grid, Heads, OutputsBHQE, PositionEncoding


class LePE(PositionEncoding):
    """Outputs plus a convolution of the values' map; prefix tokens get nothing.

    Shapes: conv.<block>.weight (H E, 1, k, k) and bias (H E).
    """

    in_heads = "first"

    def __init__(self, spec: lepe.LePE, widths: Widths, grid: Grid, depth: int) -> None:
        super().__init__()
        dim = widths.heads * widths.head_dim
        layers = (nn.Conv2d(dim, dim, spec.kernel, padding=spec.kernel // 2, groups=dim) for _ in range(depth))
        self.conv = nn.ModuleList(layers)

    def value_terms(self, h: Heads, block: int) -> OutputsBHQE:
        images, heads, _, width = h.v.shape
        image = h.v[:, :, h.grid.prefix :].mT.reshape(images, heads * width, h.grid.rows, h.grid.columns)
        made = self.conv[block](image).reshape(images, heads, width, h.grid.patches).mT
        return pad(made, (0, 0, h.grid.prefix, 0))[:, :, : h.queries]
