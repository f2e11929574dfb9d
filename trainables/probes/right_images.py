"""Right images: which class a trained model says of each test image, where these are fixed and accuracy is measured."""

from __future__ import annotations

import os
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from trainables.data import Arrays, Folder
from trainables.data.class_names_torch import class_names
from trainables.data.images import ImagesSpec
from trainables.data.images_torch import chosen
from trainables.data.splits_torch import Reading, load
from trainables.probes.inputs.arrays import ProbeError
from trainables.probes.inputs.subject import Subject
from trainables.recipe.evaluation import eval_batch
from trainables.recipe.findings import Findings
from trainables.spec import LocusError
from trainables.training.normalize import normalizer
from trainables.training.runtime import autocast


@torch.inference_mode()
def probe(subject: Subject) -> Findings:
    """Returns the answer to each test image, in the order of the set, as the run's own test score is computed.

    Shapes: `right` (N,) of true and false; `predicted` and `targets` (N,) of class numbers; `classes` (K,) of names;
    `wrong` (W,), what the images are called that are wrong, in their order; not there where images have no names.
    Raises: ProbeError for a metric that is not the share of right answers; LocusError if the images cannot be read.
    Cost: a pass over the test images; 2 ms for one of 65 tokens and four blocks 64 wide, on one thread.
    """
    recipe = subject.recipe
    if recipe.data.metric != "accuracy":
        raise ProbeError(f"right images must be of a set whose metric is accuracy, got {recipe.data.metric}")
    precision = recipe.optimizer.precision
    dtype = torch.float64 if precision == "float64" else torch.float32  # as runs are evaluated; float64 takes longer
    normalize, model = normalizer(recipe, torch.device("cpu"), dtype), subject.model.to(dtype).eval()
    images = load(recipe.data, Reading(subject.data, seed=subject.seed)).test
    batches = []
    for pixels, targets in images.batches(torch.split(torch.arange(len(images)), eval_batch(recipe)), dtype):
        with autocast("cpu", precision):
            outputs = model(normalize(pixels))
        batches.append(torch.stack([outputs.double().argmax(dim=1), targets]))
    predicted, targets = torch.cat(batches, dim=1).int().numpy()
    right, classes = predicted == targets, np.array(class_names(recipe.data, subject.data))
    arrays = {"right": right, "predicted": predicted, "targets": targets, "classes": classes}
    if isinstance(recipe.data, ImagesSpec) and (names := _names(recipe.data, subject.data)):
        arrays["wrong"] = np.array(names)[~right]
    return Findings(arrays=arrays)


@lru_cache(maxsize=1)
def _names(data: ImagesSpec, folder: Path | None) -> list[str]:
    """Returns the names of the test images: paths below the set's folder, or numbers in its file; [] if it is gone."""
    folder = folder or Path()
    arguments = (data,) if isinstance(data, Folder | Arrays) else (data, folder)
    try:
        records = import_module(f"{type(data).__module__}_torch").records(*arguments)
        pairs = chosen(data, {split: each.labels for split, each in records.items()})["test"]
    except (LocusError, OSError, RuntimeError, ValueError, LookupError):  # as readers of known sets say it
        return []
    names, root = [records[split].name(number) for split, number in pairs], data.root(folder)
    return [os.path.relpath(name, root) if os.path.isabs(name) else name.partition(" of ")[0] for name in names]
