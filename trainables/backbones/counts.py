"""How many parameters the layers of a backbone have, by arithmetic."""

from __future__ import annotations


def linear(inputs: int, outputs: int, bias: bool = True) -> int:
    """Counts a matrix and its biases."""
    return inputs * outputs + (outputs if bias else 0)


def convolution(inputs: int, outputs: int, kernel: int, bias: bool = True) -> int:
    """Counts a dense square kernel for each pair of channels, and the biases."""
    return linear(inputs * kernel**2, outputs, bias)


def norm(dim: int) -> int:
    """Counts a scale and a shift for each channel."""
    return 2 * dim


def mlp(dim: int, hidden: int) -> int:
    """Counts two matrices with biases."""
    return linear(dim, hidden) + linear(hidden, dim)


def hidden(dim: int, ratio: float) -> int:
    """Counts the hidden channels of an MLP, as timm counts them."""
    return int(dim * ratio)
