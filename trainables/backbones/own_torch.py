"""Makes a model of a person's own, and reads what its spec holds."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from trainables.backbones.backbone import ModelSpec, Size
from trainables.encodings import EncodingSpec
from trainables.rng_torch import seeded
from trainables.sentence import did_you_mean
from trainables.source import load, require_installed
from trainables.spec import LocusError, SpecError

SIDE = 8
"""How many patches a side has in the model from which a spec is read."""
TABLES = ("patch_embed.", "pos_embed", "head.")
"""The parameters whose number depends on the images, the positions and the classes."""


def PositionedOwnModel(spec: ModelSpec, size: Size, outputs: int, encoding: EncodingSpec) -> Any:  # noqa: N802
    """Returns a model of a user's file with an encoding. Called as the classes of other backbones are."""
    return import_module("trainables.training.own_model").own_model(spec, size, outputs, encoding)


def make(kind: str, source: str, size: Size, patch_size: int, outputs: int) -> Any:
    """Returns a new model of a user's file for images of this size, on the CPU.

    Raises: SpecError for a kind that makes no VisionTransformer of timm, and with the error of the user's code.
    """
    file, _, name = kind.partition(":")
    require_installed(file, source)
    names = vars(load(file, source))
    if not callable(maker := names.get(name)):
        got = f"{name!r}{did_you_mean(name, names)}"
        raise SpecError(f"model.kind must name a class or a function in {file}, got {got}")
    arguments = {"img_size": size[1:], "patch_size": patch_size, "in_chans": size[0], "num_classes": outputs}
    try:
        model = maker(**arguments)
    except LocusError:
        raise
    except Exception as error:
        must = f"model.kind must name what makes a model of {', '.join(arguments)}"
        raise SpecError(f"{must}, got {type(error).__name__} of {kind}: {error}") from error
    if not isinstance(model, VisionTransformer):
        must = "model.kind must name what makes a VisionTransformer of timm"
        raise SpecError(f"{must}, got {type(model).__name__} of {kind}")
    return model


def facts(kind: str, source: str, patch_size: int) -> dict[str, int]:
    """Returns what the spec of a model holds of it.

    Raises: SpecError as `make`, for a model that draws random numbers in training or knows other images of its batch,
    and for one that begins with weights that it loads: a run would draw others.
    """
    sides = (3, SIDE * patch_size, SIDE * patch_size)
    with seeded(0):
        model = make(kind, source, sides, patch_size, 2)
    with seeded(1):
        other = make(kind, source, sides, patch_size, 2)
    for layer in model.modules():
        drops = layer.p if isinstance(layer, nn.modules.dropout._DropoutNd) else getattr(layer, "drop_prob", 0)
        if drops or isinstance(layer, nn.modules.batchnorm._BatchNorm):
            must = f"{kind} must make a model without dropout, drop path and batch norms"
            raise SpecError(f"{must}, got a {type(layer).__name__}")
    if torch.equal(model.blocks[0].attn.qkv.weight, other.blocks[0].attn.qkv.weight):
        raise SpecError(
            f"{kind} must make a model with random weights, which each seed draws anew, got the same weights twice; "
            "init.kind=from_file starts from weights"
        )
    return facts_of(model)


def facts_of(model: Any) -> dict[str, int]:
    """Returns a model's widths, and how many parameters it has without `TABLES`."""
    counted = [value.numel() for name, value in model.named_parameters() if not name.startswith(TABLES)]
    heads = model.blocks[0].attn.num_heads
    fields = {"embed_dim": model.embed_dim, "depth": len(model.blocks), "num_heads": heads}
    return {**fields, "prefix": model.num_prefix_tokens, "weights": sum(counted)}
