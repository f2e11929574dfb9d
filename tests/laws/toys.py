"""A user's own encodings, one for each thing an encoding can do. The tests load this file as a recipe would."""

from dataclasses import replace

import torch
from torch import nn

from trainables.encodings import CodeSpec, EncodingSpec, ReservedChannels
from trainables.encodings.encoding_torch import Code, PositionEncoding
from trainables.encodings.resample_torch import resampled_table


class Spiral(EncodingSpec):
    """A code that turns with the patch's number, with learned amplitudes."""

    kind: str = "toys.py:Spiral"
    turns: float = 1.5

    def build(self, widths, grid, depth):
        return SpiralCode(self.turns, widths, grid)


class SpiralCode(Code):
    def __init__(self, turns, widths, grid):
        super().__init__()
        self.amplitudes = nn.Parameter(torch.empty(widths.dim))
        angle = turns * torch.arange(1, grid.patches + 1) / grid.patches
        code = torch.outer(angle, torch.arange(1, widths.dim + 1) / widths.dim)
        self.register_buffer("angles", torch.cat([torch.zeros(grid.prefix, widths.dim), code]), persistent=False)

    def code(self):
        return self.amplitudes * (6.28 * self.angles).sin()

    def init_parameter(self, name, value, stream):
        value.normal_(generator=stream)


class Tide(CodeSpec):
    """A code that rises from patch to patch, times a learned slope of each channel; injected as listed codes are."""

    kind: str = "toys.py:Tide"
    height: float = 1.0

    @property
    def multiple(self):
        return 2

    def code_parameters(self, width, shape):
        return width

    def build(self, widths, grid, depth):
        return TideCode(self.height, widths, grid)


class TideCode(Code):
    def __init__(self, height, widths, grid):
        super().__init__()
        self.slopes = nn.Parameter(torch.empty(widths.dim))
        at = height * torch.arange(1, grid.patches + 1) / grid.patches
        self.register_buffer("at", torch.cat([torch.zeros(grid.prefix), at]), persistent=False)

    def code(self):
        return torch.outer(self.at, self.slopes)

    def init_parameter(self, name, value, stream):
        value.normal_(generator=stream)


class Beside(EncodingSpec):
    """A table beside the content: in the tokens, or in each head of q, k, v; `extra` ones of q and k are appended."""

    kind: str = "toys.py:Beside"
    tokens: int = 0
    q: int = 0
    k: int = 0
    v: int = 0
    extra: int = 0

    def build(self, widths, grid, depth):
        return Tables(self, widths, grid)


class Tables(PositionEncoding):
    def __init__(self, spec, widths, grid):
        super().__init__()
        self.seen_dim = widths.dim
        self.reserved = ReservedChannels(spec.tokens, spec.q, spec.k, spec.v)
        self.modifies_qk = bool(spec.q or spec.k or spec.extra)
        channels = {"tokens": spec.tokens, "q": spec.q + spec.extra, "k": spec.k + spec.extra, "v": spec.v}
        count = grid.prefix + grid.patches
        tables = {place: torch.empty(count, width) for place, width in channels.items() if width}
        self.tables = nn.ParameterDict(tables)

    def init_parameter(self, name, value, stream):
        value.normal_(generator=stream)

    def resampled(self, name, value, old, new):
        return resampled_table(value, old, new)

    def tokens(self, t, block):
        if block > 0 or "tokens" not in self.tables:
            return t
        return replace(t, x=beside(t.x, self.tables["tokens"]))

    def heads(self, h, block):
        places = [place for place in self.tables if place != "tokens"]
        return replace(h, **{place: beside(getattr(h, place), self.tables[place]) for place in places})


def beside(content, table):
    return torch.cat([content, table.expand(*content.shape[:-1], table.shape[-1])], dim=-1)


class Marker(EncodingSpec):
    """A learned value for every place, added to what the heads put out: needs the weights."""

    kind: str = "toys.py:Marker"

    def build(self, widths, grid, depth):
        return Marks(widths, grid)


class Marks(PositionEncoding):
    reads_weights = True

    def __init__(self, widths, grid):
        super().__init__()
        self.marks = nn.Parameter(torch.empty(grid.prefix + grid.patches, widths.head_dim))

    def init_parameter(self, name, value, stream):
        value.normal_(generator=stream)

    def outputs(self, o, weights, grid, block):
        return o + weights @ self.marks
