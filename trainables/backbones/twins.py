"""Twins, as numbers."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field, model_validator

from trainables.backbones.backbone import Size, convolution, linear, mlp, norm
from trainables.backbones.pvt_v2 import PVT_V2_B1, PVT_V2_B2, PVT_V2_B3
from trainables.backbones.staged import Pyramid
from trainables.encodings.encoding import ReservedChannels, Shape
from trainables.spec import Spec, require


class Twins(Pyramid):
    """PVT (v1) with a PEG of Twins' own after the first block of each stage, without the table of PVT.

    `peg`: false leaves Twins' PEG out, so that `encoding` is the only source of position; nearest to PVT v1, which timm
    lacks. `pool`: the patches' mean, or a class token that stands before the patches of the last stage, as in PVT v1.
    Source: Chu et al. 2021, Twins, section 3.1 (PCPVT); Wang et al. 2021, PVT, section 3.4. Differs: nothing.
    """

    kind: Literal["twins"] = Field(default="twins", init=False)
    patch_size: int = Field(default=4, gt=0, description="a positive side in pixels")
    peg: bool = Field(default=True, description="true (a PEG after the first block of each stage) or false")
    pool: Literal["avg", "token"] = Field(default="avg", description="avg or token")

    @model_validator(mode="after")
    def _token_fits(self) -> Twins:
        alone = self.pool == "avg" or (not self.peg and self.sr_ratios[-1] == 1)
        require(alone, "pool", "avg where peg is true, or where the last of sr_ratios is not 1", self.pool)
        return self

    @property
    def cut(self) -> int:
        return self.patch_size

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        *earlier, last = super().shapes(size)
        return (*earlier, replace(last, prefix=1 if self.pool == "token" else 0))

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        total, before = 0, size[0]
        for stage, dim in enumerate(self.embed_dims):
            block = 2 * norm(dim) + self.attention(stage) + mlp(dim, self.hidden(stage))
            peg = 10 * dim if self.peg else 0
            patches = convolution(before, dim, 2 if stage else self.patch_size) + norm(dim)
            total += patches + self.depths[stage] * block + peg
            before = dim
        return total + (before if self.pool == "token" else 0) + norm(before) + linear(before, outputs)


TWINS_PCPVT_SMALL = Twins.read({**PVT_V2_B2.plain(), "kind": "twins"})


def _pvt(like: Spec) -> Twins:
    return Twins.read({**like.plain(), "kind": "twins", "peg": False, "pool": "token"})


PVT_TINY, PVT_SMALL, PVT_MEDIUM = _pvt(PVT_V2_B1), _pvt(PVT_V2_B2), _pvt(PVT_V2_B3)
"""The sizes of PVT v1, which PVT v2 kept; `encoding` is to be its table."""
