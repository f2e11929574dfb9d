"""The most memory of a run: what a run before it took does not count."""

import sys
from pathlib import Path

import pytest
import torch

from trainables.training.runtime import peak_gib, reset_peak

CPU = torch.device("cpu")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forgets a peak")
def test_the_peak_is_of_what_came_since():
    reset_peak(CPU)
    before = peak_gib(CPU)
    large = torch.ones(64 * 2**20)  # a quarter of a GiB
    high = peak_gib(CPU)
    assert before + 0.2 < high < before + 0.4
    del large
    reset_peak(CPU)
    assert peak_gib(CPU) < before + 0.1
    assert Path("/proc/self/status").exists()
