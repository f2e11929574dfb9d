"""Codes that are added: to the tokens before a block, or to the queries, keys and values of its heads."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor
from torch.nn.functional import pad

from trainables import enters
from trainables.encoding import Code, CodeND, CodeOf, Entry, Heads, PositionEncoding, Tokens, Widths
from trainables.enters import HEADS, Slot


def by_head(code: CodeND, heads: int) -> Tensor:
    """A code's channels dealt out to the heads in order. Shapes: (N, H e) to (H, N, e)."""
    return code.reshape(code.shape[0], heads, -1).transpose(0, 1)


class Added(Entry):
    """x + p at every place and block of the slots; channels that others appended to a head stay as they are.

    Source: DeiT; Gabor paper eq. 3. Differs: nothing.
    """

    def __init__(self, spec: enters.Add, widths: Widths, depth: int) -> None:
        self.slots = frozenset(spec.slots(depth))
        self.edits = spec.edits
        self.count = widths.heads

    def tokens(self, t: Tokens, block: int, code: CodeOf) -> Tokens:
        if ("common", block) not in self.slots:
            return t
        return replace(t, x=t.x + code("common", block))

    def heads(self, h: Heads, block: int, code: CodeOf) -> Heads:
        changed: dict[str, Any] = {
            letter: added(getattr(h, letter), by_head(code(place, block), self.count))
            for place, letter in HEADS
            if (place, block) in self.slots
        }
        return replace(h, **changed)


def added(channels: Tensor, position: Tensor) -> Tensor:
    """Channels plus position in the first ones. Shapes: (B, H, N, E + m) and (H, N, E) to (B, H, N, E + m)."""
    return channels + pad(position, (0, channels.shape[3] - position.shape[2]))


class OwnCodes(PositionEncoding):
    """A code of its own for every place and block, named `<place>_<block>`: `learnable.query_3.table`."""

    def __init__(self, codes: dict[Slot, Code], entry: Entry) -> None:
        super().__init__()
        for (place, block), code in codes.items():
            self.add_module(f"{place}_{block}", code)
        self.entry, self.takes, self.edits = entry, entry.takes, entry.edits

    def tokens(self, t: Tokens, block: int) -> Tokens:
        return self.entry.tokens(t, block, self._code)

    def heads(self, h: Heads, block: int) -> Heads:
        return self.entry.heads(h, block, self._code)

    def _code(self, place: str, block: int) -> CodeND:
        code = self._modules[f"{place}_{block}"]
        assert isinstance(code, Code)
        return code.code()
