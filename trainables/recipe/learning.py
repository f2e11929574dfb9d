"""Which ways of learning a model supports."""

from __future__ import annotations

from trainables.backbones import ModelSpec
from trainables.recipe.optimizer import AdamW
from trainables.spec import require


def check_learning(optimizer: AdamW, model: ModelSpec, trainable: str) -> None:
    """Checks with `require` that a model has what the optimizer's options need."""
    decay = optimizer.layer_decay
    if decay is not None:
        must = f"null where model.kind is {model.kind}, whose layers timm does not put in one order"
        require(model.ordered_layers, "optimizer.layer_decay", must, decay)
        must = "null where trainable is position, because all of an encoding has one rate"
        require(trainable != "position", "optimizer.layer_decay", must, decay)
