"""The four terms of the attention logits: content or position of the query, times content or position of the key."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad

from trainables.backbones.backbone_torch import Host
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings.encoding_torch import Code
from trainables.encodings.injection_torch import OwnCodes
from trainables.probes.inputs.arrays import Array, ProbeError, float64
from trainables.probes.inputs.attention import BlockRecord, evaluated, parts_of_images, recorded
from trainables.probes.inputs.subject import Subject, parts_of
from trainables.recipe.findings import Findings

TERMS = ("content_content", "position_content", "content_position", "position_position")
"""The terms by their parts 1 to 4: the query's side first."""


class BlockTerms(NamedTuple):
    """The four terms of one block's logits, in the order of TERMS. Shapes: terms (4, B, H, N, N)."""

    block: int
    terms: Tensor


def logit_terms(model: Host, images: Tensor, carried: bool = False) -> list[BlockTerms]:
    """Returns the terms of the scaled logits, which add up to them; for normalized images as the model sees them.

    Codes that are added to the tokens, or stand beside them, are split in the first block alone: later blocks mix them
    with the content. With `carried` they are split in every block as if they were still there unchanged, which is how
    the concat paper sees the residual stream (p_{d+1} = p); all else in a token counts as content. The layer norm
    divides content and position by the deviation of their sum; its bias, and that of the projection, belong to the
    content. Codes in queries and keys are split in every block that has them; what an earlier block has added to the
    tokens there is content. If several blocks add codes to the tokens, `carried` adds them up.
    Shapes: images (B, channels, rows, columns). Raises: ProbeError for an encoding, or a backbone, for which no such
    split is exact.
    Source: concat paper eqs. 8 and 9; Gabor paper eq. 11. Differs: the papers leave out the layer norm.
    """
    if not isinstance(model, PositionedViT):
        raise ProbeError(f"logits are split in vit, got {type(model).__name__.removeprefix('Positioned')}")
    parts = [*parts_of(model.encoding)]
    linear = {(cls.tokens, cls.heads) for cls in (Code, OwnCodes)}  # queries and keys are linear in their codes
    other = [
        type(part).__name__
        for part in parts
        if not isinstance(part, Code | OwnCodes) or (type(part).tokens, type(part).heads) not in linear
    ]
    if other or not parts:
        got = " and ".join(other) or "no encoding"
        raise ProbeError(f"logits can be split where codes are added or concatenated, got {got}")
    blocks = recorded(model, images)
    with evaluated(model):
        early, changed, codes = list[int](), list[int](), dict[int, Tensor]()
        for number, block in enumerate(blocks):
            if block.tokens is not block.content:
                missing = block.tokens.x.shape[2] - block.content.x.shape[2]
                codes[number] = block.tokens.x - pad(block.content.x, (0, missing))
                early.append(number)
            if block.heads[0].q is not block.projected[0].q or block.heads[0].k is not block.projected[0].k:
                changed.append(number)
        coded = sorted({*early[:1], *changed})
        if carried and early:
            coded = [*range(early[0], len(blocks))]
            added = (codes.get(number, torch.zeros_like(codes[early[0]])) for number in coded)
            codes = dict(zip(coded, accumulate(added, torch.add), strict=True))
        return [BlockTerms(number, _terms(model, blocks[number], number, codes.get(number))) for number in coded]


def _terms(model: PositionedViT, block: BlockRecord, number: int, position: Tensor | None) -> Tensor:
    """Returns the terms of a block. Queries and keys are affine in what the encoding sees: position is what is left."""
    h, full = block.projected[0], block.heads[0]
    q, k = (0, 0) if position is None else _projected_positions(model, block, number, position)
    with_content = model.encoding.heads(replace(h, q=h.q - q, k=h.k - k), number)
    nothing = model.encoding.heads(replace(h, q=torch.zeros_like(h.q), k=torch.zeros_like(h.k)), number)
    content_q, content_k = with_content.q - nothing.q, with_content.k - nothing.k
    scale = model.blocks[number].attn.scale
    sides_q, sides_k = (content_q, full.q - content_q), (content_k, full.k - content_k)
    return torch.stack([(q_side * scale) @ k_side.mT for k_side in sides_k for q_side in sides_q])


def _projected_positions(
    model: PositionedViT, block: BlockRecord, number: int, position: Tensor
) -> tuple[Tensor, Tensor]:
    """Returns the part of queries and keys, before the encoding changes them, that comes from codes in the tokens."""
    layer, attention = model.blocks[number].norm1, model.blocks[number].attn
    if not isinstance(attention.q_norm, nn.Identity):
        raise ProbeError("codes of the tokens are split in logits where queries and keys are not normalized (qk_norm)")
    deviation = (block.tokens.x.var(dim=2, keepdim=True, correction=0) + layer.eps).sqrt()
    normed = (position - position.mean(dim=2, keepdim=True)) / deviation * layer.weight
    reserved, heads, width = attention.reserved, attention.num_heads, attention.head_dim
    widths = [heads * (width - taken) for taken in (reserved.q, reserved.k, reserved.v)]
    q_weight, k_weight, _ = torch.split(attention.qkv.weight, widths)
    shape = (*normed.shape[:2], heads, -1)
    q, k = (linear(normed, weight).reshape(shape).transpose(1, 2) for weight in (q_weight, k_weight))
    return q, k


def _spread(terms: list[BlockTerms], images: int) -> Array:
    """Returns the mean deviation over the keys of each term, and of the three with position. Shapes: (blocks, 5, H)."""
    with_sum = (torch.cat([block.terms, block.terms[1:].sum(dim=0, keepdim=True)]) for block in terms)
    return float64(torch.stack([term.std(dim=4, correction=0).mean(dim=3).sum(dim=1) for term in with_sum])) / images


def probe(subject: Subject) -> Findings:
    """Returns how much each term moves the logits: its deviation over the keys, as a share of the sum of all four.

    A number that is the same for all keys of a query changes no attention weight, so it is left out.
    `position`: the deviation of the three terms with position together, in logits. `last_by_first`: that of the last
    block as a multiple of the first one's, with codes of the tokens `carried` through all blocks.
    `spread`: the deviations of the terms, by block and head; `blocks`: the numbers of the blocks; `by_depth`: as
    `spread`, with the codes carried; `mean`: the terms of the first block, over images and heads.
    """
    spread: Any = 0.0
    by_depth: Any = 0.0
    mean: Any = 0.0
    blocks: list[int] = []
    count = len(subject.images)
    try:
        for images in parts_of_images(subject.recipe, subject.images):
            terms = logit_terms(subject.model, images)
            if not terms:
                return Findings(note="no block of the model has queries or keys with a code of the position")
            blocks = [block.block for block in terms]
            spread = spread + _spread(terms, count)
            by_depth = by_depth + _spread(logit_terms(subject.model, images, carried=True), count)
            mean = mean + float64(terms[0].terms.mean(dim=2).sum(dim=1)) / count
    except ProbeError as error:
        return Findings(note=str(error))
    by_term, along = spread.mean(axis=(0, 2)), by_depth[:, 4].mean(axis=1)
    values = dict(zip(TERMS, map(float, by_term[:4] / by_term[:4].sum()), strict=True))
    values["position"] = float(by_term[4])
    if len(along) > 1 and along[0] > 0:
        values["last_by_first"] = float(along[-1] / along[0])
    arrays = {"spread": spread[:, :4], "by_depth": by_depth[:, :4], "blocks": np.array(blocks)}
    return Findings(values, {**arrays, "mean": mean.astype(np.float32)})
