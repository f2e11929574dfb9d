"""A model of a person's own with an encoding, as a run trains it."""

from __future__ import annotations

from typing import Any

from timm.models.vision_transformer import VisionTransformer
from torch import Tensor

from trainables.backbones import Size
from trainables.backbones.backbone_torch import Host, position
from trainables.backbones.own import OwnModel
from trainables.backbones.own_torch import facts_of, make
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Tokens
from trainables.spec import SpecError
from trainables.training import attached
from trainables.training.attach import attach


class OwnViT(Host):
    """What a run asks of an attached model (`mix`); timm's methods compute it, and those of the user's class."""

    def features(self, images: Tensor) -> Tokens:
        x = super(Host, self).forward_features(images)  # type: ignore[misc]
        grid, _, cache = self.now.rest
        return Tokens(x, grid, None, cache)


def own_model(spec: OwnModel, size: Size, outputs: int, encoding: EncodingSpec) -> Any:
    """Returns the model of a user's file, whose only source of position is the encoding.

    Raises: SpecError for a model that is another one for images of this size, for one with a forward pass of its own,
    and where the encoding cannot act in it.
    """
    model = make(spec.kind, spec.source, size, spec.patch_size, outputs)
    for name, value in facts_of(model).items():
        if value != (before := getattr(spec, name)):
            must = f"{spec.kind} must make models with equal {name} for all sizes of images and patches"
            raise SpecError(f"{must}, got {value} for {size[1]} x {size[2]} pixels, and {before} before")
    if type(model).forward is not VisionTransformer.forward:
        must = "must keep timm's forward; forward_features and forward_head may be your own"
        raise SpecError(f"{spec.kind} {must}, got {type(model).__name__}.forward")
    vit: Any = attach(model, encoding)
    attached.mix(vit, OwnViT)
    (shape,) = spec.shapes(size)
    vit.encoding = position(encoding, shape)  # with its initial values, which each seed draws
    return vit
