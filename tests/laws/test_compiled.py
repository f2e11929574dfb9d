"""Law: torch.compile sees every model as one graph, which computes the model's own numbers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainables.backbones import MODELS
from trainables.encodings import KINDS

ROOT = Path(__file__).parents[2]


def traced(count: str) -> dict[str, list]:
    done = subprocess.run([sys.executable, "-m", "tests.laws.traced", count], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("count", [pytest.param("1", marks=pytest.mark.gate), "all"])
def test_every_model_is_one_graph(count: str) -> None:
    found = traced(count)
    assert {name: outcome for name, outcome in found.items() if outcome != [1, [], True]} == {}
    backbones = {*MODELS}
    assert {f"{kind}-0" for kind in KINDS} | backbones - {"vit", "timm"} <= found.keys()  # `timm` becomes a vit
