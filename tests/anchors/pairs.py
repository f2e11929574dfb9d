"""Attention by a loop over pairs of tokens: outputs and gradients that a module must reproduce."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from trainables.encodings import Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Composition, Grid, Heads
from trainables.training.init import init_weights

GRIDS = [Grid(3, 2), Grid(2, 3, prefix=1)]
WIDTHS = Widths(dim=8, heads=2, head_dim=4)
SCALE = 0.5
"""1 / sqrt(4), a head's own."""


@contextmanager
def doubles() -> Iterator[None]:
    """Makes what is built in float64, fixed tables included."""
    usual = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(usual)


def module(spec, grid: Grid, depth: int = 2, widths: Widths = WIDTHS) -> Composition:
    """The module of a spec in float64, all its parameters drawn at random, so that no term is small."""
    with doubles():
        made = build(spec, widths, grid, depth)
    init_weights(made, 0)
    stream = torch.Generator().manual_seed(5)
    for value in made.parameters():
        torch.nn.init.normal_(value, generator=stream)
    return made


def content(grid: Grid, taken: tuple[int, int, int] = (0, 0, 0)) -> list[Tensor]:
    """Queries, keys and values of 2 images and 2 heads, each narrower by the channels that position takes."""
    stream = torch.Generator().manual_seed(6)
    count = grid.prefix + grid.patches
    shapes = [(2, 2, count, 4 - some) for some in taken]
    return [torch.randn(shape, dtype=torch.float64, generator=stream).requires_grad_() for shape in shapes]


def fast(made: Composition, qkv: list[Tensor], grid: Grid, block: int) -> Tensor:
    """What the heads put out with an encoding in them."""
    h = made.heads(Heads(*qkv, None, grid), block)
    logits = SCALE * h.q @ h.k.mT
    weights = (logits if h.bias is None else logits + h.bias).softmax(3)
    return made.outputs(weights @ h.v, weights, grid, block)


def slow(qkv: list[Tensor], logit: Callable, value: Callable) -> Tensor:
    """The same by `logit(b, h, i, j)` and `value(b, h, i, j)` of every pair."""
    images, heads, count, _ = qkv[0].shape
    rows = []
    for b in range(images):
        for h in range(heads):
            for i in range(count):
                weights = torch.stack([logit(b, h, i, j) for j in range(count)]).softmax(0)
                rows.append(sum(weights[j] * value(b, h, i, j) for j in range(count)))
    return torch.stack(rows).unflatten(0, (images, heads, count))


def same(made: Composition, one: Tensor, other: Tensor, inputs: list[Tensor]) -> None:
    """Asserts equal values, and equal gradients of a random sum with respect to the inputs and all parameters."""
    assert one.shape == other.shape
    assert torch.allclose(one, other, rtol=0, atol=1e-10)
    weight = torch.randn(one.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
    learned = [*inputs, *made.parameters()]
    left, right = (torch.autograd.grad((out * weight).sum(), learned, allow_unused=True) for out in (one, other))
    for mine, theirs, of in zip(left, right, learned, strict=True):
        mine, theirs = (torch.zeros_like(of) if grad is None else grad for grad in (mine, theirs))
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-10 * max(1.0, float(theirs.abs().max())))


def place(token: int, grid: Grid) -> tuple[int, int] | None:
    """Row and column of a token; None for a prefix token."""
    token -= grid.prefix
    return None if token < 0 else (token // grid.columns, token % grid.columns)
