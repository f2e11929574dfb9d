"""How large a study's model and its training are, where both follow from the images: one rule, printed by the plan."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from search_spaces.leaves import is_of_data
from search_spaces.words import listed
from trainables.backbones import MODELS, Model, ViT
from trainables.data import KINDS, LISTED, ImagesSpec
from trainables.data.augment import Standard
from trainables.own import is_own
from trainables.recipe import Fresh, Recipe
from trainables.spec import Spec, require

LARGER = 1.5
"""The side of the larger test images, over that of the training images, but for whole patches."""
FEWEST_EPOCHS, MOST_EPOCHS = 2, 60
"""Of the shortest length: below, a cooldown is half of it; above, the longest sees each image some hundred times."""
AUGMENTED = 20
"""From so many epochs on photographs are flipped and shifted: in fewer a small model does not know them by heart."""
BATCHES = ((1_000, 25), (5_000, 50), (20_000, 100))
"""Up to how many training images a batch has how many, so that a short training still has hundreds of steps."""
LARGEST_BATCH = 200
GENTLER = 10
"""By what the rates of new weights are divided where a model begins with trained ones, as is usual for fine-tuning."""
MULTIPLES = "a list of whole numbers that begins with 1, each greater than the one before"


IMAGE_KINDS = frozenset(spec.model_fields["kind"].default for spec in LISTED if issubclass(spec, ImagesSpec))
"""The kinds of data that are stored images, which may take the place of others."""
SCORES = ("data.skill", "data.balanced")
"""What says how images are scored, whichever they are."""


def data_values(name: str) -> dict[str, Any]:
    """Returns the values that `--data` puts on a recipe, by path.

    `name`: a known set, your own class (`mine.py:Tiles`), an `.npz` file with `images` and `labels`, or a folder.
    """
    if name in KINDS or is_own(name):
        return {"data.kind": name}
    return {"data.kind": "arrays" if name.lower().endswith(".npz") else "folder", "data.path": name}


def data_label(name: str) -> str:
    """Returns the images in the id of an edition: the last part of a path, in letters, digits and `-`."""
    return re.sub(r"[^A-Za-z0-9]+", "-", re.sub(r"\.npz$", "", Path(name).name))[:30].strip("-") or "images"


class Fit(Spec):
    """What a budget spends on a run, from which a study's sizes follow for any images.

    `images`: how many training images a run sees at the shortest length, over all epochs. `lengths`: at which multiples
    of it a run is measured, the first 1. `side`: the side of the images at most, in pixels. `grid`: how many patches a
    side has. `most`: how many images of a split that is scored are used at most.
    """

    images: int = Field(gt=0, description="a positive number of images")
    side: int = Field(gt=0, description="a positive side in pixels")
    lengths: tuple[int, ...] = Field(default=(1, 2, 4, 8), strict=False, description=MULTIPLES)
    grid: int = Field(default=8, gt=0, description="a positive number of patches")
    most: int = Field(default=2_000, gt=0, description="a positive number of images")

    @field_validator("lengths")
    @classmethod
    def _rise(cls, lengths: tuple[int, ...]) -> tuple[int, ...]:
        rising = all(first < second for first, second in pairwise(lengths))
        require(lengths[:1] == (1,) and rising, "", MULTIPLES, list(lengths))
        return lengths

    def values(self, recipe: Recipe, settings: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Returns what follows from the images and the model of a recipe, by path.

        The side is that of the images, but at most `side`, in `grid` patches; of images whose side is given, in as many
        patches, near `grid`, as divide it. Epochs of the shortest length: as many as `images` allow, from 2
        to 60; of larger sets a part is used. `settings`: the values that are given, by path; the recipe has them.
        """
        settings, data, model = settings or {}, recipe.data, recipe.model
        values: dict[str, Any] = {}
        side = data.size[1]
        if isinstance(data, ImagesSpec):
            if "data.image_size" not in settings:
                side = max(1, min(data.natural_side, self.side) // self.grid) * self.grid
                values["data.image_size"] = side
            available, held, train = data.available, data.held_out_at(0), data.image_counts.train
            if not data.folds:  # folds are of all images
                counts = {"val_size": (self.most, available.validation or held.validation)}
                counts |= {"test_size": (self.most, available.test or held.test)}
                if not {"data.train_size", "data.samples_per_class"} & {*settings}:
                    train = min(held.train, self.images // FEWEST_EPOCHS)
                    counts |= {"train_size": (train, held.train)}
                values |= {f"data.{name}": limit for name, (limit, every) in counts.items() if limit < every}
        else:
            train = data.image_counts.train
        patch = getattr(model, "patch_size", 1)
        if has_patch(settings, model) and "model.patch_size" not in settings:
            grids = [count for count in range(side, 0, -1) if side % count == 0]
            patch = side // min(grids, key=lambda count: abs(count - self.grid))
            values["model.patch_size"] = patch
        if isinstance(data, ImagesSpec):
            values["test_sizes"] = [round(side * LARGER / patch) * patch]
        shortest = min(max(self.images // train, FEWEST_EPOCHS), MOST_EPOCHS)
        epochs = settings.get("optimizer.epochs", shortest * self.lengths[-1])
        if recipe.optimizer.schedule == "wsd":
            shorter = {epochs * multiple // self.lengths[-1] for multiple in self.lengths[:-1]}
            values["optimizer.lengths"] = sorted(shorter - {0, epochs})
        if isinstance(data, ImagesSpec) and epochs >= AUGMENTED:
            values["augment.kind"] = "standard"
        batch = next((batch for most, batch in BATCHES if train <= most), LARGEST_BATCH)
        values |= {"optimizer.epochs": epochs, "optimizer.batch_size": batch}
        if not isinstance(recipe.init, Fresh):
            values["optimizer.lr_base_size"] = GENTLER * settings.get("optimizer.batch_size", batch)
        return {path: value for path, value in values.items() if path not in settings}


def kept_form(settings: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Returns the side of other images and how they are scored, where the values do not say it: as of those before.

    The patches of the recipe's model are for that side. If the values name another model, its kind decides. `settings`:
    values, by path. `recipe`: without them.
    """
    if settings.get("data.kind") not in IMAGE_KINDS:
        return {}
    before = {path: getattr(recipe.data, path.removeprefix("data."), False) for path in SCORES}
    kept: dict[str, Any] = {path: value for path, value in before.items() if value and path not in settings}
    if not {"data.image_size", "model.kind", "model.name", "model.patch_size"} & {*settings}:
        kept["data.image_size"] = recipe.data.size[1]
    return kept


def kept_size(settings: Mapping[str, Any], recipe: Recipe) -> dict[str, Any]:
    """Returns the form and the counts of other images, where the values say none: those of the images before.

    So a budget takes about the same time with other images. Of a smaller set all images are used.
    """
    kept = kept_form(settings, recipe)
    if settings.get("data.kind") not in IMAGE_KINDS or "data.folds" in settings:
        return kept
    images = {path: value for path, value in settings.items() if is_of_data(path) and "normalize" not in path}
    alone = Recipe(data=recipe.data, model=ViT(patch_size=1))  # no parent, and a patch for every side
    available, before = alone.variant(images | kept).data.image_counts, recipe.data
    most = {name: getattr(before, f"{name}_size", None) for name in ("train", "val", "test")}
    if getattr(before, "samples_per_class", None):
        most["train"] = before.image_counts.train
    if "data.samples_per_class" in settings:
        most["train"] = None
    for name, count in (("train", available.train), ("val", available.validation), ("test", available.test)):
        if (limit := most[name]) and limit < count and f"data.{name}_size" not in settings:
            kept[f"data.{name}_size"] = limit
    return kept


def has_patch(settings: Mapping[str, Any], model: Model) -> bool:
    """Returns whether the side of a patch may be chosen for the model of these values; a name of timm's fixes it."""
    return "patch_size" in MODELS.get(settings.get("model.kind", ""), type(model)).model_fields


def fit_words(recipe: Recipe) -> str:
    """Returns what follows from the images, in words."""
    data, model, optimizer = recipe.data, recipe.model, recipe.optimizer
    side, patch = data.size[1], getattr(model, "patch_size", 1)
    larger = f" (tested at {recipe.test_sizes[0]}, too)" if recipe.test_sizes else ""
    lengths = listed([*map(str, optimizer.every_length)])
    epochs = f"{lengths} epochs with {optimizer.batch_size} images a step"
    flips = isinstance(recipe.augment, Standard) and recipe.augment.flip > 0
    flipped = ", flipped at random (where left and right differ: --set augment.kind=none)" if flips else ""
    base_size = optimizer.lr_base_size
    gentler = f", rates times {optimizer.batch_size / base_size:g} (lr_base_size)" if base_size else ""
    patches = f"{(side // patch) ** 2} patches of {patch} x {patch}"
    return f"{side} x {side} pixels{larger} in {patches}, {epochs}{gentler}{flipped}"
