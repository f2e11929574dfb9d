"""Which of timm's models are plain ViTs, found by building them and comparing each layer with ours."""

import timm
import torch
from timm.layers import LayerNorm, Mlp, PatchEmbed
from timm.models import vision_transformer as timm_vit
from timm.models.deit import VisionTransformerDistilled
from torch import nn

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import NoEncoding

OUTPUTS = 2
FAMILIES = ("vision_transformer", "deit")
"""timm's files with models of the class VisionTransformer; all are listed."""


def candidates():
    return sorted(name for family in FAMILIES for name in timm.list_models(module=family))


def plain(name):
    """The ViT that timm's model of this name is, or None where a layer, a setting or a weight is not as ours."""
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        theirs = timm.create_model(name, num_classes=OUTPUTS)
        spec = numbers(theirs)
        if spec is None:
            return None
        ours = PositionedViT(spec, (3, *theirs.patch_embed.img_size), OUTPUTS, NoEncoding())
    return spec if same_layers(ours, theirs) and weights(ours) == weights(theirs) else None


def numbers(model):
    """The numbers of a model whose layers are of the usual classes."""
    if type(model) not in (timm_vit.VisionTransformer, VisionTransformerDistilled):
        return None
    block = model.blocks[0]
    usual = (type(block), type(model.patch_embed)) == (timm_vit.Block, PatchEmbed)
    if not usual or (type(block.attn), type(block.mlp)) != (timm_vit.Attention, Mlp):
        return None
    return ViT(
        embed_dim=model.embed_dim,
        depth=len(model.blocks),
        num_heads=block.attn.num_heads,
        patch_size=model.patch_embed.patch_size[0],
        mlp_ratio=block.mlp.fc1.out_features / model.embed_dim,
        pool=pool(model),
        registers=model.num_reg_tokens,
        layer_scale=getattr(block.ls1, "init_values", None),
        qk_norm=isinstance(block.attn.q_norm, LayerNorm),
    )


def pool(model):
    if isinstance(model, VisionTransformerDistilled):
        return "distilled"
    if model.global_pool == "token":
        return "token"
    return "gap" if isinstance(model.fc_norm, nn.Identity) else "avg"


def same_layers(ours, theirs):
    mine = dict(ours.named_modules())
    pairs = [(mine.get(place), layer) for place, layer in theirs.named_modules() if place]
    same = all(isinstance(one, type(other)) and settings(one) == settings(other) for one, other in pairs)
    return same and theirs.global_pool == ours.global_pool


def settings(layer):
    """The settings of a layer, as torch prints them, and those of attention that it does not print."""
    return layer.extra_repr(), getattr(layer, "scale", None), getattr(layer, "num_heads", None)


def weights(model):
    """The shapes of the weights, without the table of positions."""
    return {name: tuple(value.shape) for name, value in model.state_dict().items() if name != "pos_embed"}
