"""Puts a position encoding into a ViT of timm in place of its own positions, for users with their own training loop."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import torch
from timm.layers import DiffAttention, PatchEmbed
from timm.models.eva import Eva, EvaBlock
from timm.models.vision_transformer import Attention, Block, DiffParallelScalingBlock, VisionTransformer
from torch import nn

from trainables.backbones.vit_torch import narrow
from trainables.encodings import KINDS, EncodingSpec, OwnEncoding, ReservedChannels, Shape, Widths
from trainables.encodings.encoding_torch import PositionEncoding
from trainables.sentence import did_you_mean
from trainables.spec import SpecError
from trainables.training import attached
from trainables.training.attached import AttachedViT, NarrowAttention, beside_projections
from trainables.training.init import init_weights
from trainables.training.optional.checkpointing import require_still
from trainables.training.parameters import keep_statistics
from trainables.training.trained import evaluating, leave_out_initial_values

Keep = Literal["nothing", "table", "rope", "both"]
"""What of its own positions a model keeps beside the encoding."""


def attach(model: nn.Module, encoding: str | EncodingSpec, *, keep: Keep = "nothing", seed: int = 0) -> AttachedViT:
    """Replaces the positions of a VisionTransformer or an Eva of timm by an encoding, and returns the same model.

        model = timm.create_model("vit_small_patch16_224", pretrained=True)
        service.attach(model, "rotary")  # or service.Rotary(temperature=50.0)

    All other weights stay as they are, and so do timm's methods and hooks, and those of a class of your own: what
    `_pos_embed` adds is replaced, and no more. `keep`: what stays of the model's own positions, its table or its rope.
    Images may have other sizes where the model takes them (`dynamic_img_size=True`, `set_input_size`): functions of the
    coordinates are computed for the new grid, and tables resampled from those of the present one, which learn at all
    sizes. The encoding's initial values are those that a run of this seed has; its parameters are named
    `encoding.<kind>...`. An encoding that takes channels from the content (concatenated) makes layers narrower, which
    start anew, as in such a run. One that draws random numbers in training (`rotary` with `jitter_coords`) needs
    `model.draw(seed, step)` before each forward pass. A frozen one keeps its initial values.
    Weights are float32, or float64; torch.autocast computes with them in halves. LoRA and other layers in place of
    `qkv`, and hooks on it, act in each block; add them after `attach` where the encoding makes that layer narrower.
    Raises: SpecError for a model in which the encoding cannot act, and for an encoding that does not fit it.
    """
    vit, encoding = _checked(model, keep), _named(encoding)
    attention = _attentions(vit.blocks[0])[0]
    widths = Widths(vit.embed_dim, attention.num_heads, attention.head_dim)
    rows, columns = vit.patch_embed.grid_size
    shape = Shape(widths, len(vit.blocks), rows, columns, vit.num_prefix_tokens)
    parts = attached.built(encoding, shape)
    _check_narrower(vit, parts.reserved, keep)
    if vit.grad_checkpointing:
        require_still(parts)
    before = dict(vit.named_parameters())
    _remove_positions(vit, keep)
    for block in vit.blocks if replace(parts.reserved, tokens=0) != ReservedChannels() else ():
        block.attn.__class__ = NarrowAttention
    narrow(vit, parts.reserved)
    vit.encoding, vit.spec, vit.shape, vit.passes = parts, encoding, shape, attached.Passes()
    attends = "attention" in encoding.injection_points or parts.in_heads != "nothing" or parts.reads_weights
    for number, block in enumerate(vit.blocks):
        block.passes, block.number, block.attends = vit.passes, number, attends
        block.norms_first = type(block).forward in (Block.forward, EvaBlock.forward)
        for part in _attentions(block):
            part.passes = vit.passes
            if not isinstance(part, NarrowAttention):
                vars(part)["is_fused"] = vars(part).pop("fused_attn", True)
                attached.mix(part, attached.AttachedAttention)
        attached.mix(block, attached.AttachedBlock)
    attached.mix(vit, AttachedViT)
    drawn = _put_back(vit, before)
    init_weights(vit, seed, drawn)
    leave_out_initial_values(parts)
    like = next(iter(before.values()))
    parts.to(like.device, like.dtype)
    for value in map(vit.get_parameter, drawn):
        value.data = value.data.to(like.device, like.dtype)
    for part in parts.modules():
        if isinstance(part, PositionEncoding) and part.frozen:
            part.requires_grad_(False)
    keep_statistics(parts.train(vit.training))
    if vit.grad_checkpointing:
        vit.set_grad_checkpointing()
    return vit  # type: ignore[no-any-return]


def _named(encoding: Any) -> EncodingSpec:
    """Returns an encoding, given by its kind or as it is. Raises: SpecError for anything else."""
    if isinstance(encoding, str) and encoding in KINDS:
        return KINDS[encoding]()  # type: ignore[call-arg]
    if not isinstance(encoding, EncodingSpec):
        got = f"the class {encoding.__name__}" if isinstance(encoding, type) else repr(encoding)
        must = f"one of {', '.join(KINDS)}, or one with its values, such as service.Rotary()"
        raise SpecError(f"encoding must be {must}, got {got}{did_you_mean(encoding, KINDS)}")
    return OwnEncoding.carried(encoding)  # type: ignore[no-any-return]


def _checked(model: Any, keep: Keep) -> Any:
    """Returns the model. Raises: SpecError if no encoding can act in it."""
    if not isinstance(model, VisionTransformer | Eva) or isinstance(model, AttachedViT):
        must = "be a VisionTransformer or an Eva of timm, or of a class derived from one, without an encoding"
        raise SpecError(f"model must {must}, got {type(model).__name__}")
    positions = {"table": model.pos_embed, "rope": getattr(model, "rope", None)}
    legal = ["nothing", *(name for name, part in positions.items() if part is not None)]
    legal += ["both"] * (len(legal) == 3)
    if keep not in legal:
        raise SpecError(f"keep must be one of {', '.join(legal)} for this model, got {keep!r}")
    attached.require_plain(model)
    attentions = [_attentions(block) for block in model.blocks]
    parts = [part for parts_of_block in attentions for part in parts_of_block]
    widths = {tuple(getattr(part, name, 0) for name in ("num_heads", "head_dim")) for part in parts}
    if not all(attentions) or len(widths) != 1 or 0 in min(widths):
        must = "have attention in each block, with num_heads and head_dim, which are the same in all"
        raise SpecError(f"model must {must}, got {sorted(widths)}")
    if any(isinstance(part, DiffAttention | DiffParallelScalingBlock) for part in model.modules()):
        raise SpecError("model must have one softmax in its attention, got differential attention")
    if type(model)._pos_embed not in (VisionTransformer._pos_embed, Eva._pos_embed) and keep in ("nothing", "rope"):
        _check_table_alone(model)
    return model


def _check_table_alone(model: Any) -> None:
    """Raises: SpecError if `_pos_embed` of a user's class, without its table, does not treat all patches alike."""
    (rows, columns), table = model.patch_embed.grid_size, model.pos_embed
    order, outputs = torch.randperm(rows * columns, generator=torch.Generator().manual_seed(0)), []
    x = torch.linspace(-1, 1, len(order) * model.embed_dim).reshape(1, len(order), -1).to(next(model.parameters()))
    model.pos_embed = None if table is None else nn.Parameter(torch.zeros_like(table))
    with torch.no_grad(), evaluating(model):
        for each in (x, x[:, order]):
            made = model._pos_embed(each.reshape(1, rows, columns, -1) if model.dynamic_img_size else each)
            outputs.append((made[0] if isinstance(made, tuple) else made)[:, model.num_prefix_tokens :])
    model.pos_embed = table
    if not torch.equal(outputs[0][:, order], outputs[1]):
        must = "add no position but its table (pos_embed), and put prefix tokens before patches"
        raise SpecError(f"_pos_embed of {type(model).__name__} must {must}")


