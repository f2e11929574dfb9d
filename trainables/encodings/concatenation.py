"""Codes beside the content: in channels that the content gives up, or in ones appended to queries and keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from trainables import enters
from trainables.encoding import CodeOf, Entry, Heads, Tokens, Widths
from trainables.encodings.addition import by_head
from trainables.enters import HEADS


def beside(content: Tensor, position: Tensor) -> Tensor:
    """[content, position] along the channels. Shapes: (B, ..., N, E) and (..., N, m) to (B, ..., N, E + m)."""
    return torch.cat([content, position.expand(*content.shape[:-1], position.shape[-1]).to(content.dtype)], dim=-1)


class Concatenated(Entry):
    """The content, then the code, in the tokens before the first block or in every head of every block.

    Source: concat paper eqs. 6-9. Differs: in the heads position is beside the content head by head (beside all heads
    at once it would fill the last ones), and logits are scaled by the head's whole width.
    """

    def __init__(self, spec: enters.Concat, widths: Widths, depth: int) -> None:
        self.slots = frozenset(spec.slots(depth))
        self.takes = spec.takes(widths)
        self.edits = spec.edits
        self.count = widths.heads

    def tokens(self, t: Tokens, block: int, code: CodeOf) -> Tokens:
        if ("common", block) not in self.slots:
            return t
        return replace(t, x=beside(t.x, code("common", block)))

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        changed: dict[str, Any] = {
            letter: beside(getattr(h, letter), by_head(code(place, block), self.count))
            for place, letter in HEADS
            if (place, block) in self.slots
        }
        return replace(h, **changed)


class Extended(Entry):
    """Channels appended to queries and keys: logits gain pos_q . pos_k at the scale of the unextended head.

    Source: Gabor paper eq. 13. Differs: the scale, which the paper does not state.
    Cost: queries and keys wider than values cost the fastest attention kernels.
    """

    edits = True

    def __init__(self, spec: enters.Extend, widths: Widths, depth: int) -> None:
        self.slots = frozenset(spec.slots(depth))
        self.count = widths.heads

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        if ("query", block) not in self.slots:
            return h
        q, k = (by_head(code(place, block), self.count) for place, _ in HEADS[:2])
        return replace(h, q=beside(h.q, q), k=beside(h.k, k))
