"""A model of a person's own with an encoding, as a run trains it."""

from __future__ import annotations

from trainables.backbones import Size
from trainables.backbones.backbone_torch import position
from trainables.backbones.own import OwnModel
from trainables.backbones.own_torch import facts_of, make
from trainables.encodings import EncodingSpec
from trainables.spec import SpecError
from trainables.training.attach import AttachedViT, attach


def own_model(spec: OwnModel, size: Size, outputs: int, encoding: EncodingSpec) -> AttachedViT:
    """Returns the model of a user's file, whose only source of position is the encoding.

    Raises: SpecError for a model that is another one for images of this size, and where the encoding cannot act in it.
    """
    model = make(spec.kind, spec.source, size, spec.patch_size, outputs)
    for name, value in facts_of(model).items():
        if value != (known := getattr(spec, name)):
            must = f"{spec.kind} must make models with equal {name} for all sizes of images and patches"
            raise SpecError(f"{must}, got {value} for {size[1]} x {size[2]} pixels, and {known} before")
    attached = attach(model, encoding)
    (shape,) = spec.shapes(size)
    attached.encoding = position(encoding, shape)  # with its initial values, which each seed draws
    return attached
