"""Seeds torch's global generator before each test, so a test draws the same numbers in each run."""

import pytest
import torch


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)
