"""timm's VOLO with an encoding where its own table was: after the outlookers, on the coarser grid."""

from __future__ import annotations

import torch
from timm.models import volo as timm_volo
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import Host, on_map, position, residual
from trainables.backbones.initial_torch import timm_init, trunc_normal
from trainables.backbones.volo import VOLO
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Composition, Grid, Tokens


class PositionedVOLO(Host, timm_volo.VOLO):  # type: ignore[misc]
    """A VOLO with `encoding` for its tokens; stem and outlookers see the border as well.

    Raises: SpecError if the encoding reserves too many channels.
    """

    encoding: Composition

    def __init__(self, model: VOLO, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        (shape,) = model.shapes(size)
        composition = position(encoding, shape)
        (fine, dim), others = model.embed_dims, len(model.layers) - 1
        timm_volo.VOLO.__init__(
            self,
            layers=model.layers,
            img_size=size[1:],
            in_chans=size[0],
            num_classes=outputs,
            patch_size=model.patch_size,
            stem_hidden_dim=model.stem_hidden_dim,
            embed_dims=(fine, *[dim] * others),
            num_heads=(model.num_heads[0], *[model.num_heads[1]] * others),
            downsamples=(True, *[False] * others),
            outlook_attention=(True, *[False] * others),
            mlp_ratio=model.mlp_ratio,
            use_aux_head=False,
        )
        del self.pos_embed
        self.network[1] = timm_volo.Downsample(fine, dim - composition.reserved.tokens, 2)
        self.encoding = composition

    def features(self, images: Tensor) -> Tokens:
        """Returns the class token and the patches after the last norm. Shapes: to (B, 1 + P, D)."""
        outlookers, downsample, *stages = self.network
        x = downsample(outlookers(residual(self.patch_embed(images)).permute(0, 2, 3, 1)))
        x = on_map(self.encoding, x, 0, {})
        for stage in stages:
            x = stage(x)
        return Tokens(self.norm(self.forward_cls(x.flatten(1, 2))), Grid(x.shape[1], x.shape[2], 1))

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Initializes the backbone's parameters as timm does."""
        if name == "cls_token":
            trunc_normal(value, stream)
        else:
            timm_init(self, name, value, stream)
