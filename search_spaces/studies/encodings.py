"""Which position encoding for these images?

    locus run encodings --data ./pets

Source: ours. Any images: a folder with <class>/ or train/<class>/, or a known set; by default digits. Size, patch,
epochs and batch follow from the images and the budget (`search_spaces/fit.py`). Every encoding of the catalog is tuned
in its rate by the same three values, at smoke and quick by two of them, the same two for all; then arms race: one that
is clearly below the best gets no further seed. No number published. Cost: smoke 3 min (an estimate), quick 20 min (an
estimate), cpu 60 min (an estimate) on 2 cores; gpu 1.9 GPU-hours. (Those are for digits; 3,000 photographs take twice
as long on a GPU.)
Expected: rotary and relative encodings above a learned table, and every encoding above none.
"""

from typing import Any

from search_spaces.plans.tuning import Tuning
from search_spaces.space import Choice, Space
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.studies.atlas import ENCODINGS
from search_spaces.study import Ablation, Budget, Fit, Study
from trainables.backbones import ViT
from trainables.data import Digits
from trainables.recipe import AdamW, Recipe

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

study = Study(
    name="encodings",
    question="Which position encoding for these images?",
    family="encodings",
    paper="ours",
    minutes={"smoke": 3, "quick": 20, "cpu": 60},
    gpu_hours={"gpu": 1.9},
    not_run=("smoke", "quick", "cpu", "gpu"),
    expected="rotary and relative encodings above a learned table, and every encoding above none; no number published",
    base=Recipe(
        data=Digits(),
        model=ViT(depth=4, pool="gap"),
        optimizer=AdamW(lr=0.001),
    ).put({"encoding.kind": "learnable"}),
    plan=Ablation(
        ENCODINGS | TODAY,
        "learnable",
        tune=Tuning(Space({"optimizer.lr": Choice((0.0005, 0.0015, 0.004))}), trials=3, sampler="grid"),
        race=True,
    ),
    seeds=10,
    budgets={  # with trials=2, two of the three rates are tried
        "smoke": Budget({"model.depth": 2}, trials=2, seeds=3, gap=ARMS_GAP, fit=Fit(images=2_000, side=16, most=200)),
        "quick": Budget({"model.depth": 3}, trials=2, seeds=5, fit=Fit(images=8_000, side=32, most=1_000)),
        "cpu": Budget(fit=Fit(images=9_000, side=64)),  # 234 runs of 25 s, two at a time, if no arm is raced out
        "gpu": Budget(
            {"model.embed_dim": 192, "model.num_heads": 3, "model.depth": 12, "optimizer.precision": "bfloat16"},
            fit=Fit(images=1_000_000, side=224, grid=14, most=10_000),
        ),
    },
    gaps=(
        "small models, trained from scratch on these images alone: which encoding is best in a large pretrained model "
        "may differ",
        "each arm is tuned in its rate alone, by the same values; a rate is chosen by one validation run",
    ),
)
