"""Does a teacher help a ViT, and does it help conditional positions as much as absolute ones?

Source: CPVT 4.5 (hard distillation, section 4 of DeiT). Cost: smoke 1 min, cpu 4 min, images 25 min (an estimate) on 2
cores; paper 21 GPU-hours.
Expected: little help: on so few images the teacher repeats the labels, or is wrong. On ImageNet the paper has 72.2 ->
74.5 for DeiT-tiny and 73.4 -> 75.9 for CPVT-Ti.
"""

from typing import Any

from search_spaces.claim import Better
from search_spaces.studies._cpvt import SEVERAL_GAP, TINY, TRAINING_GAPS
from search_spaces.studies._imagenet import STAND_IN_GAP
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.backbones import ViT
from trainables.backbones.vit import DEIT_BASE
from trainables.data import Digits
from trainables.encodings import Learnable
from trainables.recipe import AdamW, Recipe, TaughtByTrial

TEACHER = {"model.depth": 6, "model.pool": "gap", "encoding.kind": "peg"}
"""One for both students: deeper, with conditional positions, read out at its patches."""

TAUGHT = {"model.pool": "distilled", "teacher": TaughtByTrial(values=TEACHER).plain()}

FIVE: dict[str, Any] = {"encoding": {"kind": "peg", "places": [0, 1, 2, 3, 4]}}
"""CPVT-Ti has a PEG after each of its first five blocks."""
LARGE_TEACHER = {"model": {**DEIT_BASE.plain(), "pool": "gap"}, **FIVE}
TAUGHT_BY_LARGE = {"model.pool": "distilled", "teacher": TaughtByTrial(values=LARGE_TEACHER).plain()}

study = Study(
    name="distillation",
    question="Does a teacher help a ViT, and does it help conditional positions as much as absolute ones?",
    family="cpvt",
    paper="Chu et al. 2021, Conditional Positional Encodings for Vision Transformers (arXiv:2102.10882), 4.5",
    minutes={"smoke": 1, "cpu": 4, "images": 25},
    not_run=("images",),
    gpu_hours={"paper": 21},
    expected="little help: on so few images the teacher repeats the labels, or is wrong",
    found={
        "cpu": "3 seeds, test images: table 0.9000, taught 0.8778; PEG 0.9622, taught 0.9467. All three claims are "
        "inconclusive (96.7 % intervals): a teacher helps the table (-0.0222; -0.0891 to 0.0446; about 11 seeds would "
        "decide it) and the PEG (-0.0156; -0.0954 to 0.0643; 27), and the taught PEG is above the taught table "
        "(+0.0689; -0.0636 to 0.2014; 6).",
    },
    base=Recipe(
        data=Digits(),
        model=ViT(patch_size=2, depth=2),
        encoding=Learnable(),
        optimizer=AdamW(lr=0.005, batch_size=32),
    ),
    plan=Ablation(
        arms={
            "learnable": {},
            "learnable, taught": TAUGHT,
            "peg": {"encoding.kind": "peg"},
            "peg, taught": {"encoding.kind": "peg", **TAUGHT},
        },
        baseline="learnable",
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(values={"optimizer.epochs": 3}, seeds=2, gap=ARMS_GAP),
        "cpu": Budget(values={"optimizer.epochs": 15}),
        "images": Budget({**IMAGES, "model.depth": 3, "model.patch_size": 4, "augment.kind": "standard"}, seeds=3),
        "paper": Budget(
            TINY,
            arms={"learnable, taught": TAUGHT_BY_LARGE, "peg": FIVE, "peg, taught": {**FIVE, **TAUGHT_BY_LARGE}},
            seeds=1,
            gap=f"the teacher is a ViT-B with five PEGs, as we have no RegNetY; {STAND_IN_GAP}",
        ),
    },
    published=(
        Published("learnable", 0.722, None, "table 4, DeiT-tiny on ImageNet"),
        Published("learnable, taught", 0.745, None, "table 4, DeiT-tiny on ImageNet, taught by RegNetY-160"),
        Published("peg", 0.734, None, "table 4, CPVT-Ti on ImageNet"),
        Published("peg, taught", 0.759, None, "table 4, CPVT-Ti on ImageNet, taught by RegNetY-160"),
    ),
    claims=(
        Better("learnable, taught", "learnable", 0.0, "table 4: 74.5 against 72.2"),
        Better("peg, taught", "peg", 0.0, "table 4: 75.9 against 73.4"),
        Better("peg, taught", "learnable, taught", 0.0, "4.5: 75.9 against 74.5"),
    ),
    gaps=(
        "the paper distils DeiT-tiny and CPVT-Ti from a RegNetY-160 on ImageNet; digits, at images 5,000 images of "
        "CIFAR-10, sizes and teacher are ours",
        "its CPVT-Ti has five PEGs, after blocks 0 to 4 (so at paper); ours has one, before the first block of two, "
        "at images of three",
        SEVERAL_GAP,
        "no augmentation at smoke and cpu, so the teacher labels each image once there; theirs labels every augmented "
        "image, and so does ours at images and paper",
        *TRAINING_GAPS,
    ),
)