def _attentions(block: nn.Module) -> list[Any]:
    """Returns the modules of a block that attend: those of timm know `fused_attn`; a user's own is named `attn`."""
    timms = [part for part in block.modules() if hasattr(part, "fused_attn")]
    return timms or [part for name, part in block.named_children() if name == "attn"]


def _remove_positions(model: Any, keep: Keep) -> None:
    if keep in ("nothing", "rope") and type(model) in (VisionTransformer, Eva):
        model.pos_embed = None
    elif keep in ("nothing", "rope") and model.pos_embed is not None:
        attached.zero_table(model)
    if keep in ("nothing", "table") and isinstance(model, Eva):
        model.rope = None


def _check_narrower(model: Any, reserved: ReservedChannels, keep: Keep) -> None:
    """Raises: SpecError if layers that would become narrower do more than timm's plain ones."""
    patches, layers = model.patch_embed, list[tuple[Any, type[nn.Module]]]()
    if reserved.tokens:
        layers += [(patches, PatchEmbed), (getattr(patches, "proj", None), nn.Conv2d)]
    if replace(reserved, tokens=0) != ReservedChannels():
        for part in (part for block in model.blocks for part in _attentions(block)):
            layers += [(part, Attention), (getattr(part, "qkv", None), nn.Linear)]
    hooks = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
    for layer, kind in layers:
        more = beside_projections(layer) + ["bias=False"] * (getattr(layer, "bias", 0) is None)
        plain = type(layer) is kind and "forward" not in vars(layer) and not any(getattr(layer, name) for name in hooks)
        if more or not plain:
            must = f"a plain {kind.__name__} with a bias and no hooks, where an encoding makes it narrower"
            got = f"{type(layer).__name__} {' '.join(more)}".strip()
            raise SpecError(f"model must have {must}, got {got}: add yours after attach")
    if reserved.tokens and keep in ("table", "both"):
        raise SpecError(f"keep must be nothing or rope where an encoding makes tokens narrower, got {keep!r}")


def _put_back(model: nn.Module, before: dict[str, nn.Parameter]) -> set[str]:
    """Puts back each parameter whose name and shape stayed, and returns the names of the others."""
    after = dict(model.named_parameters())
    stay = {name for name, value in after.items() if name in before and value.shape == before[name].shape}
    for name in stay:
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, before[name])
    return after.keys() - stay
