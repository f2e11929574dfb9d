"""The weight of a run, by arithmetic, against the real model's."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from trainables.backbones import ViT
from trainables.data import Digits
from trainables.encodings import (  # fmt: skip
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
)
from trainables.encodings.irpe import Cross
from trainables.encodings.relative import ClippedOffsets
from trainables.recipe import AdamW, Recipe
from trainables.recipe.cost import weigh
from trainables.recipe.model_torch import build_model

ROOT = Path(__file__).parents[4]
ENCODINGS = [cls() for kind, cls in KINDS.items() if cls is not Composed]
ENCODINGS += [
    Composed(parts=(Learnable(), PEG(places=(-1, 0), kernel=5), RelativeBias(shared=True))),
    Fourier(features=10, hidden=7),
    Fourier(injection=Concat(split=0.25, places=("query", "value"), shared=False)),
    LearnableSinusoidal(injection=Extend(channels=4, shared=False)),
    Learnable(injection=Add(places=("common", "key"), blocks=2, shared=False)),
    Gabor(form="edge", injection=Parts(parts=(1, 2), shared=False)),
    Relative(offsets=ClippedOffsets(reach=2), value=True),
    Relative(shared=True),
    IRPE(mapping=Cross(), on=("q", "k", "v"), shared_heads=False),
    IRPE(mode="bias", on=("q", "k"), shared=True),
    *(PEG(form=form, places=(-1, 0)) for form in ("dense", "separable", "depthwise_stack", "dense_stack")),
    Composed(parts=(Learnable(injection=Concat()), Fourier(injection=Concat(split=0.25)), Gabor(), IRPE())),
]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda encoding: encoding.label)
@pytest.mark.parametrize("pool", ["token", "avg", "gap"])
def test_parameters_are_counted(encoding, pool):
    model = ViT(embed_dim=24, num_heads=3, depth=2, mlp_ratio=2.5, patch_size=2, pool=pool)
    recipe = Recipe(data=Digits(), model=model, encoding=encoding)
    assert weigh(recipe).parameters == sum(parameter.numel() for parameter in build_model(recipe).parameters())


def test_terms_of_pairs_weigh():
    light, heavy = (weigh(Recipe(encoding=IRPE(mode=mode))).memory_bytes for mode in ("bias", "contextual"))
    assert light < heavy < weigh(Recipe(encoding=IRPE(on=("k", "v")))).memory_bytes


def test_memory_grows_with_batch_depth_and_precision():
    light = weigh(Recipe()).memory_bytes
    for heavier in (AdamW(batch_size=200), AdamW(precision="float64")):
        assert weigh(Recipe(optimizer=heavier)).memory_bytes > light
    assert weigh(Recipe(model=ViT(depth=3))).memory_bytes > light


TRAINS = """
import json, resource, sys, tempfile
from pathlib import Path
from trainables.recipe import Recipe, Run
from trainables.training.loop import train
values = {"optimizer.epochs": 1, "optimizer.batch_size": 200, "data.train_size": 400, "model.embed_dim": 128, "model.depth": 4}
recipe = Recipe().put({**values, **json.loads(sys.argv[1])})
with tempfile.TemporaryDirectory() as folder:
    list(train(Run(recipe=recipe, seed=0), Path(folder)))
from trainables.recipe.cost import weigh
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024, weigh(recipe).memory_bytes)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "encoding", [{}, {"encoding.kind": "irpe", "encoding.on": ["q", "k", "v"], "model.patch_size": 2}]
)
def test_memory_is_about_what_a_run_takes(encoding):
    command = [sys.executable, "-c", TRAINS, json.dumps(encoding)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    peak, estimated = map(int, done.stdout.split())
    assert 1 / 1.6 < estimated / peak < 1.6
