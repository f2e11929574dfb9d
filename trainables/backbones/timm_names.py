"""The plain ViTs that timm knows by name, as our ViT: a recipe may name one instead of its numbers.

`tests/anchors/test_timm_names.py` holds the list against timm, layer by layer.
"""

from __future__ import annotations

import difflib
from typing import Literal

from pydantic import Field, field_validator

from trainables.backbones.backbone import ModelSpec
from trainables.backbones.vit import ViT
from trainables.spec import require

_MODELS = {
    "deit_tiny_patch16_224 vit_tiny_patch16_224 vit_tiny_patch16_384": ViT(192, 12, 3, 16),
    "deit_tiny_distilled_patch16_224": ViT(192, 12, 3, 16, pool="distilled"),
    "vit_small_patch8_224": ViT(384, 12, 6, 8),
    "deit_small_patch16_224 flexivit_small vit_small_patch16_224 vit_small_patch16_384": ViT(384, 12, 6, 16),
    "deit_small_distilled_patch16_224": ViT(384, 12, 6, 16, pool="distilled"),
    "vit_small_patch32_224 vit_small_patch32_384": ViT(384, 12, 6, 32),
    "vit_base_patch8_224": ViT(768, 12, 12, 8),
    "deit_base_patch16_224 deit_base_patch16_384 flexivit_base vit_base_patch16_224 vit_base_patch16_384": (
        ViT(768, 12, 12, 16)
    ),
    "deit_base_distilled_patch16_224 deit_base_distilled_patch16_384": ViT(768, 12, 12, 16, pool="distilled"),
    "vit_base_patch16_siglip_gap_224 vit_base_patch16_siglip_gap_256 vit_base_patch16_siglip_gap_384 "
    "vit_base_patch16_siglip_gap_512": ViT(768, 12, 12, 16, pool="gap"),
    "vit_base_patch16_gap_224": ViT(768, 12, 16, 16, pool="gap"),
    "vit_base_patch32_224 vit_base_patch32_384": ViT(768, 12, 12, 32),
    "vit_large_patch14_224": ViT(1024, 24, 16, 14),
    "flexivit_large vit_large_patch16_224 vit_large_patch16_384": ViT(1024, 24, 16, 16),
    "vit_large_patch16_siglip_gap_256 vit_large_patch16_siglip_gap_384": ViT(1024, 24, 16, 16, pool="gap"),
    "vit_large_patch32_224 vit_large_patch32_384": ViT(1024, 24, 16, 32),
    "vit_so400m_patch14_siglip_gap_224 vit_so400m_patch14_siglip_gap_378 vit_so400m_patch14_siglip_gap_384 "
    "vit_so400m_patch14_siglip_gap_448 vit_so400m_patch14_siglip_gap_896": (
        ViT(1152, 27, 16, 14, mlp_ratio=4304 / 1152, pool="gap")
    ),
    "vit_huge_patch14_224": ViT(1280, 32, 16, 14),
    "vit_huge_patch14_gap_224": ViT(1280, 32, 16, 14, pool="gap"),
    "vit_huge_patch16_gap_448": ViT(1280, 32, 16, 16, pool="gap"),
    "vit_giant_patch14_224": ViT(1408, 40, 16, 14, mlp_ratio=6144 / 1408),
    "vit_giant_patch16_gap_224": ViT(1408, 40, 16, 16, mlp_ratio=6144 / 1408, pool="gap"),
    "vit_gigantic_patch14_224": ViT(1664, 48, 16, 14, mlp_ratio=8192 / 1664),
    "deit3_small_patch16_224 deit3_small_patch16_384": ViT(384, 12, 6, 16, layer_scale=1e-6),
    "deit3_medium_patch16_224": ViT(512, 12, 8, 16, layer_scale=1e-6),
    "deit3_base_patch16_224 deit3_base_patch16_384": ViT(768, 12, 12, 16, layer_scale=1e-6),
    "deit3_large_patch16_224 deit3_large_patch16_384": ViT(1024, 24, 16, 16, layer_scale=1e-6),
    "deit3_huge_patch14_224": ViT(1280, 32, 16, 14, layer_scale=1e-6),
    "vit_small_patch14_dinov2": ViT(384, 12, 6, 14, layer_scale=1e-5),
    "vit_base_patch14_dinov2": ViT(768, 12, 12, 14, layer_scale=1e-5),
    "vit_large_patch14_dinov2": ViT(1024, 24, 16, 14, layer_scale=1e-5),
    "vit_small_patch14_reg4_dinov2": ViT(384, 12, 6, 14, registers=4, layer_scale=1e-5),
    "vit_base_patch14_reg4_dinov2": ViT(768, 12, 12, 14, registers=4, layer_scale=1e-5),
    "vit_large_patch14_reg4_dinov2": ViT(1024, 24, 16, 14, registers=4, layer_scale=1e-5),
    "vit_base_patch14_reg1_tipsv2": ViT(768, 12, 12, 14, registers=1, layer_scale=1.0),
    "vit_large_patch14_reg1_tipsv2": ViT(1024, 24, 16, 14, registers=1, layer_scale=1.0),
    "vit_so400m_patch14_reg1_tipsv2": ViT(1152, 27, 16, 14, mlp_ratio=4304 / 1152, registers=1, layer_scale=1.0),
    "vit_small_patch16_36x1_224": ViT(384, 36, 6, 16, layer_scale=1e-5),
    "vit_base_patch16_plus_240": ViT(896, 12, 14, 16, layer_scale=1e-5),
    "vit_base_patch32_plus_256": ViT(896, 12, 14, 32, layer_scale=1e-5),
    "vit_base_patch16_reg4_gap_256": ViT(768, 12, 12, 16, pool="avg", registers=4),
    "vit_so150m_patch16_reg4_gap_256 vit_so150m_patch16_reg4_gap_384": (
        ViT(896, 18, 14, 16, mlp_ratio=2304 / 896, pool="gap", registers=4)
    ),
    "vit_wee_patch16_reg1_gap_256": ViT(256, 14, 4, 16, mlp_ratio=5.0, pool="avg", registers=1, layer_scale=1e-5),
    "vit_little_patch16_reg1_gap_256": ViT(320, 14, 5, 16, mlp_ratio=5.6, pool="avg", registers=1, layer_scale=1e-5),
    "vit_little_patch16_reg4_gap_256": ViT(320, 14, 5, 16, mlp_ratio=5.6, pool="avg", registers=4, layer_scale=1e-5),
    "vit_medium_patch16_reg1_gap_256": ViT(512, 12, 8, 16, pool="avg", registers=1, layer_scale=1e-5),
    "vit_medium_patch16_reg4_gap_256": ViT(512, 12, 8, 16, pool="avg", registers=4, layer_scale=1e-5),
    "vit_mediumd_patch16_reg4_gap_256 vit_mediumd_patch16_reg4_gap_384": (
        ViT(512, 20, 8, 16, pool="avg", registers=4, layer_scale=1e-5)
    ),
    "vit_betwixt_patch16_reg1_gap_256": ViT(640, 12, 10, 16, pool="avg", registers=1, layer_scale=1e-5),
    "vit_betwixt_patch16_reg4_gap_256 vit_betwixt_patch16_reg4_gap_384": (
        ViT(640, 12, 10, 16, pool="avg", registers=4, layer_scale=1e-5)
    ),
    "test_vit": ViT(64, 6, 2, 16, mlp_ratio=3.0),
    "test_vit2": ViT(64, 8, 2, 16, mlp_ratio=3.0, pool="avg", registers=1, layer_scale=1e-5),
}

