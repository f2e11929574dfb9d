"""Compiled runs: the numbers and weights of runs that are not, few graphs, and checkpoints that fit both."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[4]


def outcome(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.rooms.trainables.training.compiled_runs", name],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(900)  # a busy machine may need long to import the compiler
@pytest.mark.parametrize(
    ("name", "graphs"),
    [
        pytest.param("plain", 2, marks=[pytest.mark.slow, pytest.mark.gate]),
        pytest.param("in parts", 3, marks=pytest.mark.slow),
        pytest.param("drop path, an average, localization", 2, marks=pytest.mark.slow),
        pytest.param("float64", 2, marks=pytest.mark.slow),
    ],
)
def test_a_run_goes_on_compiled_or_not(name, graphs):
    """50 images in batches of 16: a full batch and one of 2; in three parts of 5, 5 and 6, and two of 1."""
    found = outcome(name)
    assert found["compiled first"] == found["compiled then"] == found["eager"]
    assert found["graphs, compiled first"] == found["graphs, compiled then"] == graphs
    assert found["names"][0] == found["names"][1] == found["names"][2]
