"""Right images: which test images a trained model has right, where these are fixed and accuracy is measured."""

from __future__ import annotations

import torch

from trainables.data.splits_torch import Reading, load
from trainables.probes.inputs.arrays import ProbeError
from trainables.probes.inputs.subject import Subject
from trainables.recipe.evaluation import eval_batch
from trainables.recipe.findings import Findings
from trainables.training.normalize import normalizer
from trainables.training.runtime import autocast


@torch.inference_mode()
def probe(subject: Subject) -> Findings:
    """Returns whether each test image is right, in the order of the set, as the run's own test score is computed.

    Shapes: `right` (N,) of true and false.
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
    right = []
    for pixels, targets in images.batches(torch.split(torch.arange(len(images)), eval_batch(recipe)), dtype):
        with autocast("cpu", precision):
            outputs = model(normalize(pixels))
        right.append(outputs.double().argmax(dim=1) == targets)
    return Findings(arrays={"right": torch.cat(right).numpy()})
