"""timm's VOLO with an encoding where its own table was: after the outlookers, on the coarser grid."""

from __future__ import annotations

from timm.models import volo as timm_volo
from torch import Tensor

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import TimmHost, on_map, position, residual, timm_arguments
from trainables.backbones.volo import VOLO
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Composition, Grid, Tokens


class PositionedVOLO(TimmHost, timm_volo.VOLO):  # type: ignore[misc]
    """A VOLO with `encoding` for its tokens; stem and outlookers see the border as well.

    Raises: SpecError if the encoding reserves too many channels.
    """

    encoding: Composition

    def __init__(self, model: VOLO, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        composition = position(encoding, model.shape(size))
        (fine, dim), others = model.embed_dims, len(model.layers) - 1
        arguments = timm_arguments(model, size, outputs) | {
            "embed_dims": (fine, *[dim] * others),
            "num_heads": (model.num_heads[0], *[model.num_heads[1]] * others),
            "downsamples": (True, *[False] * others),
            "outlook_attention": (True, *[False] * others),
        }
        timm_volo.VOLO.__init__(self, img_size=size[1:], use_aux_head=False, **arguments)
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