PLAIN = {name: model for names, model in _MODELS.items() for name in names.split()}
"""All models of timm 1.0 whose layers are those of our ViT, by name. A name says nothing of weights.

Nor of positions: timm's table of some has no rows for prefix tokens. Weights of these give our table zeros there.
"""


class TimmViT(ModelSpec):
    """A plain ViT by timm's name, such as "deit_tiny_patch16_224"; a recipe holds its numbers instead (`numbers`).

    So it has the key of the ViT with these numbers. What follows a dot in a name (".augreg_in1k") names weights, which
    `init` loads, and is left out here; the size of the images is that of `data`.
    `pool`: as timm has it where null. `drop_path`: as a ViT's.
    """

    kind: Literal["timm"] = Field(default="timm", init=False)
    name: str = Field(description="the name of a model of timm's (deit_tiny_patch16_224)")
    pool: Literal["token", "distilled", "avg", "gap"] | None = Field(
        default=None, description="token, distilled, avg or gap, or null"
    )
    drop_path: float = Field(default=0.0, ge=0, lt=1, description="a probability, 0 <= drop_path < 1")

    @field_validator("name")
    @classmethod
    def _is_plain(cls, name: str) -> str:
        near = ", ".join(difflib.get_close_matches(name.partition(".")[0], PLAIN, n=3, cutoff=0))
        must = f"one of timm's ViTs that have no other layers than model.kind vit, such as {near}"
        require(name.partition(".")[0] in PLAIN, "", must, name)
        return name

    @property
    def numbers(self) -> ViT:
        plain = PLAIN[self.name.partition(".")[0]]
        return plain.put({"pool": self.pool or plain.pool, "drop_path": self.drop_path})


def canonical_model(model: ModelSpec) -> ModelSpec:
    """Returns the same model, by its numbers where it is given by a name."""
    return model.numbers if isinstance(model, TimmViT) else model
