"""timm's VisionTransformer, which calls a position encoding; nothing else is changed.

timm's blocks and attention have another `forward` here, and timm's position table is left out. All of timm's state-dict
keys stay; the encoding's parameters are named `encoding.<kind>.…`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from timm.layers import PatchEmbed
from timm.models import vision_transformer as timm_vit
from torch import Tensor, nn
from torch.nn.functional import linear, scaled_dot_product_attention

from trainables.backbones.backbone import Size
from trainables.backbones.backbone_torch import TimmHost, position, residual
from trainables.backbones.vit import ViT
from trainables.encodings import EncodingSpec, ReservedChannels
from trainables.encodings.encoding_torch import Composition, Grid, Heads, PositionEncoding, Tokens, TokensBND


class Attention(timm_vit.Attention):  # type: ignore[misc]
    """timm's attention with an encoding between projection and softmax, and after it.

    All blocks but the last compute every token: projected in one product and fused, unless the encoding reads the
    weights or timm's `fused_attn` says no. The last block of a model whose heads read prefix tokens alone computes
    the queries of these tokens; and if nothing changes queries and keys, it projects no keys and values at all.
    Gain, in the time of a training step of 65 tokens and 64 channels: with one block, as the red-green models have,
    8.5 times for a learnable table (1.9 of it by leaving out keys and values) and 5.7 times for iRPE; with three
    blocks of 17 tokens 1.3 times; nothing where the heads read an average of all tokens.

    Logits are scaled by the head's own width, also if an encoding adds channels. A bias is a mask for
    `scaled_dot_product_attention`. Nothing is padded here: torch itself pads rows that are no
    multiple of 8 numbers for its memory-efficient kernel. FlexAttention is not used: it has no gradient on CPUs, and it
    is fast only if it is compiled, which would be another computation than a run that is not.
    """

    reserved = ReservedChannels()
    qkv: nn.Linear
    q_norm: nn.Module
    k_norm: nn.Module

    def take(self, reserved: ReservedChannels) -> None:
        """Makes the projection, and the norms of queries and keys, narrower by the channels that position fills."""
        self.reserved = reserved
        self.qkv = nn.Linear(self.qkv.in_features, sum(self._widths()))
        if self._normalizes_qk():
            self.q_norm = _narrower(self.q_norm, self.head_dim - reserved.q)
            self.k_norm = _narrower(self.k_norm, self.head_dim - reserved.k)

    def forward(self, t: Tokens, encoding: PositionEncoding, block: int, queries: int | None = None) -> TokensBND:
        """Returns the output of the first tokens, by default of all. Shapes: (B, N, D) to (B, queries, D)."""
        if queries is not None and encoding.in_heads == "nothing" and not self._normalizes_qk():
            return self._of_first(t, encoding.bias(t.grid, queries, block), queries)
        projected = self._projected(t, None if encoding.in_heads == "all" else queries)
        q, k, v = (part.reshape(*part.shape[:2], self.num_heads, -1).transpose(1, 2) for part in projected)
        q, k = self.q_norm(q), self.k_norm(k)
        h = encoding.heads(Heads(q, k, v, None, t.grid, t.cache), block)
        if queries is not None and (encoding.in_heads == "first" or not encoding.reads_weights):
            h = h.first(queries)
        if encoding.reads_weights or not self.fused_attn:
            weights = self.weights(h)
            o = encoding.outputs(weights @ h.v, weights, t.grid, block)
        else:
            extended = h.q.shape[3] != self.head_dim
            scale = self.scale if extended else None  # torch's own default, as timm has it: they differ in the last bit
            o = scaled_dot_product_attention(h.q, h.k, h.v, attn_mask=h.bias, scale=scale)
        terms = encoding.value_terms(h, block)
        o = o if terms is None else o + terms
        return self.proj(o[:, :, :queries].transpose(1, 2).flatten(2))  # type: ignore[no-any-return]

    def _of_first(self, t: Tokens, bias: Tensor | None, queries: int) -> TokensBND:
        """Returns the same for few queries, without keys and values: the tokens themselves are asked and summed.

        q . (W x + b) is (W^T q) . x plus a number that the softmax does not see; and since weights sum to 1, the sum of
        weights times values is W (sum of weights times x) + b.
        Cost: a product with W a query and head, where keys and values are one a token.
        """
        source = t.x if t.qk_input is None else t.qk_input
        (images, _, dim), heads = t.x.shape, self.num_heads
        (wq, wk, wv), (bq, _, bv) = (values.chunk(3) for values in (self.qkv.weight, self.qkv.bias))
        q = linear(source[:, :queries], wq, bq).reshape(images, queries, heads, -1) * self.scale
        queries_x = torch.einsum("bqhe,hed->bhqd", q, wk.reshape(heads, -1, dim))
        logits = (queries_x.flatten(1, 2) @ source.mT).reshape(images, heads, queries, -1)
        weights = torch.softmax(logits if bias is None else logits + bias, dim=3)
        summed = (weights.flatten(1, 2) @ t.x).reshape(images, heads, queries, dim)
        o = torch.einsum("bhqd,hed->bqhe", summed, wv.reshape(heads, -1, dim))
        return self.proj(o.flatten(2) + bv)  # type: ignore[no-any-return]

    def _normalizes_qk(self) -> bool:
        return not isinstance(self.q_norm, nn.Identity)

    def weights(self, h: Heads) -> Tensor:
        """Returns the attention weights. Shapes: (B, H, N, N)."""
        logits = (h.q * self.scale) @ h.k.transpose(2, 3)
        return torch.softmax(logits if h.bias is None else logits + h.bias, dim=3)

    def _projected(self, t: Tokens, queries: int | None) -> tuple[Tensor, ...]:
        """Projects queries of the first tokens, keys and values of all; q and k from `qk_input` if the tokens have it.

        One product for all where it can be, as timm has it.
        """
        q, k, v = self._widths()
        if t.qk_input is None and queries is None:
            return self.qkv(t.x).split((q, k, v), dim=2)  # type: ignore[no-any-return]
        if t.qk_input is None:
            of_q, of_kv = self._parts(q, k + v)
            return of_q(t.x[:, :queries]), *torch.split(of_kv(t.x), [k, v], dim=2)
        of_q, of_k, of_v = self._parts(q, k, v)
        return of_q(t.qk_input[:, :queries]), of_k(t.qk_input), of_v(t.x)

    def _parts(self, *widths: int) -> list[Callable[[Tensor], Tensor]]:
        """Returns the projection cut into several, each with its own output channels."""
        weights, biases = (torch.split(values, list(widths)) for values in (self.qkv.weight, self.qkv.bias))
        return [partial(linear, weight=weight, bias=bias) for weight, bias in zip(weights, biases, strict=True)]

    def _widths(self) -> list[int]:
        reserved = (self.reserved.q, self.reserved.k, self.reserved.v)
        return [self.num_heads * (self.head_dim - channels) for channels in reserved]


def _narrower(norm: nn.Module, channels: int) -> nn.Module:
    narrower: nn.Module = type(norm)(channels, eps=norm.eps)
    return narrower


def narrow(model: Any, reserved: ReservedChannels) -> None:
    """Replaces timm's layers by narrower ones, for the channels that position fills."""
    if reserved.tokens:
        content, proj = model.embed_dim - reserved.tokens, model.patch_embed.proj
        model.patch_embed.proj = nn.Conv2d(proj.in_channels, content, proj.kernel_size, proj.stride)
        for name in ("cls_token", "dist_token", "reg_token"):
            if (token := getattr(model, name, None)) is not None:
                setattr(model, name, nn.Parameter(torch.zeros(1, token.shape[1], content)))
    if reserved.q or reserved.k or reserved.v:
        for block in model.blocks:
            block.attn.take(reserved)


