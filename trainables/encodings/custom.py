"""An encoding from a user's own file."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict

from trainables.encodings.encoding import EncodingSpec, ReservedChannels, Shape, Widths
from trainables.own import OwnSpec
from trainables.spec import Spec


def _of_the_user(name: str) -> Any:
    """Returns a property that the user's own spec answers."""
    return property(lambda encoding: getattr(encoding.spec, name))


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

    is_noop = _of_the_user("is_noop")
    shrinks = _of_the_user("shrinks")
    any_grid = _of_the_user("any_grid")
    injection_points = _of_the_user("injection_points")
    modifies_qk = _of_the_user("modifies_qk")
    reads_qk = _of_the_user("reads_qk")
    saved_pairs = _of_the_user("saved_pairs")

    def check(self, shape: Shape) -> None:
        self.spec.check(shape)

    def reserved(self, widths: Widths) -> ReservedChannels:
        return self.spec.reserved(widths)

    def parameters(self, shape: Shape) -> int:
        return self.spec.parameters(shape)

    def trainable_parameters(self, shape: Shape) -> int:
        return self.spec.trainable_parameters(shape)
