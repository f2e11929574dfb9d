"""The lines of Python that put the best encoding of a study into a ViT of timm, for a reader to copy."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from trainables.backbones import ViT
from trainables.encodings import EncodingSpec, OwnEncoding, parts_of
from trainables.spec import Spec

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from trainables.recipe import Recipe

TIMM = "vit_tiny_patch16_224"
"""The ViT of timm whose numbers are replaced by those of the study."""
POOLS: dict[str, dict[str, Any]] = {
    "token": {},
    "distilled": {},
    "avg": {"class_token": False, "global_pool": "avg"},
    "gap": {"class_token": False, "global_pool": "avg", "fc_norm": False},
}
"""How timm's ViT is told what `model.pool` says; a teacher's token belongs to the training alone."""


def snippet(result: StudyResult) -> str:
    """The lines; empty if no trial is best, its model is no ViT, or its encoding is of a user's own file."""
    best = result.best
    if best is None or not isinstance(best.recipe.model, ViT):
        return ""
    if any(isinstance(part, OwnEncoding) for part in parts_of(best.recipe.encoding)):
        return ""
    images, numbers = _of_timm(best.recipe, best.recipe.model)
    return "\n".join(
        [
            "import timm",
            "import service",
            "",
            "model = timm.create_model(",
            f'    "{TIMM}", {_named(images)},',
            f"    {_named(numbers)},",
            ")",
            f"service.attach(model, {written(best.recipe.encoding)})",
        ]
    )


def command(result: StudyResult) -> str:
    """The command that writes the best model as a file; empty if none was kept, or no trial is best."""
    kept = result.best is not None and any(path.exists() for path in result.best.weights.values())
    return f"locus export {result.edition.id} --model best.pt" if kept else ""


def written(encoding: EncodingSpec) -> str:
    """An encoding as Python writes it: its numbers, and what else differs from its defaults."""
    fields = type(encoding).model_fields
    values = {name: getattr(encoding, name) for name in fields if name != "kind"}
    own = {
        name: value
        for name, value in values.items()
        if type(value) in (int, float) or value != fields[name].get_default(call_default_factory=True)
    }
    name = f"service.{type(encoding).__name__}"
    if any(isinstance(value, Spec) for value in own.values()):  # such as `mapping`, whose class service does not name
        return f"{name}.read({encoding.identity()!r})"
    return f"{name}({_named(own)})"


def _named(values: Mapping[str, Any]) -> str:
    """Values by name, as a call in Python has them."""
    return ", ".join(f"{name}={_text(value)}" for name, value in values.items())


def _text(value: Any) -> str:
    """A value as Python writes it."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_text, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, str):
        return json.dumps(value)
    return written(value) if isinstance(value, EncodingSpec) else repr(value)


def _of_timm(recipe: Recipe, model: ViT) -> tuple[dict[str, Any], dict[str, Any]]:
    """The numbers of the images and classes, and those of a ViT, under timm's names."""
    channels, rows, columns = recipe.data.size
    images = {"img_size": (rows, columns), "in_chans": channels, "num_classes": recipe.data.outputs}
    return images, {
        "patch_size": model.patch_size,
        "embed_dim": model.embed_dim,
        "depth": model.depth,
        "num_heads": model.num_heads,
        "mlp_ratio": model.mlp_ratio,
        **POOLS[model.pool],
    }
