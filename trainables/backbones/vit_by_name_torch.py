"""The ViT that timm knows by a name, as a spec of ours: `vit_like("deit_tiny_patch16_224")`.

For a study file or a notebook. The spec holds the numbers, and these are in a run's key, so nothing here changes an
answer. timm's model is built without memory for its weights, and compared with ours layer by layer.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any, Literal

import timm
import torch
from timm.layers import Mlp, PatchEmbed
from timm.models import vision_transformer as timm_vit
from timm.models.deit import VisionTransformerDistilled
from torch import nn

from trainables.backbones.vit import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import NoEncoding
from trainables.spec import SpecError

OUTPUTS = 2
"""Classes of the heads of the models that are compared: their number is the data's."""

PLAIN = {
    "patch_embed": PatchEmbed,
    "blocks.0": timm_vit.Block,
    "blocks.0.attn": timm_vit.Attention,
    "blocks.0.mlp": Mlp,
}
"""The layers from which the numbers are read."""


def vit_like(name: str) -> ViT:
    """The spec of timm's model of a name, such as "deit_tiny_patch16_224".

    Its table of positions is left to the recipe's `encoding` (timm's is `learnable`), its number of classes and its
    image size to `data`.
    Raises: SpecError for a name that timm does not know, and for a model with a layer that our ViT does not have.
    Cost: 0.3 s, and no memory for weights.
    """
    with torch.device("meta"), torch.random.fork_rng(devices=[]):
        theirs = _timm_model(name)
        spec = _numbers(name, theirs)
        ours = PositionedViT(spec, (3, *theirs.patch_embed.img_size), OUTPUTS, NoEncoding())
    for place, must, got in _differences(ours, theirs):
        raise SpecError(f"{name} must be a ViT as ours is, with {must} as {place}, got {got}")
    return spec


def _timm_model(name: str) -> Any:
    """Timm's model. Raises: SpecError for a name that timm does not know, or of no ViT."""
    if not timm.is_model(name):
        near = ", ".join(difflib.get_close_matches(name, timm.list_models(), n=3, cutoff=0))
        raise SpecError(f"the name of a model must be one of timm's, such as {near}, got {name!r}")
    model = timm.create_model(name, num_classes=OUTPUTS)
    if type(model) not in (timm_vit.VisionTransformer, VisionTransformerDistilled):
        raise SpecError(f"{name} must be a VisionTransformer of timm's, got {type(model).__name__}")
    return model


def _numbers(name: str, model: Any) -> ViT:
    """What a spec says of a model, read from its layers. Raises: SpecError where they are of other kinds."""
    layers = dict(model.named_modules())
    for place, must in PLAIN.items():
        if type(layers[place]) is not must:
            got = type(layers[place]).__name__
            raise SpecError(f"{name} must be a ViT as ours is, with {must.__name__} as {place}, got {got}")
    dim = model.embed_dim
    return ViT(
        embed_dim=dim,
        depth=len(model.blocks),
        num_heads=layers["blocks.0.attn"].num_heads,
        patch_size=layers["patch_embed"].patch_size[0],
        mlp_ratio=layers["blocks.0.mlp.fc1"].out_features / dim,
        pool=_pool(model),
    )


def _pool(model: Any) -> Literal["token", "distilled", "avg", "gap"]:
    if isinstance(model, VisionTransformerDistilled):
        return "distilled"
    if model.global_pool == "token":
        return "token"
    return "gap" if isinstance(model.fc_norm, nn.Identity) else "avg"


def _differences(ours: nn.Module, theirs: nn.Module) -> Iterator[tuple[str, str, str]]:
    """Where two models differ: the place, our layer, timm's layer; then parameters that only one of them has."""
    mine, layers = dict(ours.named_modules()), dict(theirs.named_modules())
    for place, layer in layers.items():
        if place and not (isinstance(mine.get(place), type(layer)) and _said(mine[place]) == _said(layer)):
            yield place, _words(mine.get(place)), _words(layer)
    if theirs.global_pool != ours.global_pool:
        yield "global_pool", str(ours.global_pool), str(theirs.global_pool)
    own, known = _shapes(ours), _shapes(theirs)
    for place in sorted(own.keys() | known.keys()):
        if own.get(place) != known.get(place):
            yield place, own.get(place, "nothing"), known.get(place, "nothing")


def _said(layer: nn.Module) -> str:
    """The settings of a layer, as torch prints them, and the scale and the heads of attention."""
    return f"{layer.extra_repr()} {getattr(layer, 'scale', '')} {getattr(layer, 'num_heads', '')}"


def _words(layer: nn.Module | None) -> str:
    return "nothing" if layer is None else f"{type(layer).__name__}({layer.extra_repr()})"


def _shapes(model: nn.Module) -> dict[str, str]:
    """The shapes of the weights in words, without the table of positions."""
    state = model.state_dict()
    return {name: f"weights of shape {tuple(value.shape)}" for name, value in state.items() if name != "pos_embed"}
