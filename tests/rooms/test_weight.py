"""The weight of a run, by arithmetic, against the real model's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainables.backbones import build_model
from trainables.catalog import (
    IRPE,
    KINDS,
    PEG,
    Add,
    Composed,
    Concat,
    Extend,
    Fourier,
    Gabor,
    Learnable,
    LearnableSinusoidal,
    Parts,
    Relative,
    RelativeBias,
)  # fmt: skip
from trainables.indices import Clipped, Cross
from trainables.recipe import AdamW, Digits, Recipe, ViT
from trainables.weight import weigh

ROOT = Path(__file__).parents[2]
ENCODINGS = [cls() for kind, cls in KINDS.items() if cls is not Composed]
ENCODINGS += [
    Composed(parts=(Learnable(), PEG(places=(-1, 0), kernel=5), RelativeBias(shared=True))),
    Fourier(features=10, hidden=7),
    Fourier(enters=Concat(split=0.25, places=("query", "value"), shared=False)),
    LearnableSinusoidal(enters=Extend(channels=4, shared=False)),
    Learnable(enters=Add(places=("common", "key"), blocks=2, shared=False)),
    Gabor(form="edge", enters=Parts(parts=(1, 2), shared=False)),
    Relative(offsets=Clipped(reach=2), value=True),
    Relative(shared=True),
    IRPE(mapping=Cross(), on=("q", "k", "v"), shared_heads=False),
    IRPE(mode="bias", on=("q", "k"), shared=True),
    *(PEG(form=form, places=(-1, 0)) for form in ("dense", "separable", "depthwise_stack", "dense_stack")),
    Composed(parts=(Learnable(enters=Concat()), Fourier(enters=Concat(split=0.25)), Gabor(), IRPE())),
]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.label)
@pytest.mark.parametrize("read_out", ["class", "mean", "gap"])
def test_parameters_are_counted(encoding, read_out):
    model = ViT(dim=24, heads=3, depth=2, mlp_ratio=2.5, patch=2, read_out=read_out)
    recipe = Recipe(data=Digits(), model=model, encoding=encoding)
    assert weigh(recipe).parameters == sum(parameter.numel() for parameter in build_model(recipe).parameters())


def test_terms_of_pairs_weigh():
    light, heavy = (weigh(Recipe(encoding=IRPE(mode=mode))).memory_bytes for mode in ("bias", "contextual"))
    assert light < heavy < weigh(Recipe(encoding=IRPE(on=("k", "v")))).memory_bytes


def test_memory_grows_with_batch_depth_and_precision():
    light = weigh(Recipe()).memory_bytes
    for heavier in (AdamW(batch=200), AdamW(precision="float64")):
        assert weigh(Recipe(optimiser=heavier)).memory_bytes > light
    assert weigh(Recipe(model=ViT(depth=3))).memory_bytes > light


TRAINS = """
import json, resource, sys, tempfile
from pathlib import Path
from trainables.recipe import Recipe, Run
from trainables.train import train
values = {"optimiser.epochs": 1, "optimiser.batch": 200, "data.train": 400, "model.dim": 128, "model.depth": 4}
recipe = Recipe().put({**values, **json.loads(sys.argv[1])})
with tempfile.TemporaryDirectory() as folder:
    list(train(Run(recipe=recipe, seed=0), Path(folder)))
from trainables.weight import weigh
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, weigh(recipe).memory_bytes)
"""


@pytest.mark.slow
@pytest.mark.parametrize("encoding", [{}, {"encoding.kind": "irpe", "encoding.on": ["q", "k", "v"], "model.patch": 2}])
def test_memory_is_about_what_a_run_takes(encoding):
    command = [sys.executable, "-c", TRAINS, json.dumps(encoding)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    peak, estimated = map(int, done.stdout.split())
    assert 1 / 1.6 < estimated / peak < 1.6
