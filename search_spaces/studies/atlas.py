"""Which position encoding is best, and does training longer change the answer?

Source: ours; none of the five papers asks it. Six encodings and none at all are measured at four lengths of training.
A budget says on which images: `cpu` asks for the direction between two squares, `place` in which half they lie,
`digits` has digits of 8 x 8 pixels, `images` photographs of CIFAR-10. All are also tested on a larger grid, as CPVT
does. No number published. Cost: smoke 2 min, cpu 47 min, place 50 min (an estimate), digits 49 min, images 1.6 h (an
estimate) on 2 cores.
Expected: every encoding is better than `none`. With more training a table comes near to sines, and rotary passes them.
On a larger grid a table that is resampled keeps its score, a PEG loses some, and sines lose most, as in `resolution`.
"""

from typing import Any

from search_spaces.claim import Better
from search_spaces.plans.tuning import Tuning
from search_spaces.space import Choice, Space
from search_spaces.studies._images import PART
from search_spaces.studies._smoke import ARMS_GAP, SMALL
from search_spaces.studies.encodings import ENCODINGS
from search_spaces.study import Ablation, Budget, Score, Study
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.recipe import AdamW, Recipe

NAMES = ("none", "learnable", "sinusoidal", "fourier", "rotary", "irpe", "peg")
"""The arms of the study `encodings` that are compared."""


def _measured_at(*lengths: int) -> dict[str, Any]:
    return {"optimizer.lengths": list(lengths[:-1]), "optimizer.epochs": lengths[-1]}


study = Study(
    name="atlas",
    question="Which position encoding is best, and does training longer change the answer?",
    family="atlas",
    paper="ours",
    minutes={"smoke": 2, "cpu": 47, "place": 50, "digits": 49, "images": 98},
    not_run=("place", "images"),
    expected="every encoding is better than `none`; with more training a table comes near to sines, and rotary passes "
    "them; on a larger grid a table keeps its score, a PEG and sines lose some; no number published",
    base=Recipe(
        data=RedGreen(task="direction", train_size=2000, val_size=500, test_size=2000, skill=True),
        model=ViT(depth=2, pool="gap"),
        optimizer=AdamW(lr=0.001, schedule="wsd", epochs=40, lengths=(5, 10, 20), batch_size=50),
        test_sizes=(48,),
    ).put({"encoding.kind": "learnable"}),
    plan=Ablation(
        {name: ENCODINGS[name] for name in NAMES},
        "learnable",
        tune=Tuning(
            Space({"optimizer.lr": Choice((0.0005, 0.001, 0.002, 0.004))}), trials=4, sampler="grid", length="shortest"
        ),
    ),
    score=Score("val/skill"),
    keep=(),
    budgets={
        "smoke": Budget({**SMALL, **_measured_at(1, 2)}, trials=2, seeds=2, gap=ARMS_GAP),
        "cpu": Budget(),
        "place": Budget({"data.task": "absolute"}),
        "digits": Budget(
            {
                "data.kind": "digits",
                "data.skill": True,
                "model.patch_size": 1,
                "test_sizes": [12],
                **_measured_at(12, 24, 48, 96),
            }
        ),
        "images": Budget(
            {
                **PART,
                "data.skill": True,
                "model.patch_size": 4,
                "optimizer.batch_size": 100,
                "augment.kind": "standard",
                **_measured_at(5, 10, 20, 40),
            }
        ),
    },
    claims=(
        Better("learnable", "none", 0.0, "ours: a table does better than no position"),
        Better("rotary", "sinusoidal", 0.0, "ours: trained long, rotary does better than sines"),
    ),
    gaps=(
        "two small blocks of 64 channels whose patches are averaged: with one block and a class token, encodings "
        "inside attention could not show absolute places",
        "each arm is tuned in its rate alone, by the same four values, at the shortest length; all else is as the "
        "papers have it. A rate is chosen by one validation run; of equal scores the rate that was tried first counts, "
        "also where all are at chance",
        "learned tables start with a deviation of 0.02, as in DeiT, beside sines of amplitude 1",
        "photographs are 5,000 of CIFAR-10, flipped and shifted",
    ),
)
