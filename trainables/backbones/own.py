"""A backbone of a person's own: a VisionTransformer of timm that a class or a function of their file makes."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import ConfigDict, Field, model_validator

from trainables.backbones.backbone import ModelSpec, Size, check_heads, check_patches, convolution, linear
from trainables.encodings.encoding import ReservedChannels, Shape, Widths
from trainables.own import OwnSpec
from trainables.spec import Spec

_READ = "a whole number, which is read from the model"


class OwnModel(OwnSpec, ModelSpec):
    """A ViT that the user's file makes: its kind is "file.py:MyViT", and `source` is the text of that file.

    `MyViT` is called with `img_size` (rows, columns), `patch_size`, `in_chans` and `num_classes`, as timm calls them,
    and returns a VisionTransformer of timm. Its position table gives way to the encoding. Its initial weights are
    timm's, drawn from the streams of the seed, as those of all backbones. All fields but `patch_size` are read from a
    model of 8 x 8 patches, once: who looks at a study needs no timm. `weights` counts the parameters, but for those of
    the patches, the positions and the head.
    Units: `patch_size` in pixels.
    """

    model_config = ConfigDict(extra="forbid")

    NODE: ClassVar[str] = "model"
    ordered_layers: ClassVar[bool] = True
    supports_shrinking: ClassVar[bool] = True

    embed_dim: int = Field(gt=0, description=_READ)
    depth: int = Field(gt=0, description=_READ)
    num_heads: int = Field(gt=0, description=_READ)
    prefix: int = Field(ge=0, description=_READ)
    weights: int = Field(ge=0, description=_READ)
    patch_size: int = Field(default=4, gt=0, description="a positive side in pixels")

    @model_validator(mode="before")
    @classmethod
    def _complete(cls, value: Any) -> Any:
        if isinstance(value, dict) and {"kind", "source"} <= value.keys() and "embed_dim" not in value:
            from trainables.backbones.own_torch import facts

            return {**facts(value["kind"], value["source"], value.get("patch_size", 4)), **value}
        return value

    @model_validator(mode="after")
    def _divides(self) -> OwnModel:
        check_heads(self.embed_dim, self.num_heads)
        return self

    @classmethod
    def nested(cls, node: Any) -> dict[str, Any]:
        return {}

    def made(self) -> Any:
        return self

    def identity(self) -> Any:
        fields = Spec.identity(self)
        del fields["source"]
        return fields

    def check(self, size: Size) -> None:
        check_patches(size, self.patch_size)

    def shapes(self, size: Size) -> tuple[Shape, ...]:
        widths = Widths(self.embed_dim, self.num_heads, self.embed_dim // self.num_heads)
        rows, columns = size[1] // self.patch_size, size[2] // self.patch_size
        return (Shape(widths, self.depth, rows, columns, self.prefix),)

    def parameters(self, size: Size, outputs: int, reserved: ReservedChannels) -> int:
        """Counts the parameters, of a head and a patch embedding as timm's usually are."""
        narrower = self.num_heads * (reserved.q + reserved.k + reserved.v) * (self.embed_dim + 1) * self.depth
        narrower += reserved.tokens * self.prefix
        patches = convolution(size[0], self.embed_dim - reserved.tokens, self.patch_size)
        return self.weights - narrower + patches + linear(self.embed_dim, outputs)

    def saved_activations(self, size: Size, saved_pairs: int) -> int:
        """Counts what a token keeps in blocks with an MLP of four times their width, and its pixels."""
        tokens = self.shapes(size)[0].tokens
        block = 19 * self.embed_dim + saved_pairs * self.num_heads * tokens
        return int(tokens * (block * self.depth + 4 * self.embed_dim + size[0] * self.patch_size**2))
