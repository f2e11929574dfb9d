"""The backbone that a position encoding stands in, as numbers: its shape, what it can hold, how heavy it is."""

from __future__ import annotations

from typing import ClassVar

from trainables.backbones.counts import hidden
from trainables.encodings import MOMENTS, EncodingSpec, Moment, Shape, Takes
from trainables.spec import Spec, require

Size = tuple[int, int, int]
"""Channels, rows and columns of an image, in pixels."""


class ModelSpec(Spec):
    """What every backbone's spec must say.

    `holds`: the moments at which its host has a place for position. `gives`: its tokens give up channels for position.
    `shrinks`: its grid may become smaller. `room`: the same in words, for whoever asks for more.
    """

    holds: ClassVar[frozenset[Moment]] = MOMENTS
    gives: ClassVar[bool] = True
    shrinks: ClassVar[bool] = False
    room: ClassVar[str] = "an encoding that the backbone has a place for"

    kind: str

    def fit(self, size: Size) -> None:
        """Complains with `require` where images of this size cannot be cut into patches."""

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        """The backbone as an encoding sees it: one shape a stage, each with an encoding of its own."""
        raise NotImplementedError

    def accept(self, encoding: EncodingSpec, size: Size) -> None:
        """Complains where the backbone has no place for an encoding, or it cannot stand in one of the stages."""
        shapes = self.shapes(size)
        fits = encoding.moments <= self.holds and (self.shrinks or not encoding.shrinks)
        fits = fits and (self.gives or all(encoding.takes(shape.widths) == Takes() for shape in shapes))
        require(fits, "encoding", self.room, encoding.label)
        for shape in shapes:
            encoding.fit(shape)

    def parameters(self, size: Size, outputs: int, takes: Takes) -> int:
        """The backbone's parameters without its encoding, and without the channels that position takes."""
        raise NotImplementedError

    def kept(self, size: Size, pairs: int) -> int:
        """How many numbers an image keeps for the gradient, within a factor of 1.5; `pairs` as an encoding says it."""
        raise NotImplementedError


def check_ratio(dim: int, ratio: float, field: str = "mlp_ratio") -> None:
    """Complains of an MLP without any hidden channel, which timm would make as wide as its input."""
    require(hidden(dim, ratio) > 0, field, f"such that an MLP of {dim} channels has a hidden one", ratio)
