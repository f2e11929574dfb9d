"""timm's VisionTransformer with the verbs of a position encoding in it, and nothing else.

Built on timm's own seams: its blocks and attention with other `forward`s, its position table left out. All of timm's
state-dict keys stay; the encoding's parameters are named `encoding.<kind>.…`.
"""

from __future__ import annotations

from typing import Any, Literal

import torch
from timm.layers import PatchEmbed
from timm.models import vision_transformer as timm_vit
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from trainables.catalog import EncodingSpec
from trainables.encoding import Composition, Grid, Heads, PositionEncoding, Takes, Tokens, TokensBND, Widths
from trainables.encodings import build
from trainables.initial import timm_start
from trainables.recipe import Recipe, ViT
from trainables.spec import LocusError, SpecError


class Attention(timm_vit.Attention):  # type: ignore[misc]
    """timm's attention with an encoding between projection and softmax, and after it.

    Fused, unless the encoding reads the weights or timm's `fused_attn` says no. Logits are scaled
    by the head's own width, also where an encoding adds channels.
    """

    takes = Takes()
    qkv: nn.Linear

    def take(self, takes: Takes) -> None:
        """Makes the projection narrower by the channels that position fills."""
        self.takes = takes
        self.qkv = nn.Linear(self.qkv.in_features, sum(self._widths()))

    def forward(self, t: Tokens, encoding: PositionEncoding, block: int) -> TokensBND:
        q, k, v = (part.reshape(*t.x.shape[:2], self.num_heads, -1).transpose(1, 2) for part in self._projected(t))
        h = encoding.heads(Heads(q, k, v, None, t.grid), block)
        if encoding.reads_weights or not self.fused_attn:
            weights = self.weights(h)
            o = encoding.outputs(weights @ h.v, weights, t.grid, block)
        else:
            extended = h.q.shape[3] != self.head_dim
            scale = self.scale if extended else None  # torch's own default, as timm has it: they differ in the last bit
            o = scaled_dot_product_attention(h.q, h.k, h.v, attn_mask=h.bias, scale=scale)
        return self.proj(o.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def weights(self, h: Heads) -> Tensor:
        """The attention weights. Shapes: (B, H, N, N)."""
        logits = (h.q * self.scale) @ h.k.transpose(2, 3)
        return torch.softmax(logits if h.bias is None else logits + h.bias, dim=3)

    def _projected(self, t: Tokens) -> tuple[Tensor, ...]:
        """Queries, keys and values; the first two from what the tokens have aside, where they have something."""
        if t.aside is None:
            return self.qkv(t.x).split(self._widths(), dim=2)  # type: ignore[no-any-return]
        *asking, values = self._widths()
        weight, bias = self.qkv.weight, self.qkv.bias
        asked = linear(t.aside, weight[: sum(asking)], bias[: sum(asking)])
        return *torch.split(asked, asking, dim=2), linear(t.x, weight[-values:], bias[-values:])

    def _widths(self) -> list[int]:
        taken = (self.takes.q, self.takes.k, self.takes.v)
        return [self.num_heads * (self.head_dim - channels) for channels in taken]


class Block(timm_vit.Block):  # type: ignore[misc]
    """timm's block, with an encoding before and in it."""

    def forward(self, t: Tokens, encoding: PositionEncoding, block: int) -> Tokens:
        t = encoding.tokens(t, block)
        aside = None if t.aside is None else self.norm1(t.x + t.aside)
        x = t.x + self.attn(Tokens(self.norm1(t.x), t.grid, aside), encoding, block)
        return Tokens(x + self.mlp(self.norm2(x)), t.grid)


class PositionedViT(timm_vit.VisionTransformer):  # type: ignore[misc]
    """A ViT whose only source of position is `encoding`.

    Raises: SpecError where the encoding takes too many channels, or its parts are in an order that cannot work.
    """

    encoding: Composition
    patch_embed: PatchEmbed
    cls_token: nn.Parameter | None

    def __init__(self, model: ViT, size: tuple[int, int, int], outputs: int, encoding: EncodingSpec) -> None:
        channels, height, width = size
        grid = Grid(height // model.patch, width // model.patch, model.prefix)
        positions = build(encoding, Widths(model.dim, model.heads, model.dim // model.heads), grid, model.depth)
        super().__init__(
            img_size=(height, width),
            patch_size=model.patch,
            in_chans=channels,
            num_classes=outputs,
            global_pool="token" if model.prefix else "avg",
            fc_norm=model.read_out == "mean",  # the norm after the average; else before the read-out
            class_token=bool(model.prefix),
            embed_dim=model.dim,
            depth=model.depth,
            num_heads=model.heads,
            mlp_ratio=model.mlp_ratio,
            pos_embed="none",
            block_fn=Block,
            attn_layer=Attention,
        )
        self.encoding = positions
        if positions.takes != Takes():
            self._give(positions.takes)

    def _give(self, takes: Takes) -> None:
        """Replaces timm's layers by narrower ones, for the channels that position fills."""
        patch, content = self.patch_embed, self.embed_dim - takes.tokens
        self.patch_embed = PatchEmbed(patch.img_size, patch.patch_size, self.in_chans, content)
        if self.cls_token is not None:
            self.cls_token = nn.Parameter(torch.zeros(1, 1, content))
        for block in self.blocks:
            block.attn.take(takes)

    @property
    def grid(self) -> Grid:
        """The grid of patches, and the prefix tokens before it."""
        rows, columns = self.patch_embed.grid_size
        return Grid(rows, columns, self.num_prefix_tokens)

    def forward(self, images: Tensor) -> Tensor:
        """The head's numbers for a batch. Shapes: (B, channels, height, width) to (B, outputs)."""
        return self.forward_head(self.forward_features(images))  # type: ignore[no-any-return]

    def forward_features(self, images: Tensor) -> Tensor:
        """The tokens after the last block and norm. Shapes: (B, channels, height, width) to (B, N, D)."""
        x = self.patch_embed(images)
        if self.cls_token is not None or not self.encoding.parts:
            x = self._pos_embed(x)  # the class token; without one a copy, which timm makes only where it has no table
        t = Tokens(x, self.grid)
        for number, block in enumerate(self.blocks):
            t = block(t, self.encoding, number)
        return self.norm(t.x)  # type: ignore[no-any-return]

    def forward_intermediates(self, *_: Any, **__: Any) -> Any:
        """Refused: timm's version runs the blocks without their encoding. Raises: LocusError."""
        raise LocusError("forward_intermediates runs blocks without their position; use hooks on model.blocks instead")

    def start(self, name: str, value: Tensor, stream: torch.Generator) -> None:
        """Starts the trunk's parameters as timm does (`trainables.initial.draw`)."""
        timm_start(self, name, value, stream)


def build_vit(recipe: Recipe) -> PositionedViT:
    """The model of a recipe; `trainables.initial.draw(model, seed)` gives it its initial weights."""
    return PositionedViT(recipe.model, recipe.data.size, recipe.data.outputs, recipe.encoding)


def no_decay(model: nn.Module) -> set[str]:
    """The parameters that weight decay would spoil: biases, norms, the class token, position tables, frequencies."""
    positions = {
        f"{prefix}.{name}"
        for prefix, module in model.named_modules()
        if isinstance(module, PositionEncoding)
        for name in module.undecayed
    }
    names = dict(model.named_parameters())
    return {name for name, value in names.items() if value.ndim < 2 or name == "cls_token" or name in positions}


def trainable(model: PositionedViT, learns: Literal["all", "position"]) -> None:
    """Lets all parameters learn, or the encoding's only; frozen parts stay as they start.

    Raises: SpecError where only position should learn and the encoding has nothing that learns.
    """
    model.requires_grad_(learns == "all")
    model.encoding.requires_grad_(True)
    for part in model.encoding.modules():
        if isinstance(part, PositionEncoding) and part.frozen:
            part.requires_grad_(False)
    if learns == "position" and not any(parameter.requires_grad for parameter in model.encoding.parameters()):
        label = "+".join(model.encoding.parts) or "none"
        raise SpecError(f"learns must be 'all' where nothing of the encoding ({label}) learns, got 'position'")
