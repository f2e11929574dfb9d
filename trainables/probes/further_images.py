"""Further test images: what a trained model scores on other draws of its test images, where a generator makes them."""

from __future__ import annotations

import numpy as np
import torch

from trainables.data import RedGreen
from trainables.data.red_green_torch import MAX_VALUE, further_test
from trainables.data.splits_torch import Split
from trainables.probes.inputs.arrays import ProbeError
from trainables.probes.inputs.subject import Subject
from trainables.recipe.findings import Findings
from trainables.training.distributed import SINGLE
from trainables.training.evaluation import Evaluation
from trainables.training.normalize import normalizer
from trainables.training.runtime import autocast

DRAWS = 4
"""How many further draws there are. With the study's own test images there are five."""


def probe(subject: Subject) -> Findings:
    """Returns the score on each further draw, in their order, as the run's own test score is computed.

    Raises: ProbeError for images that no generator makes.
    Cost: so many passes over the test images; 3 s for 4,000 of 24 x 24 pixels and three blocks, on one thread.
    """
    recipe = subject.recipe
    if not isinstance(recipe.data, RedGreen):
        raise ProbeError(f"further test images must be of a generator, got {recipe.data.kind}")
    precision = recipe.optimizer.precision
    dtype = torch.float64 if precision == "float64" else torch.float32  # as runs are evaluated; float64 takes longer
    normalize = normalizer(recipe, torch.device("cpu"), dtype)
    score, model = Evaluation(recipe, normalize, dtype, autocast("cpu", precision), SINGLE), subject.model.to(dtype)
    draws = [further_test(recipe.data, number) for number in range(1, DRAWS + 1)]
    splits = [Split(torch.from_numpy(images), torch.from_numpy(targets), MAX_VALUE) for images, targets in draws]
    return Findings(arrays={"scores": np.array([score(model, "test", split) for split in splits])})
