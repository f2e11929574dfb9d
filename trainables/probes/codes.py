"""The code that each patch's position has at token level: what an encoding adds to, or puts beside, the tokens."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn

from trainables.backbones.backbone_torch import Host
from trainables.encodings.encoding import Shape
from trainables.encodings.encoding_torch import Code, Composition, Grid, PositionEncoding, Tokens
from trainables.encodings.injection_torch import OwnCodes


def parts_of(encoding: PositionEncoding) -> Iterator[PositionEncoding]:
    """The parts of an encoding, those of nested compositions included."""
    if isinstance(encoding, Composition):
        for name in encoding.parts:
            yield from parts_of(encoding.part(name))
    else:
        yield encoding


def first_encoding(model: Host) -> Composition:
    """The encoding of a model; of one with stages that of the first stage."""
    encoding = model.encoding[0] if isinstance(model.encoding, nn.ModuleList) else model.encoding
    assert isinstance(encoding, Composition)
    return encoding


@torch.no_grad()
def codes_of(model: Host, shape: Shape | None = None) -> Tensor | None:
    """The code of each patch before the first block; None where no part of the encoding is a code of the tokens.

    What parts add is summed; what they put beside the content are further channels. Parts of another kind are left
    out: those inside attention, and convolutions, whose result depends on the image.
    `shape`: the model as its encoding sees it (`recipe.shapes[0]`); by default that of a ViT.
    Shapes: to (P, D), all channels of a token, or only those beside the content where nothing is added to it.
    """
    encoding = first_encoding(model)
    grid, width = (model.grid, int(model.embed_dim)) if shape is None else (Grid.of(shape), shape.widths.dim)
    content = width - encoding.reserved.tokens
    zeros = next(model.parameters()).new_zeros(1, grid.tokens, content)
    before = t = Tokens(zeros, grid)
    added = False
    for part in parts_of(encoding):
        if isinstance(part, Code | OwnCodes):
            channels, earlier = t.x.shape[2], t
            t = part.tokens(t, 0)
            added = added or (t is not earlier and t.x.shape[2] == channels)
    if t is before:
        return None
    return t.x[0, grid.prefix :, 0 if added else content :].detach()
