"""Small backbones of every kind, ours and timm's own, with the same weights drawn at random."""

from timm.models.cait import Cait
from timm.models.convit import ConVit
from timm.models.pvt_v2 import PyramidVisionTransformerV2
from timm.models.swin_transformer import SwinTransformer
from timm.models.tnt import TNT as TimmTNT  # noqa: N811
from timm.models.twins import Twins as TimmTwins
from timm.models.volo import VOLO as TimmVOLO  # noqa: N811
from torch import nn

from trainables.backbones import TNT, VOLO, CaiT, ConViT, PVTv2, Swin, Twins
from trainables.backbones.cait_torch import PositionedCaiT
from trainables.backbones.convit_torch import PositionedConViT
from trainables.backbones.pvt_v2_torch import PositionedPVTv2
from trainables.backbones.swin_torch import PositionedSwin
from trainables.backbones.tnt_torch import PositionedTNT
from trainables.backbones.twins_torch import PositionedTwins
from trainables.backbones.volo_torch import PositionedVOLO
from trainables.rng_torch import torch_stream

SPECS = {
    "cait": CaiT(embed_dim=24, depth=3, num_heads=3, mlp_ratio=2.5, depth_token_only=1),
    "convit": ConViT(embed_dim=40, depth=4, num_heads=5, mlp_ratio=2.5, local_up_to_layer=2, locality_strength=0.7),
    "volo": VOLO(embed_dims=(12, 24), layers=(2, 1, 2), num_heads=(2, 3), stem_hidden_dim=8, mlp_ratio=2.5),
    "tnt": TNT(
        embed_dim=24, depth=2, num_heads=3, mlp_ratio=2.5, inner_dim=12, num_heads_inner=3, patch_size=8, first_stride=3
    ),
    "pvt_v2": PVTv2(
        depths=(1, 2, 2), embed_dims=(8, 12, 18), num_heads=(1, 2, 3), sr_ratios=(2, 1, 1), mlp_ratios=(2, 3, 1.5)
    ),
    "twins": Twins(
        depths=(2, 1, 3), embed_dims=(8, 12, 18), num_heads=(1, 2, 3), sr_ratios=(2, 1, 1), mlp_ratios=(2, 3, 1.5)
    ),
    "swin": Swin(depths=(2, 3), num_heads=(2, 4), embed_dim=12, window_size=2, mlp_ratio=2.5),
}
SIZES = {
    "convit": (2, 16, 16),
    "swin": (2, 16, 32),
    "volo": (2, 16, 24),
    "tnt": (2, 16, 24),
    "pvt_v2": (2, 32, 48),
    "twins": (2, 32, 48),
}
TABLES = {"cait": "pos_embed", "convit": "pos_embed", "volo": "pos_embed", "tnt": "patch_pos"}
HOSTS = {
    "cait": PositionedCaiT, "convit": PositionedConViT, "volo": PositionedVOLO, "tnt": PositionedTNT,
    "pvt_v2": PositionedPVTv2, "twins": PositionedTwins, "swin": PositionedSwin,
}  # fmt: skip


def size(kind):
    return SIZES.get(kind, (2, 16, 24))


def ours(kind, encoding, spec=None):
    return HOSTS[kind](spec or SPECS[kind], size(kind), 7, encoding)


def timms(kind):
    """timm's own class, as its constructor makes it."""
    s = SPECS[kind]
    channels, *image = size(kind)
    common = {"in_chans": channels, "num_classes": 7}
    if kind == "cait":
        return Cait(img_size=image, patch_size=4, embed_dim=24, depth=3, num_heads=3, mlp_ratio=2.5, init_values=0.1,
                    depth_token_only=1, **common)  # fmt: skip
    if kind == "convit":
        return ConVit(img_size=image, patch_size=4, embed_dim=8, depth=4, num_heads=5, mlp_ratio=2.5,
                      local_up_to_layer=2, locality_strength=0.7, **common)  # fmt: skip
    if kind == "volo":
        return TimmVOLO(layers=(2, 1, 2), img_size=image, patch_size=4, stem_hidden_dim=8, embed_dims=(12, 24, 24),
                        num_heads=(2, 3, 3), mlp_ratio=2.5, downsamples=(True, False, False),
                        outlook_attention=(True, False, False), use_aux_head=False, **common)  # fmt: skip
    if kind == "tnt":
        return TimmTNT(img_size=image, patch_size=8, embed_dim=24, inner_dim=12, depth=2, num_heads_inner=3,
                       num_heads_outer=3, mlp_ratio=2.5, first_stride=3, **common)  # fmt: skip
    if kind == "swin":
        return SwinTransformer(img_size=image, embed_dim=12, depths=(2, 3), num_heads=(2, 4), window_size=2,
                               mlp_ratio=2.5, drop_path_rate=0.0, **common)  # fmt: skip
    stages = {"embed_dims": s.embed_dims, "num_heads": s.num_heads, "mlp_ratios": s.mlp_ratios, "depths": s.depths}
    if kind == "twins":
        return TimmTwins(img_size=image, sr_ratios=s.sr_ratios, **stages, **common)
    return PyramidVisionTransformerV2(sr_ratios=s.sr_ratios, **stages, **common)


def spread(model, seed=0):
    """Draws every parameter anew, so that no part of the model is too faint to be seen."""
    for name, value in model.named_parameters():
        nn.init.normal_(value, std=0.3, generator=torch_stream(seed, "spread", name))
    return model
