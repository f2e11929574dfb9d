"""Which position encoding for these images?

    locus run encodings --data ./pets

Source: ours. Any images: a folder with <class>/ or train/<class>/, or a known set; by default digits. Size, patch,
epochs and batch follow from the images and the budget (`search_spaces/fit.py`). Six encodings, or those that `--arms`
names (`--arms all`: the list), are tuned in their rate by the same values, at the shortest length. Then each is trained
to the longest, 8 times as long, and measured on the way; arms race: one that is clearly below the best at the longest
length gets no further seed. No number published. Cost: smoke 2 min (an estimate), quick 20 min (an estimate), cpu
60 min (an estimate), 8h 8 h (an estimate) on 2 cores; gpu 1.9 GPU-hours. (Those are for digits; 3,000 photographs take
twice as long on a GPU.)
Expected: short trainings favor sines and what is nearest to pixels; rotary and relative encodings pass them when
trained on; every encoding is above none.
"""

from typing import Any

from search_spaces.plans.tuning import Tuning
from search_spaces.space import Choice, Space
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Ablation, Budget, Fit, Study
from trainables.backbones import ViT
from trainables.data import Digits
from trainables.recipe import AdamW, Recipe

ENCODINGS: dict[str, dict[str, Any]] = {
    "none": {"encoding.kind": "none"},
    "learnable": {},
    "sinusoidal": {"encoding.kind": "sinusoidal"},
    "learnable sinusoidal": {"encoding.kind": "learnable_sinusoidal"},
    "fourier": {"encoding.kind": "fourier", "encoding.gamma": 2.5},
    "gabor": {"encoding.kind": "gabor"},
    "rotary": {"encoding.kind": "rotary"},
    "relative": {"encoding.kind": "relative"},
    "relative bias": {"encoding.kind": "relative_bias"},
    "irpe": {"encoding.kind": "irpe"},
    "alibi": {"encoding.kind": "alibi"},
    "peg": {"encoding.kind": "peg", "encoding.places": [0]},
}
"""Every kind of encoding that we have, as its paper has it."""

TODAY: dict[str, dict[str, Any]] = {
    "factorized": {"encoding.kind": "factorized"},
    "dinov3 rotary": {
        "encoding.kind": "rotary",
        "encoding.normalize_coords": "separate",
        "encoding.rescale_coords": 2.0,
    },
    "log cpb": {"encoding.kind": "log_cpb"},
    "look here": {"encoding.kind": "look_here"},
    "fire": {"encoding.kind": "fire"},
    "lepe": {"encoding.kind": "lepe"},
}
"""Encodings that are younger than the five papers."""

RATES = (0.0003, 0.0006, 0.0012, 0.0024)
"""The highest learning rates of AdamW that each encoding is tuned by."""

study = Study(
    name="encodings",
    question="Which position encoding for these images?",
    family="encodings",
    paper="ours",
    minutes={"smoke": 2, "quick": 20, "cpu": 60, "8h": 480},
    gpu_hours={"gpu": 1.9},
    not_run=("smoke", "quick", "cpu", "8h", "gpu"),
    expected="rotary and relative encodings pass sines and tables when trained on, and every encoding is above none; "
    "no number published",
    base=Recipe(
        data=Digits(),
        model=ViT(depth=4, pool="gap"),
        optimizer=AdamW(lr=0.001, schedule="wsd"),
    ).put({"encoding.kind": "learnable"}),
    plan=Ablation(
        ENCODINGS | TODAY,
        "learnable",
        tune=Tuning(Space({"optimizer.lr": Choice(RATES)}), trials=len(RATES), sampler="grid", length="shortest"),
        race=True,
    ),
    usual=("learnable", "sinusoidal", "rotary", "relative bias", "peg", "none"),
    seeds=5,
    budgets={
        "smoke": Budget(
            {"model.depth": 2},
            trials=2,
            seeds=3,
            gap=ARMS_GAP,
            fit=Fit(images=1_000, lengths=(1, 2, 4), side=16, most=200),
        ),
        "quick": Budget({"model.depth": 3}, fit=Fit(images=4_000, side=32, most=1_000)),
        "cpu": Budget(fit=Fit(images=12_000, side=64)),
        "8h": Budget(seeds=8, fit=Fit(images=60_000, side=64)),
        "gpu": Budget(
            {"model.embed_dim": 192, "model.num_heads": 3, "model.depth": 12, "optimizer.precision": "bfloat16"},
            fit=Fit(images=125_000, side=224, grid=14, most=10_000),
        ),
    },
    gaps=(
        "small models, trained from scratch on these images alone: which encoding is best in a large pretrained model "
        "may differ",
        "each arm is tuned in its rate alone, by the same values, at the shortest length; a rate is chosen by one "
        "validation run",
    ),
)
