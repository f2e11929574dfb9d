"""How a code is injected: added, beside the content, appended to queries and keys, or in parts of the logits."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from trainables.encodings.encoding import Widths
from trainables.encodings.encoding_torch import Cache, Code, CodeND, CodeOf, Heads, Injector, PositionEncoding, Tokens
from trainables.encodings.injection import HEADS, Add, Concat, Extend, Parts, Slot


def by_head(code: CodeND, heads: int, like: Tensor) -> Tensor:
    """Splits channels among the heads, for the tokens of `like`. Shapes: (N, H e), (B, H, Q, E) to (H, Q, e)."""
    return code[: like.shape[2]].reshape(like.shape[2], heads, -1).transpose(0, 1)


class Added(Injector):
    """x + p at every place and block of the slots; channels that another part appended to a head stay as they are."""

    def __init__(self, spec: Add | Concat, widths: Widths, depth: int) -> None:
        self.slots = frozenset(spec.slots(depth))
        self.reserved, self.modifies_qk = spec.reserved(widths), spec.modifies_qk
        self.in_heads = "nothing" if all(place == "common" for place, _ in self.slots) else "first"
        self.count = widths.heads

    def tokens(self, t: Tokens, block: int, code: CodeOf) -> Tokens:
        if ("common", block) not in self.slots:
            return t
        return replace(t, x=self.joined(t.x, code("common", block)))

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        changed: dict[str, Any] = {
            letter: self.joined(getattr(h, letter), by_head(code(place, block), self.count, getattr(h, letter)))
            for place, letter in HEADS
            if (place, block) in self.slots
        }
        return replace(h, **changed)

    def joined(self, content: Tensor, position: Tensor) -> Tensor:
        """Returns content with position. Shapes: (B, ..., N, E + m) and (..., N, E) to (B, ..., N, E + m)."""
        more = content.shape[-1] - position.shape[-1]
        return content + (pad(position, (0, more)) if more else position)


class OwnCodes(PositionEncoding):
    """A separate code for every place and block, named `<place>_<block>`: `learnable.query_3.table`."""

    def __init__(self, codes: dict[Slot, Code], injector: Injector) -> None:
        super().__init__()
        for (place, block), code in codes.items():
            self.add_module(f"{place}_{block}", code)
        self.injector, self.reserved, self.modifies_qk = injector, injector.reserved, injector.modifies_qk
        self.in_heads = injector.in_heads

    def tokens(self, t: Tokens, block: int) -> Tokens:
        return self.injector.tokens(t, block, partial(self._code, t.x, t.cache))

    def heads(self, h: Heads, block: int) -> Heads:
        return self.injector.heads(h, block, partial(self._code, h.q, h.cache))

    def _code(self, like: Tensor, cache: Cache, place: str, block: int) -> CodeND:
        code = self._modules[f"{place}_{block}"]
        assert isinstance(code, Code)
        return code.cached(like, cache)


def beside(content: Tensor, position: Tensor) -> Tensor:
    """Joins [content, position] along the channels. Shapes: (B, ..., N, E) and (..., N, m) to (B, ..., N, E + m)."""
    return torch.cat([content, position.expand(*content.shape[:-1], position.shape[-1]).to(content.dtype)], dim=-1)


class Concatenated(Added):
    """The content, then the code, in the tokens before the first block or in every head of every block.

    Source: concat paper eqs. 6-9. Differs: in the heads position is beside the content head by head (beside all heads
    at once it would fill the last ones), and logits are scaled by the head's whole width.
    """

    def joined(self, content: Tensor, position: Tensor) -> Tensor:
        return beside(content, position)


class Extended(Injector):
    """Channels appended to queries and keys: logits gain pos_q . pos_k at the scale of the unextended head.

    Cost: queries and keys wider than values cost the fastest attention kernels.
    """

    modifies_qk = True

    def __init__(self, spec: Extend, widths: Widths, depth: int) -> None:
        self.slots = frozenset(spec.slots(depth))
        self.count = widths.heads

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        if ("query", block) not in self.slots:
            return h
        q = by_head(code("query", block), self.count, h.q)
        k = by_head(code("key", block), self.count, h.k)
        return replace(h, q=beside(h.q, q), k=beside(h.k, k))


class LogitParts(Injector):
    """Some of q.k (1), pos_q.k (2), q.pos_k (3) and pos_q.pos_k (4), all at the head's own scale.

    If the parts are a product of two sums, q and k become these sums. Otherwise a query is [q, pos_q], and a key is
    the sum that q is multiplied with, then the sum that pos_q is multiplied with. So heads become at most twice as
    wide, and no term is stored for each pair.
    """

    modifies_qk = True

    def __init__(self, spec: Parts, widths: Widths, depth: int) -> None:
        self.parts = frozenset(spec.parts)
        self.blocks = spec.blocks or depth
        self.count, self.width = widths.heads, widths.head_dim

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        if block >= self.blocks:
            return h
        pos_q = by_head(code("query", block), self.count, h.q) if self.parts & {2, 4} else None
        pos_k = by_head(code("key", block), self.count, h.k) if self.parts & {3, 4} else None
        (q, q_rest), (k, k_rest) = ((x[..., : self.width], x[..., self.width :]) for x in (h.q, h.k))
        queries = {(part - 1) % 2 for part in self.parts}  # 1, 3 have the content's query; 2, 4 the position's
        keys = {(part - 1) // 2 for part in self.parts}  # 1, 2 have the content's key; 3, 4 the position's
        if len(self.parts) == len(queries) * len(keys):  # all products of a set of queries with a set of keys
            q, k = self._sum(q, pos_q, ({1, 3}, {2, 4})), self._sum(k, pos_k, ({1, 2}, {3, 4}))
            return replace(h, q=_joined(q, q_rest), k=_joined(k, k_rest))
        assert pos_q is not None, "parts without a position's query are a product"
        met_by_q, met_by_pos = self._sum(k, pos_k, ({1}, {3})), self._sum(k, pos_k, ({2}, {4}))
        q = _joined(q, q_rest, pos_q.expand_as(q).to(q.dtype))
        return replace(h, q=q, k=_joined(met_by_q, k_rest, met_by_pos))

    def _sum(self, content: Tensor, position: Tensor | None, parts: tuple[set[int], set[int]]) -> Tensor:
        """Returns content where any of the first parts is chosen, plus position where any of the second is."""
        has_content, has_position = (bool(numbers & self.parts) for numbers in parts)
        if not has_position or position is None:
            return content if has_content else torch.zeros_like(content)
        return content + position if has_content else position.expand_as(content).to(content.dtype)


def _joined(*channels: Tensor) -> Tensor:
    """Joins channels of a head beside each other; empty ones are left out, so that one alone is not copied."""
    tensors = [tensor for tensor in channels if tensor.shape[3]]
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim=3)


INJECTORS: dict[str, Any] = {"add": Added, "concat": Concatenated, "extend": Extended, "parts": LogitParts}
"""The injector of each kind of injection."""
