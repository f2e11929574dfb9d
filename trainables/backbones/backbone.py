"""A backbone with a place for a position encoding, as numbers: its shape, its size, which encodings it supports.

At the end: how many parameters its layers have.
"""

from __future__ import annotations

from typing import ClassVar

from trainables.encodings import INJECTION_POINTS, EncodingSpec, InjectionPoint, ReservedChannels, Shape
from trainables.spec import Spec, require

Size = tuple[int, int, int]
"""Channels, rows and columns of an image, in pixels."""


class ModelSpec(Spec):
    """What every backbone's spec declares.

    `supported_points`: where in the model an encoding may act. `supports_concat`: whether an encoding may replace
    channels of the tokens or heads. `supports_shrinking`: whether the grid may become smaller. `ordered_layers`:
    whether its blocks stand in one order, in which learning rates can fall. `reason`: the end of the error message for
    an encoding that the backbone does not support.
    """

    supported_points: ClassVar[frozenset[InjectionPoint]] = INJECTION_POINTS
    supports_concat: ClassVar[bool] = True
    supports_shrinking: ClassVar[bool] = False
    ordered_layers: ClassVar[bool] = False
    reason: ClassVar[str] = "an encoding that the backbone has a place for"

    kind: str

    def check(self, size: Size) -> None:
        """Checks with `require` that images of this size can be cut into patches."""

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        """Returns the backbone as an encoding sees it: one shape a stage, each with an encoding of its own."""
        raise NotImplementedError

    def check_encoding(self, encoding: EncodingSpec, size: Size) -> None:
        """Checks with `require` that the backbone supports an encoding, and that it fits each stage."""
        shapes = self.shapes(size)
        points = encoding.injection_points <= self.supported_points
        shrinking = self.supports_shrinking or not encoding.shrinks
        reserves = any(encoding.reserved(shape.widths) != ReservedChannels() for shape in shapes)
        concat = self.supports_concat or not reserves
        require(points and shrinking and concat, "encoding", self.reason, encoding.label)
        for shape in shapes:
            encoding.check(shape)

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        """Counts the backbone's parameters without its encoding, and without the channels reserved for position."""
        raise NotImplementedError

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Counts the numbers that an image saves for backward, within a factor of 1.5; `saved_pairs`: an encoding's."""
        raise NotImplementedError


def check_ratio(dim: int, ratio: float, field: str = "mlp_ratio") -> None:
    """Refuses an MLP without a hidden channel, which timm would make as wide as its input."""
    require(hidden(dim, ratio) > 0, field, f"such that an MLP of {dim} channels has a hidden one", ratio)


def check_heads(dim: int, heads: int) -> None:
    """Refuses channels that the heads cannot share equally."""
    require(dim % heads == 0, "embed_dim", f"a multiple of num_heads ({heads})", dim)


def check_patches(size: Size, patch_size: int) -> None:
    """Refuses images that cannot be cut into whole patches."""
    divides = all(side % patch_size == 0 for side in size[1:])
    require(divides, "model.patch_size", f"a divisor of the image's sides {size[1:]}", patch_size)


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
