"""An encoding from a user's own file."""

from __future__ import annotations

from typing import ClassVar

from pydantic import ConfigDict

from trainables.encodings.encoding import EncodingSpec, InjectionPoint, ReservedChannels, Shape, Widths
from trainables.own import OwnSpec
from trainables.spec import Spec


class OwnEncoding(OwnSpec, EncodingSpec):
    """An encoding from a user's file: its kind is "file.py:Class", and `source` is the text of that file."""

    model_config = ConfigDict(extra="allow")

    NODE: ClassVar[str] = "encoding"
    BASE: ClassVar[type[Spec]] = EncodingSpec

    @property
    def spec(self) -> EncodingSpec:
        """The user's own spec, an instance of the class that `kind` names."""
        made: EncodingSpec = self.made()
        return made

    @property
    def is_noop(self) -> bool:
        return self.spec.is_noop

    @property
    def shrinks(self) -> bool:
        return self.spec.shrinks

    @property
    def any_grid(self) -> bool:
        return self.spec.any_grid

    @property
    def injection_points(self) -> frozenset[InjectionPoint]:
        return self.spec.injection_points

    @property
    def modifies_qk(self) -> bool:
        return self.spec.modifies_qk

    @property
    def reads_qk(self) -> bool:
        return self.spec.reads_qk

    @property
    def saved_pairs(self) -> int:
        return self.spec.saved_pairs

    def check(self, shape: Shape) -> None:
        self.spec.check(shape)

    def reserved(self, widths: Widths) -> ReservedChannels:
        return self.spec.reserved(widths)

    def parameters(self, shape: Shape) -> int:
        return self.spec.parameters(shape)

    def trainable_parameters(self, shape: Shape) -> int:
        return self.spec.trainable_parameters(shape)
