"""Replaces the position table of a ViT of timm by a position encoding, for users with their own training loop."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Self

from pydantic_core import PydanticCustomError
from timm.layers import PatchEmbed
from timm.models import vision_transformer as timm_vit
from torch import Tensor, nn

from trainables.backbones.backbone_torch import position
from trainables.backbones.vit_torch import Attention, Block, PositionedViT
from trainables.encodings import EncodingSpec, OwnEncoding, ReservedChannels, Shape, Widths
from trainables.encodings.declared_torch import assign_numbers, draw_numbers, that_draw
from trainables.encodings.encoding_torch import PositionEncoding, Tokens, TokensBND
from trainables.spec import SpecError
from trainables.training.init import init_weights
from trainables.training.optional.checkpointing import checkpointed
from trainables.training.parameters import no_decay
from trainables.training.runtime import HALVES
from trainables.training.trained import leave_out_initial_values

FLOAT32 = "have weights of float32 (torch.autocast computes with them in halves)"
"""What must be so of weights, because blocks add up in float32."""


class AttachedAttention(Attention):
    """Attention that takes no short way around a projection with additions of a user's own.

    A layer beside the projection (LoRA), one in its place (quantized) and a hook act in each block, also in the last.
    """

    def forward(self, t: Tokens, encoding: PositionEncoding, block: int, queries: int | None = None) -> TokensBND:
        """Returns the output of the first tokens, by default of all. Shapes: (B, N, D) to (B, queries, D)."""
        if _is_plain(self.qkv, nn.Linear):
            return super().forward(t, encoding, block, queries)
        return super().forward(t, encoding, block)[:, :queries]

    def _projected(self, t: Tokens, queries: int | None) -> tuple[Tensor, ...]:
        """Projects all of both inputs, where queries and keys have their own, if the projection is not plain."""
        if t.qk_input is None or _is_plain(self.qkv, nn.Linear):
            return super()._projected(t, queries)
        (q, k, _), (*_, v) = (self.qkv(x).split(self._widths(), dim=2) for x in (t.qk_input, t.x))
        return q, k, v


class AttachedViT(PositionedViT):
    """A ViT of timm with an encoding, in place of its own positions. `attach` makes one.

    `attached_for`: the rows and columns of an image's pixels, and those of its patches.
    """

    attached_for: tuple[tuple[int, int], tuple[int, int]]

    def no_weight_decay(self) -> set[str]:
        """Names the parameters that timm's optimizers exempt from weight decay: timm's, and the encoding's."""
        names: set[str] = timm_vit.VisionTransformer.no_weight_decay(self)
        return (names - {"pos_embed"}) | no_decay(self)

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Tells timm's layer-wise decay that the encoding belongs to the lowest layer, as timm's table does."""
        groups: dict[str, Any] = timm_vit.VisionTransformer.group_matcher(self, coarse)
        return groups | {"stem": rf"{groups['stem']}|^encoding\."}

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Lets training keep the inputs of blocks alone, or all. Raises: SpecError where a batch norm learns."""
        for block in self.blocks:
            vars(block).pop("forward", None)  # what `checkpointed` put there
        if enable:
            checkpointed(self)
        timm_vit.VisionTransformer.set_grad_checkpointing(self, enable)

    def set_input_size(self, *_: Any, **__: Any) -> None:
        """Is refused, because the encoding is made for one grid of patches. Raises: SpecError."""
        must = "have its input size before an encoding is attached, which is made for one grid of patches"
        raise SpecError(f"model must {must}, got set_input_size after it")

    def _after_blocks(self, images: Tensor, read: int | None) -> Tokens:
        """Returns the first tokens after the last block.

        Raises: SpecError for another size than the encoding's, for weights of half precision, and for a dropout that
        was set after `attach` and is left out here.
        """
        for must, got in _left_out(self):
            raise SpecError(f"model must {must}, got {got}")
        kind = next(self.parameters(), images).dtype  # a replica of DataParallel has no parameters of its own
        if kind in HALVES.values():
            raise SpecError(f"model must {FLOAT32}, got {kind}")
        for what, made_for, got in zip(
            ("images must have {} x {} pixels", "model must cut images into {} x {} patches"),
            self.attached_for,
            (images.shape[-2:], self.patch_embed.grid_size),
            strict=True,
        ):
            if tuple(got) != made_for:
                raise SpecError(
                    f"{what.format(*made_for)}, as when the encoding was attached, got {' x '.join(map(str, got))}"
                )
        return super()._after_blocks(images, read)

    def train(self, mode: bool = True) -> Self:
        """Sets training mode, in which batch norms of a frozen encoding keep their statistics, as in a run."""
        super().train(mode)
        _keep_statistics(self.encoding)
        return self

    def draw(self, seed: int, step: int) -> None:
        """Draws what the encoding needs for the next forward pass in training, such as a jitter of coordinates.

        Most encodings need nothing.
        """
        if encodings := that_draw(self):
            assign_numbers(encodings, draw_numbers(encodings, seed, step))


