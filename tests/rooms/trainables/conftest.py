"""Tests draw their numbers from torch's global generator, which each of them begins anew."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
