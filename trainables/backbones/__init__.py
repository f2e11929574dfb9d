"""The list of backbones: a backbone is one pair of files of this folder and one line here.

`x.py` says which backbone, with which numbers; the class `Positioned...` in `x_torch.py` beside it is timm's model with
a place for an encoding, made as `Class(spec, size, outputs, encoding)`.
"""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import Field

from trainables.backbones.backbone import ModelSpec as ModelSpec
from trainables.backbones.backbone import Size as Size
from trainables.backbones.cait import CaiT as CaiT
from trainables.backbones.convit import ConViT as ConViT
from trainables.backbones.pvt_v2 import PVTv2 as PVTv2
from trainables.backbones.swin import Swin as Swin
from trainables.backbones.timm_names import TimmViT as TimmViT
from trainables.backbones.tnt import TNT as TNT
from trainables.backbones.twins import Twins as Twins
from trainables.backbones.vit import ViT as ViT
from trainables.backbones.volo import VOLO as VOLO

Model = Annotated[ViT | CaiT | ConViT | VOLO | TNT | PVTv2 | Swin | Twins | TimmViT, Field(discriminator="kind")]
"""Any backbone, told apart by its kind. A recipe holds a `TimmViT` as the `ViT` that it names."""

MODELS = {spec.model_fields["kind"].default: spec for spec in get_args(get_args(Model)[0])}
"""The backbones by their kind."""
