"""A free table: one learned vector a token."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from trainables.encodings.encoding import Shape
from trainables.encodings.injection import CodeSpec


class Learnable(CodeSpec):
    """A free table, one row a token, the class token included.

    Source: thesis 3.1; DeiT. Differs: the class token has a row, as in DeiT (the thesis adds it afterwards).
    """

    kind: Literal["learnable"] = Field(default="learnable", init=False)
    std: float = Field(default=0.02, gt=0, description="a positive standard deviation")

    def code_parameters(self, width: int, shape: Shape) -> int:
        return shape.tokens * width
