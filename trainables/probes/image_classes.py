"""Image classes: what position does to single images, from predictions with and without it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.backbones.backbone_torch import Host
from trainables.data.splits_torch import Reading, load
from trainables.probes.inputs.arrays import ProbeError, float64
from trainables.probes.inputs.subject import Subject
from trainables.recipe import Fresh
from trainables.recipe.findings import Findings
from trainables.recipe.model_torch import build_model
from trainables.training.normalize import normalizer

Mask = NDArray[np.bool_]
MOST_IMAGES = 1000
"""How many test images are classified at most; they are spread evenly over the set, which may be sorted by class."""
BATCH = 50


@dataclass(frozen=True)
class ImageClasses:
    """Which images are in which class, each in exactly one. Shapes: (images,) each.

    `ignored`: right with and without position; `mislead`: right only without; `correct`: right only with; `useless`:
    wrong in both.
    """

    ignored: Mask
    mislead: Mask
    correct: Mask
    useless: Mask

    @property
    def counts(self) -> dict[str, int]:
        return {name: int(mask.sum()) for name, mask in vars(self).items()}


def image_classes(with_position: Any, without_position: Any, targets: Any) -> ImageClasses:
    """Returns the class of each image, from the predictions of two models and the true classes.

    Shapes: predictions (images,) as classes, or (images, outputs) of which the largest counts; targets (images,).
    Raises: ProbeError if they differ in their number of images.
    Source: Gabor paper 4.1, table 2. Differs: nothing; both models share one frozen backbone there.
    """
    truth = float64(targets)
    answers = [float64(outputs) for outputs in (with_position, without_position)]
    answers = [outputs.argmax(axis=1) if outputs.ndim == 2 else outputs for outputs in answers]
    if any(classes.shape != truth.shape for classes in answers) or truth.ndim != 1:
        shapes = ", ".join(str(classes.shape) for classes in (*answers, truth))
        raise ProbeError(f"predictions and targets must be of the same images, got {shapes}")
    with_it, without_it = (classes == truth for classes in answers)
    return ImageClasses(with_it & without_it, ~with_it & without_it, with_it & ~without_it, ~with_it & ~without_it)


def probe(subject: Subject) -> Findings:
    """Returns the share of test images in each class, by the model with its encoding and by its frozen backbone alone.

    `changed`: the share of those that position makes right or wrong. `classes`: the number of each image's class, in
    the order of `ImageClasses`; `images`: which test images they are of. If seeds are folds, a run has its own.
    """
    recipe, encoding = subject.recipe, subject.recipe.encoding
    if encoding.is_noop:
        return Findings(note="none has no position to leave out")
    if recipe.trainable != "position" or recipe.data.metric == "r2":
        return Findings(note="images have classes where position alone learns, so that both models share one backbone")
    try:
        bare = without_encoding(subject)
    except ProbeError as error:
        return Findings(note=str(error))
    test = load(recipe.data, Reading(subject.data, seed=subject.seed)).test
    numbers = torch.arange(min(len(test), MOST_IMAGES)) * len(test) // min(len(test), MOST_IMAGES)
    normalize = normalizer(recipe, torch.device("cpu"), torch.float64)
    outputs = []
    with torch.no_grad():
        for model in (subject.model, bare):
            batches = test.batches(torch.split(numbers, BATCH), torch.float64)
            outputs.append(torch.cat([model(normalize(pixels)) for pixels, _ in batches]))
    with_position, without_position = outputs
    masks = vars(image_classes(with_position, without_position, test.targets[numbers]))
    values = {name: float(mask.mean()) for name, mask in masks.items()}
    values["changed"] = values["mislead"] + values["correct"]
    classes = np.stack([*masks.values()]).argmax(axis=0).astype(np.uint8)
    return Findings(values, {"classes": classes, "images": numbers.numpy()})


def without_encoding(subject: Subject) -> Host:
    """Returns the same model with no encoding. Raises: ProbeError if position takes channels of the backbone."""
    bare = subject.recipe.put({"encoding.kind": "none", "trainable": "all", "init": Fresh()})
    model = build_model(bare).double().eval()
    weights = {name: value for name, value in subject.model.state_dict().items() if not name.startswith("encoding.")}
    expected = {name: value.shape for name, value in model.state_dict().items()}
    if expected != {name: value.shape for name, value in weights.items()}:
        got = subject.recipe.encoding.label
        raise ProbeError(f"position must leave the backbone's channels as they are, got {got}")
    model.load_state_dict(weights)
    return model
