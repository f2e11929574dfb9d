"""What a test draws without a seed of its own does not depend on the tests that ran before it."""

import random

import numpy as np
import pytest
import torch


@pytest.mark.parametrize("turn", [1, 2])
def test_the_shared_generators_begin_anew(request, turn):
    """Both turns draw from all three, so the second one finds them moved if nothing sets them back."""
    seed = int(request.config.getoption("--hypothesis-seed") or 0)
    assert random.random() == random.Random(seed).random()
    assert np.random.random() == np.random.RandomState(seed % 2**32).random_sample()
    assert torch.equal(torch.rand(5), torch.rand(5, generator=torch.Generator().manual_seed(seed)))
