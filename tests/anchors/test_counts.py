"""Published numbers of parameters, and effects that the papers' algebra forces."""

import pytest
import torch

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import (  # fmt: skip
    IRPE,
    PEG,
    Add,
    Composed,
    Fourier,
    Learnable,
    LearnableSinusoidal,
    NoEncoding,
    RelativeBias,
    Sinusoidal,
    Widths,
)
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid
from trainables.training.init import init_weights

TINY = (Widths(192, 3, 64), Grid(14, 14, prefix=1), 12)
"""DeiT-Ti at 224 pixels."""


@pytest.mark.parametrize(("encoding", "count"), [
    (Learnable(), 37_824),
    (Sinusoidal(), 0),
    (LearnableSinusoidal(), 192),
    (PEG(), 1_728 + 192),
    (PEG(kernel=27), 192 * 27**2 + 192),
    (PEG(form="dense"), 192 * (192 * 9 + 1)),
    (PEG(form="separable"), 38_592 + 2 * 192),
    (PEG(form="dense", kernel=1, places=tuple(range(-1, 11))), 444_672),
    (PEG(form="depthwise_stack"), 4 * 192 * (9 + 2)),
    (PEG(form="dense_stack"), 4 * 192 * (192 * 9 + 2)),
    (Composed(parts=(Learnable(), PEG(places=(0,)))), 37_824 + 1_920),
    (Composed(parts=(Learnable(), PEG(places=(0, 1, 2, 3)))), 37_824 + 4 * 1_920),
    (Learnable(injection=Add(blocks=6)), 37_824),
    (Composed(parts=(Learnable(), IRPE())), 37_824 + 12 * 64 * 50),
    (Composed(parts=(Learnable(), IRPE(on=("q", "k", "v")))), 37_824 + 3 * 12 * 64 * 50),
    (PEG(places=tuple(range(5))), 5 * 1_920),
    (RelativeBias(shared=True), 2_187),
    (RelativeBias(), 12 * 2_187),
    (Composed(parts=(Learnable(), RelativeBias(shared=True))), 40_011),
    (Fourier(), 192 + (192 * 32 + 32) + (32 * 192 + 192)),
])  # fmt: skip
def test_published_counts(encoding, count):
    """CPVT tables 5, 8, 12, 16."""
    assert sum(value.numel() for value in build(encoding, *TINY).parameters()) == count


def test_peg_weights_and_biases():
    counts = {name: value.numel() for name, value in build(PEG(), *TINY).named_parameters()}
    assert counts == {"peg.conv.-1.weight": 1_728, "peg.conv.-1.bias": 192}


@pytest.mark.parametrize("encoding", [RelativeBias(), PEG()])
def test_one_block_and_the_class_token_hear_of_order_only_through_the_tokens(encoding):
    """A bias between patches tells the class token nothing of the order; a PEG before the block does."""
    model = PositionedViT(ViT(embed_dim=16, depth=1, num_heads=2), (3, 12, 20), 3, encoding).double()
    init_weights(model, 0)
    for value in model.encoding.parameters():
        torch.nn.init.normal_(value)
    images = torch.randn(4, 3, 12, 20, dtype=torch.float64)
    mirrored = images.flip(3).unflatten(3, (5, 4)).flip(4).flatten(3)
    apart = (model(images) - model(mirrored)).abs().max()
    assert apart < 1e-12 if encoding.kind == "relative_bias" else apart > 1e-8


@pytest.mark.parametrize(("encoding", "count"), [
    (Learnable(), 5_717_416),
    (PEG(places=(0,)), 5_717_416 - 35_904),
    (NoEncoding(), 5_679_592),
])  # fmt: skip
def test_models_of_cpvt(encoding, count):
    """DeiT-Ti with a table, CPVT-Ti, and DeiT-Ti without position (CPVT tables 8 and 16)."""
    with torch.device("meta"):
        model = PositionedViT(ViT(embed_dim=192, depth=12, num_heads=3, patch_size=16), (3, 224, 224), 1000, encoding)
    assert sum(value.numel() for value in model.parameters()) == count
