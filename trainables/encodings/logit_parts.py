"""The four parts of the attention logits of queries and keys with positions, switched one by one."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from trainables import enters
from trainables.encoding import CodeOf, Entry, Heads, Widths
from trainables.encodings.addition import by_head


class LogitParts(Entry):
    """Some of q.k (1), pos_q.k (2), q.pos_k (3) and pos_q.pos_k (4), all at the head's own scale.

    Where the parts are a product of two sums, q and k become these sums; else each query is [q, pos_q] and each key
    what either half meets: no more than twice the width, never a term for each pair.
    Source: Gabor paper eq. 11, table 3. Differs: eq. 3 numbers 2 and 3 the other way round.
    """

    edits = True

    def __init__(self, spec: enters.Parts, widths: Widths, depth: int) -> None:
        self.parts = frozenset(spec.parts)
        self.blocks = spec.blocks or depth
        self.count, self.width = widths.heads, widths.head_dim

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        if block >= self.blocks:
            return h
        zero = h.q.new_zeros(())
        pos_q = by_head(code("query", block), self.count) if self.parts & {2, 4} else zero
        pos_k = by_head(code("key", block), self.count) if self.parts & {3, 4} else zero
        (q, q_rest), (k, k_rest) = (_head(channels, self.width) for channels in (h.q, h.k))
        if self._is_product():
            q, k = self._sum(q, pos_q, ({1, 3}, {2, 4})), self._sum(k, pos_k, ({1, 2}, {3, 4}))
            return replace(h, q=torch.cat([q, q_rest], dim=3), k=torch.cat([k, k_rest], dim=3))
        met_by_q, met_by_pos = self._sum(k, pos_k, ({1}, {3})), self._sum(k, pos_k, ({2}, {4}))
        q = torch.cat([q, q_rest, pos_q.expand_as(q).to(q.dtype)], dim=3)
        return replace(h, q=q, k=torch.cat([met_by_q, k_rest, met_by_pos], dim=3))

    def _is_product(self) -> bool:
        """Whether the parts are all products of a set of query terms with a set of key terms."""
        queries = {(part - 1) % 2 for part in self.parts}  # 1, 3 have the content's query; 2, 4 the position's
        keys = {(part - 1) // 2 for part in self.parts}  # 1, 2 have the content's key; 3, 4 the position's
        return len(self.parts) == len(queries) * len(keys)

    def _sum(self, content: Tensor, position: Tensor, parts: tuple[set[int], set[int]]) -> Tensor:
        """Content where any of the first parts is on, plus position where any of the second is."""
        total = torch.zeros_like(content)
        for term, some in zip((content, position), parts, strict=True):
            if some & self.parts:
                total = total + term
        return total


def _head(channels: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The head's own channels, and those that others appended to it."""
    return channels[..., :width], channels[..., width:]