def attach(model: nn.Module, encoding: EncodingSpec, *, seed: int = 0) -> AttachedViT:
    """Replaces the position table of a VisionTransformer of timm by a position encoding, and returns the same model.

        model = timm.create_model("vit_small_patch16_224", pretrained=True)
        service.attach(model, service.Fourier(gamma=2))

    All other weights stay as they are, and so do outputs, `forward_features` and `forward_head`; images keep the size
    that they have now. The encoding's initial values are those that a run of this seed has; its parameters are named
    `encoding.<kind>...`. An encoding that takes channels from the content (concatenated) makes layers narrower, which
    start anew, as in such a run. One that draws random numbers in training (`rotary` with `jitter_coords`) needs
    `model.draw(seed, step)` before each forward pass. A frozen one keeps its initial values.
    Weights are float32, or float64; torch.autocast computes with them in halves. LoRA and other layers in place of
    `qkv`, and hooks on it, act in each block; add them after `attach` where the encoding makes that layer narrower.
    Raises: SpecError for a model that is no VisionTransformer of timm (a class derived from it may compute something
    else, as DeiT's with a distillation token does), or does what its blocks here do not do, and for an encoding that
    does not fit it.
    """
    if not isinstance(model, timm_vit.VisionTransformer) or type(model) is not timm_vit.VisionTransformer:
        raise SpecError(f"model must be a VisionTransformer of timm without an encoding, got {type(model).__name__}")
    if not isinstance(encoding, EncodingSpec):
        got = f"the class {encoding.__name__}" if isinstance(encoding, type) else repr(encoding)
        raise SpecError(f"encoding must be one with its values, such as service.Rotary(), got {got}")
    encoding = OwnEncoding.carried(encoding)
    attached: Any = model
    for must, got in _unlike(model):
        raise SpecError(f"model must {must}, got {got}")
    rows, columns = attached.patch_embed.grid_size
    attention = attached.blocks[0].attn
    widths = Widths(attached.embed_dim, attention.num_heads, attention.head_dim)
    shape = Shape(widths, len(attached.blocks), rows, columns, attached.num_prefix_tokens)
    try:
        encoding.check(shape)
    except PydanticCustomError as error:
        raise SpecError(str(error)) from None
    parts = position(encoding, shape)
    if parts.reserved.tokens and not _has_plain_patches(attached.patch_embed):
        must = "have timm's plain patch embedding, with a bias and no norm, where an encoding makes it narrower"
        raise SpecError(f"model must {must}, got {type(attached.patch_embed).__name__}")
    odd = [type(block.attn.qkv).__name__ for block in attached.blocks if not _is_plain(block.attn.qkv, nn.Linear)]
    if parts.reserved != ReservedChannels() and odd:
        must = "have torch's own Linear, without hooks, as qkv of each block, where an encoding makes it narrower"
        raise SpecError(f"model must {must}, got {odd[0]}: add yours after attach")
    before, patches = dict(attached.named_parameters()), attached.patch_embed
    attached.pos_embed = attached.dist_token = attached.head_dist = None  # a PositionedViT has the latter two
    for block in attached.blocks:
        block.__class__, block.attn.__class__ = Block, AttachedAttention
    attached.__class__ = AttachedViT
    attached.encoding, attached.attached_for = parts, (tuple(attached.patch_embed.img_size), (rows, columns))
    if parts.reserved != ReservedChannels():
        attached.give(parts.reserved)
    if not parts.reserved.tokens:
        attached.patch_embed = patches
    drawn = _put_back(attached, before)
    init_weights(attached, seed, drawn)
    leave_out_initial_values(parts)
    like = next(iter(before.values()))
    parts.to(like.device, like.dtype)
    for value in map(attached.get_parameter, drawn):
        value.data = value.data.to(like.device, like.dtype)
    for part in parts.modules():
        if isinstance(part, PositionEncoding) and part.frozen:
            part.requires_grad_(False)
    parts.train(attached.training)
    _keep_statistics(parts)
    return attached  # type: ignore[no-any-return]


