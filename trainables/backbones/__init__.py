"""The list of backbones: a backbone is one pair of files of this folder and one line here.

`x.py` says which backbone, with which numbers; the class `Positioned...` in `x_torch.py` beside it is timm's model with
a place for an encoding, made as `Class(spec, size, outputs, encoding)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.backbones.backbone import ModelSpec as ModelSpec
from trainables.backbones.backbone import Size as Size
from trainables.backbones.cait import CaiT as CaiT
from trainables.backbones.convit import ConViT as ConViT
from trainables.backbones.own import OwnModel as OwnModel
from trainables.backbones.pvt_v2 import PVTv2 as PVTv2
from trainables.backbones.swin import Swin as Swin
from trainables.backbones.timm_names import TimmViT as TimmViT
from trainables.backbones.tnt import TNT as TNT
from trainables.backbones.twins import Twins as Twins
from trainables.backbones.vit import ViT as ViT
from trainables.backbones.volo import VOLO as VOLO
from trainables.own import one_of

LISTED: tuple[type[ModelSpec], ...] = (ViT, CaiT, ConViT, VOLO, TNT, PVTv2, Swin, Twins, TimmViT)
"""Every backbone, in the order of messages. A recipe holds a `TimmViT` as the `ViT` that it names."""

MODELS = {spec.model_fields["kind"].default: spec for spec in LISTED}
"""The backbones by their kind."""

if TYPE_CHECKING:
    Model = ModelSpec
else:
    Model = one_of(LISTED, OwnModel)
