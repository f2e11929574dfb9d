"""PVTv2, as numbers."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from trainables.backbones.backbone import Size, convolution, linear, mlp, norm
from trainables.backbones.staged import Pyramid
from trainables.encodings.encoding import ReservedChannels


class PVTv2(Pyramid):
    """PVT with overlapping patches and a depth-wise convolution in each MLP, whose zero padding shows positions.

    Source: Wang et al. 2022, PVT v2, section 3. Differs: the linear attention of B2-Li is left out.
    """

    cut: ClassVar[int] = 4
    mlp_steps: ClassVar[int] = 3

    kind: Literal["pvt_v2"] = Field(default="pvt_v2", init=False)

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        total, before = 0, size[0]
        for stage, dim in enumerate(self.embed_dims):
            hidden = self.hidden(stage)
            depthwise = 10 * hidden
            block = 2 * norm(dim) + self.attention(stage) + mlp(dim, hidden) + depthwise
            total += convolution(before, dim, 3 if stage else 7) + 2 * norm(dim) + self.depths[stage] * block
            before = dim
        return total + linear(before, outputs)


PVT_V2_B1 = PVTv2(
    depths=(2, 2, 2, 2), num_heads=(1, 2, 5, 8), embed_dims=(64, 128, 320, 512), sr_ratios=(8, 4, 2, 1),
    mlp_ratios=(8.0, 8.0, 4.0, 4.0),
)  # fmt: skip
PVT_V2_B2 = PVTv2.read({**PVT_V2_B1.plain(), "depths": (3, 4, 6, 3)})
PVT_V2_B3 = PVTv2.read({**PVT_V2_B1.plain(), "depths": (3, 4, 18, 3)})
