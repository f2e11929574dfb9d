"""Twins, as numbers."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainables.backbones.backbone import Size
from trainables.backbones.counts import convolution, linear, mlp, norm
from trainables.backbones.pvt_v2 import PVT_V2_B2
from trainables.backbones.staged import Pyramid
from trainables.encodings.encoding import ReservedChannels


class Twins(Pyramid):
    """PVT (v1) with a PEG of Twins' own after the first block of each stage, without the table of PVT.

    `peg`: false leaves Twins' PEG out, so that `encoding` is the only source of position; nearest to PVT v1, which timm
    lacks. Source: Chu et al. 2021, Twins, section 3.1 (PCPVT). Differs: nothing.
    """

    kind: Literal["twins"] = Field(default="twins", init=False)
    patch_size: int = Field(default=4, gt=0, description="a positive side in pixels")
    peg: bool = Field(default=True, description="true (a PEG after the first block of each stage) or false")

    @property
    def cut(self) -> int:
        return self.patch_size

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        total, before = 0, size[0]
        for stage, dim in enumerate(self.embed_dims):
            block = 2 * norm(dim) + self.attention(stage) + mlp(dim, self.hidden(stage))
            peg = 10 * dim if self.peg else 0
            total += (
                convolution(before, dim, 2 if stage else self.patch_size) + norm(dim) + self.depths[stage] * block + peg
            )
            before = dim
        return total + norm(before) + linear(before, outputs)


TWINS_PCPVT_SMALL = Twins.read({**PVT_V2_B2.plain(), "kind": "twins"})
