"""Accuracy, balanced accuracy and R^2, added up over shares of the images, against scikit-learn."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score

from trainables.training.evaluation import compute_metric, metric_sums


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 28))
def test_scores_of_shares_are_scikit_learns_of_the_whole(seed, cut):
    numbers = torch.Generator().manual_seed(seed)
    outputs = torch.randn(29, 2, generator=numbers)
    labels = torch.randint(0, 2, (29,), generator=numbers)
    offsets = torch.randn(29, 2, generator=numbers, dtype=torch.float64) * torch.tensor([1.0, 7.0])
    answers = outputs.argmax(1)
    for measure, targets, expected in (
        ("accuracy", labels, accuracy_score(labels, answers)),
        ("balanced_accuracy", labels, balanced_accuracy_score(labels, answers)),
        ("r2", offsets, r2_score(offsets, outputs)),
    ):
        parts = [metric_sums(measure, outputs[:cut], targets[:cut]), metric_sums(measure, outputs[cut:], targets[cut:])]
        assert compute_metric(measure, sum(parts), targets) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_output_that_is_not_finite_is_no_score(bad):
    outputs = torch.zeros(5, 2)
    outputs[3, 1] = bad
    labels = torch.tensor([0, 1, 0, 0, 1])
    for measure, targets in (("accuracy", labels), ("balanced_accuracy", labels), ("r2", torch.randn(5, 2))):
        assert not math.isfinite(compute_metric(measure, metric_sums(measure, outputs, targets), targets))
