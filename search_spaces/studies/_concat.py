"""What the studies of the concat paper share: the paper, its backbones and their sizes, its training, its gaps."""

from typing import Any

from search_spaces.presets import DEIT
from trainables.backbones import ViT
from trainables.backbones.cait import CAIT_XS36, CAIT_XXS36
from trainables.backbones.convit import CONVIT_BASE, CONVIT_SMALL
from trainables.backbones.tnt import TNT_BASE, TNT_SMALL
from trainables.backbones.vit import DEIT_BASE, DEIT_SMALL
from trainables.backbones.volo import VOLO_D1, VOLO_D2
from trainables.data import RedGreen
from trainables.encodings import Learnable
from trainables.recipe import AdamW, Recipe

PAPER = (
    "Zhou et al. 2024, Rethinking Position Embedding Methods in the Transformer Architecture "
    "(doi:10.1007/s11063-024-11539-7)"
)

TABLE: dict[str, dict[str, Any]] = {"added": {}, "concatenated": {"encoding.injection.kind": "concat"}}
"""A learned table added to the tokens, or beside the content, which then has half of the channels."""

BACKBONES: dict[str, dict[str, Any]] = {
    "vit": {"model.depth": 2},
    "cait": {"model.kind": "cait"},
    "convit": {"model.kind": "convit"},
    "volo": {"model.kind": "volo"},
    "tnt": {"model.kind": "tnt"},
}
"""Each backbone two blocks deep; if its own table stood, the learned one stands."""


def _whole(*models: Any) -> dict[str, dict[str, Any]]:
    """Returns backbones of the paper's size. A ViT has the stochastic depth of DeiT; in the others we have none."""
    backbones = {model.kind: {"model": model.plain()} for model in models}
    backbones["vit"]["model"]["drop_path"] = 0.1
    return backbones


SMALL_SIZES = _whole(DEIT_SMALL, CAIT_XXS36, CONVIT_SMALL, VOLO_D1, TNT_SMALL)
LARGE_SIZES = _whole(DEIT_BASE, CAIT_XS36, CONVIT_BASE, VOLO_D2, TNT_BASE)
"""The backbones of table 1, in its two groups."""

DEEP = Recipe(
    data=RedGreen(task="absolute", image_size=32, train_size=2000, val_size=500, test_size=1000),
    model=ViT(depth=4),
    encoding=Learnable(),
    optimizer=AdamW(epochs=12, lr=0.002, batch_size=50),
)
"""For probes: four blocks, and tables that begin as small as DeiT's, so that what they hold was learned."""

IMAGENET: dict[str, Any] = {"kind": "tiny_imagenet", "image_size": 224}

TRAINING: dict[str, Any] = {
    "encoding.std": 0.02,
    **{path: value for path, value in DEIT.items() if path != "model.drop_path"},
}
"""4.1: as DeiT, 300 epochs of 1,024 images a step, from a rate of 1e-3 to 1e-5; smaller batches have a rate in
proportion."""

WHOLE: dict[str, Any] = {"data": IMAGENET, **SMALL_SIZES["vit"], **TRAINING}
"""DeiT-S, trained from scratch as the paper does, on images of its size."""

PYRAMID_GAP = (
    "PVT (v1) and LocalViT, which we lack, are left out; our backbones with several stages, PVT v2 among them, give up "
    "no channels for a table beside the content"
)

SMALL_GAP = (
    "differences of 0.1 to 0.5 points cannot be told apart here: claims are equivalences within a margin, or about "
    "what probes find"
)