class Block(timm_vit.Block):  # type: ignore[misc]
    """timm's block, with an encoding before and in it."""

    def forward(self, t: Tokens, encoding: PositionEncoding, block: int, queries: int | None = None) -> Tokens:
        """Returns the first tokens after this block, by default all. Shapes: (B, N, D) to (B, queries, D)."""
        t = encoding.tokens(t, block)
        t = replace(t, x=residual(t.x))
        qk_input = None if t.qk_input is None else self.norm1(t.x + t.qk_input)
        o = self.attn(replace(t, x=self.norm1(t.x), qk_input=qk_input), encoding, block, queries)
        x = t.x[:, :queries] + self.drop_path1(self.ls1(o))
        return replace(t, x=x + self.drop_path2(self.ls2(self.mlp(self.norm2(x)))), qk_input=None)


class PositionedViT(TimmHost, timm_vit.VisionTransformer):  # type: ignore[misc]
    """A ViT whose only source of position is `encoding`.

    Raises: SpecError if the encoding reserves too many channels, or its parts are in an order that cannot work.
    """

    truncated = ()
    encoding: Composition
    patch_embed: PatchEmbed
    embed_dim: int
    blocks: Any
    norm: nn.Module
    forward_head: Callable[[Tensor], Tensor]
    cls_token: nn.Parameter | None
    head_dist: nn.Linear | None
    dist_token: nn.Parameter | None
    reg_token: nn.Parameter | None

    def __init__(self, model: ViT, size: Size, outputs: int, encoding: EncodingSpec) -> None:
        positions = position(encoding, model.shape(size))
        timm_vit.VisionTransformer.__init__(
            self,
            img_size=size[1:],
            patch_size=model.patch_size,
            in_chans=size[0],
            num_classes=outputs,
            global_pool="token" if model.class_tokens else "avg",
            fc_norm=model.pool == "avg",  # the norm after the average; else before the read-out
            class_token=model.class_tokens > 0,
            reg_tokens=model.registers,
            embed_dim=model.embed_dim,
            depth=model.depth,
            num_heads=model.num_heads,
            mlp_ratio=model.mlp_ratio,
            qk_norm=model.qk_norm,
            init_values=model.layer_scale,
            drop_path_rate=model.drop_path,
            pos_embed="none",
            block_fn=Block,
            attn_layer=Attention,
        )
        self.num_prefix_tokens = model.prefix
        self.dist_token, self.head_dist = None, None
        if model.pool == "distilled":
            self.dist_token = nn.Parameter(torch.zeros(1, 1, model.embed_dim))
            self.head_dist = nn.Linear(model.embed_dim, outputs)
        if model.drop_path:
            from trainables.backbones.drop_path_torch import replace_drop_paths  # other models need no file for it

            replace_drop_paths(self)
        self.encoding = positions
        narrow(self, positions.reserved)

    @property
    def grid(self) -> Grid:
        """The grid of patches, and the prefix tokens before it."""
        rows, columns = self.patch_embed.grid_size
        return Grid(rows, columns, self.num_prefix_tokens)

    def head_tokens(self, images: Tensor) -> Tokens:
        """Returns the prefix tokens alone if the heads read no others; then the last block computes no others."""
        return self.features(images, self.num_prefix_tokens if self.global_pool == "token" else None)

    def features(self, images: Tensor, read: int | None = None) -> Tokens:
        """Returns the first tokens after the last block and norm (None: all), on the grid they end on."""
        x = residual(self.patch_embed(images))
        tokens = (self.cls_token, self.dist_token, self.reg_token)
        prefix = [token.expand(x.shape[0], -1, -1) for token in tokens if token is not None]
        if prefix or not self.encoding.parts:
            x = torch.cat([*prefix, x], dim=1)  # without prefix a copy, which timm makes only where it has no table
        t = Tokens(x, self.grid)
        for number, block in enumerate(self.blocks):
            t = block(t, self.encoding, number, read if number == len(self.blocks) - 1 else None)
        return replace(t, x=self.norm(t.x))

    def answers(self, t: Tokens) -> tuple[Tensor, ...]:
        """Returns the head's output for the pooled tokens, and the distillation head's for the distillation token."""
        first = self.forward_head(t.x)
        return (first,) if self.head_dist is None else (first, self.head_dist(t.x[:, 1]))
