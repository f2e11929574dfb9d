"""Training speed on a GPU beside timm's model in a plain loop (`speed.py`)."""

import re
import subprocess
import sys

import pytest


@pytest.mark.benchmark
@pytest.mark.timeout(600)
def test_training_is_as_fast_as_a_loop_with_timm():
    printed = subprocess.run(
        [sys.executable, "-m", "tests.gpu.speed"], stdout=subprocess.PIPE, text=True, check=True
    ).stdout
    print(printed)
    ratios = {
        line.partition(":")[0]: float(ratio)
        for line in printed.splitlines()
        for ratio in re.findall(r"ratio (.+)", line)
    }
    assert ratios.keys() == {"float32", "tf32", "bfloat16", "bfloat16 compiled"}
    assert min(ratios.values()) >= 1.0
