"""What every backbone with an encoding does: it computes tokens from images, and predictions from tokens.

At the end: initial values of its parameters. They have timm's distributions, drawn from given random streams.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from timm.layers import LayerScale
from torch import Tensor, nn

from trainables.backbones.backbone import ModelSpec, Size
from trainables.encodings import EncodingSpec, ReservedChannels, Shape
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Cache, Composition, Grid, PositionEncoding, Tokens, full_precision
from trainables.encodings.initial_torch import torch_init
from trainables.spec import LocusError, SpecError


class Host(nn.Module):
    """A backbone whose position comes from `encoding`: a composition, or a list of them, one a stage.

    `no_decay`: parts of the names of the backbone's own position parameters, to which weight decay does not apply.
    """

    encoding: nn.Module
    no_decay: tuple[str, ...] = ()

    if TYPE_CHECKING:  # timm's layers, which mypy does not know

        def __getattr__(self, name: str) -> Any: ...

    def has_place(self, name: str) -> bool:
        """Returns whether a parameter is a prefix token or belongs to the backbone's own positions."""
        return name.endswith("_token") or any(part in name for part in self.no_decay)

    def resampled(self, name: str, value: Tensor, other: Host) -> Tensor:
        """Returns the value of a backbone's parameter in another backbone, which is for images of another size."""
        return value

    def features(self, images: Tensor) -> Tokens:
        """Returns the tokens after the last block and norm. Shapes: (B, channels, height, width) to (B, N, D)."""
        raise NotImplementedError

    def head_tokens(self, images: Tensor) -> Tokens:
        """Returns those of `features` that the heads read; a backbone that can leaves the others out."""
        return self.features(images)

    def answers(self, t: Tokens) -> tuple[Tensor, ...]:
        """Returns the output of each head; by default there is one, timm's. Shapes: (B, outputs) each."""
        return (self.forward_head(t.x),)

    def predictions(self, t: Tokens) -> tuple[Tensor, ...]:
        """Returns the output of each head, in float32 or float64 also under autocast. Shapes: (B, outputs) each."""
        with full_precision(t.x):
            return self.answers(replace(t, x=residual(t.x)))

    def output(self, t: Tokens) -> Tensor:
        """Returns the mean of the outputs of the heads. Shapes: (B, outputs)."""
        first, *others = self.predictions(t)
        return first if not others else (first + sum(others)) / (1 + len(others))

    def forward(self, images: Tensor) -> Tensor:
        """Returns the output, computed from no more tokens than it needs.

        The same from all tokens is `output(features(images))`; for timm's ViT it is timm's to the last bit.
        Shapes: (B, channels, height, width) to (B, outputs).
        """
        return self.output(self.head_tokens(images))

    def forward_features(self, images: Tensor) -> Tensor:
        return self.features(images).x

    def forward_intermediates(self, *_: Any, **__: Any) -> Any:
        """Is refused: timm's version runs the blocks without their encoding. Raises: LocusError."""
        raise LocusError("forward_intermediates runs blocks without their position; use hooks on model.blocks instead")


class TimmHost(Host):
    """A backbone of timm whose parameters start as timm's. `truncated`: the ends of the names of those that it cuts."""

    truncated: tuple[str, ...] = ("cls_token",)

    def init_parameter(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        if name.endswith(self.truncated):
            trunc_normal(value, stream)
        else:
            timm_init(self, name, value, stream)


def timm_arguments(model: ModelSpec, size: Size, outputs: int, *others: str) -> dict[str, Any]:
    """Returns what timm makes a model with. The fields of a spec have timm's names, but for some `others`."""
    names = [name for name in type(model).model_fields if name not in ("kind", *others)]
    return {"in_chans": size[0], "num_classes": outputs, **{name: getattr(model, name) for name in names}}


def residual(x: Tensor) -> Tensor:
    """Returns tokens for the residual stream, in float32 or float64 whatever autocast computed them in.

    So models with different encodings and pools add up their blocks in one precision.
    """
    return x.to(torch.promote_types(x.dtype, torch.float32))


def position(encoding: EncodingSpec, shape: Shape) -> Composition:
    """Returns the modules of an encoding in a backbone, or a stage of it, of this shape."""
    return build(encoding, shape.widths, Grid.of(shape), shape.depth)


def positions(encoding: EncodingSpec, shapes: tuple[Shape, ...]) -> nn.ModuleList:
    """Returns the modules of an encoding, one composition a stage.

    Raises: SpecError if they reserve channels, which stages do not support.
    """
    stages = [position(encoding, shape) for shape in shapes]
    if any(stage.reserved != ReservedChannels() for stage in stages):
        raise SpecError(f"encoding must leave the stages of the backbone all their channels, got {encoding.label}")
    return nn.ModuleList(stages)


def on_map(encoding: PositionEncoding, x: Tensor, block: int, cache: Cache) -> Tensor:
    """Returns a map of tokens as an encoding changes it before a block. Shapes: (B, R, C, D) to the same, or more D."""
    t = encoding.tokens(Tokens(residual(x).flatten(1, 2), Grid(x.shape[1], x.shape[2]), cache=cache), block)
    return residual(t.x).reshape(t.x.shape[0], t.grid.rows, t.grid.columns, -1)


def trunc_normal(value: Tensor, stream: torch.Generator) -> None:
    """Fills a value with timm's usual normal of deviation 0.02, cut at +-2."""
    nn.init.trunc_normal_(value, std=0.02, generator=stream)


def pyramid_init(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
    """Fills a parameter of a pyramid as PVT does: convolutions normal by their fan out, the rest as `timm_init`.

    Source: timm's `_init_weights` of PVT v2 and Twins. Differs: drawn from the given stream.
    """
    path, _, leaf = name.rpartition(".")
    layer = module.get_submodule(path)
    if not isinstance(layer, nn.Conv2d):
        timm_init(module, name, value, stream)
    elif leaf == "weight":
        fan_out = layer.kernel_size[0] * layer.kernel_size[1] * layer.out_channels // layer.groups
        value.normal_(std=math.sqrt(2 / fan_out), generator=stream)
    else:
        value.zero_()


def timm_init(module: nn.Module, name: str, value: Tensor, stream: torch.Generator) -> None:
    """Fills a parameter of timm's ViT as timm does: linear weights and the distillation token truncated normal, the
    class token and registers near zero, a layer's scale constant.

    Source: timm's `init_weights_vit_timm`, `deit.py` for the distillation token; the patch embedding keeps
    torch's values. Differs: drawn from the given stream.
    """
    path, _, leaf = name.rpartition(".")
    layer = module.get_submodule(path)
    if name in ("cls_token", "reg_token"):
        value.normal_(std=1e-6, generator=stream)
    elif isinstance(layer, LayerScale):
        value.fill_(layer.init_values)
    elif name == "dist_token" or (isinstance(layer, nn.Linear) and leaf == "weight"):
        trunc_normal(value, stream)
    elif not isinstance(layer, nn.Linear):
        torch_init(module, name, value, stream)
    else:
        value.zero_()
