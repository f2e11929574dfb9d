"""Which ways of learning a model supports."""

from __future__ import annotations

from trainables.backbones import VOLO, ModelSpec
from trainables.encodings import PEG, EncodingSpec, parts_of
from trainables.recipe.optimizer import OptimizerSpec
from trainables.spec import require


def check_learning(optimizer: OptimizerSpec, model: ModelSpec, encoding: EncodingSpec, trainable: str) -> None:
    """Checks with `require` that a model has what the optimizer's options need."""
    decay = optimizer.layer_decay
    if decay is not None:
        must = f"null where model.kind is {model.kind}, whose layers timm does not put in one order"
        require(model.ordered_layers, "optimizer.layer_decay", must, decay)
        must = "null where trainable is position, because all of an encoding has one rate"
        require(trainable != "position", "optimizer.layer_decay", must, decay)
    if normalizes_batches(model, encoding, trainable):
        must = f"1 where a batch norm learns ({model.kind} with {encoding.label}), which would see parts of a batch"
        require(optimizer.accumulate == 1, "optimizer.accumulate", must, optimizer.accumulate)


def normalizes_batches(model: ModelSpec, encoding: EncodingSpec, trainable: str) -> bool:
    """Returns whether a batch norm learns: VOLO's stem has one, and so have stacks of PEGs."""
    stacks = (part for part in parts_of(encoding) if isinstance(part, PEG) and part.form.endswith("stack"))
    return (isinstance(model, VOLO) and trainable == "all") or any(not part.frozen for part in stacks)