def _keep_statistics(encoding: nn.Module) -> None:
    """Takes batch norms that do not learn out of training mode."""
    for part in encoding.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and not part.weight.requires_grad:
            part.eval()


def _put_back(model: nn.Module, before: dict[str, nn.Parameter]) -> set[str]:
    """Puts back each parameter whose name and shape stayed, and returns the names of the others."""
    after = dict(model.named_parameters())
    stay = {name for name, value in after.items() if name in before and value.shape == before[name].shape}
    for name in stay:
        owner, _, leaf = name.rpartition(".")
        setattr(model.get_submodule(owner), leaf, before[name])
    return after.keys() - stay


def _has_plain_patches(patches: Any) -> bool:
    """Returns whether a patch embedding is one that `give` makes narrower without leaving anything out."""
    plain = _is_plain(patches, PatchEmbed) and _is_plain(patches.proj, nn.Conv2d)
    return plain and patches.proj.bias is not None and isinstance(patches.norm, nn.Identity)


def _is_plain(layer: nn.Module, kind: type[nn.Module]) -> bool:
    """Returns whether a layer computes what its kind does, and nothing else asks to be called with it."""
    hooks = (layer._forward_hooks, layer._forward_pre_hooks, layer._backward_hooks, layer._backward_pre_hooks)
    return type(layer) is kind and "forward" not in vars(layer) and not any(hooks)


def _unlike(model: Any) -> Iterator[tuple[str, str]]:
    """Yields what must be so for blocks with an encoding to compute what timm's do, and what is there instead."""
    parts = [(block, timm_vit.Block) for block in model.blocks]
    parts += [(block.attn, timm_vit.Attention) for block in model.blocks if hasattr(block, "attn")]
    if odd := sorted({type(part).__name__ for part, known in parts if type(part) is not known}):
        yield "have timm's own blocks and attention", ", ".join(odd)
        return
    if halves := {value.dtype for value in model.parameters()} & {*HALVES.values()}:
        yield FLOAT32, ", ".join(sorted(map(str, halves)))
    if any(block.attn.gate is not None for block in model.blocks):
        yield "have attention without gates", "gated=True"
    if any(block.attn.qkv.bias is None for block in model.blocks):
        yield "have biases in its projections", "qkv_bias=False"
    for name, dynamic in (
        ("size", model.dynamic_img_size),
        ("pad", getattr(model.patch_embed, "dynamic_img_pad", False)),
    ):
        if dynamic:
            yield "have images of one size", f"dynamic_img_{name}=True"
    if model.grad_checkpointing:
        yield "be without gradient checkpointing until it has its encoding", "set_grad_checkpointing(True)"
    yield from _left_out(model)


def _left_out(model: Any) -> list[tuple[str, str]]:
    """Lists the same of layers that blocks with an encoding leave out, such as dropout of the attention weights."""
    idle = {"pos_drop_rate": [model.pos_drop], "patch_drop_rate": [model.patch_drop], "pre_norm": [model.norm_pre]}
    idle |= {
        f"{name}_drop_rate": [getattr(block.attn, f"{name}_drop") for block in model.blocks]
        for name in ("attn", "proj")
    }
    idle |= {"scale_attn_norm": [block.attn.norm for block in model.blocks]}
    return [
        (f"be without {name}", "one that has it")
        for name, layers in idle.items()
        if not all(isinstance(layer, nn.Identity) or getattr(layer, "p", None) == 0 for layer in layers)
    ]
