"""Does a teacher help a ViT, and does it help conditional positions as much as absolute ones?

Source: CPVT 4.5 (hard distillation as DeiT 3 has it). Cost: smoke 1 min, cpu 3 min on 2 cores.
Expected: little: on so small a set the teacher repeats the labels, or is wrong. On ImageNet the paper has
72.2 -> 74.5 for DeiT-tiny and 73.4 -> 75.9 for CPVT-Ti.
"""

from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.backbones import ViT
from trainables.data import Digits
from trainables.encodings import Learnable
from trainables.recipe import AdamW, Recipe, TaughtByTrial

TEACHER = {"model.depth": 6, "model.pool": "gap", "encoding.kind": "peg"}
"""One for both students: three times as deep, conditional positions, read out at its patches."""

TAUGHT = {"model.pool": "distilled", "teacher": TaughtByTrial(values=TEACHER).plain()}

study = Study(
    name="distillation",
    question="Does a teacher help a ViT, and does it help conditional positions as much as absolute ones?",
    family="cpvt",
    paper="Chu et al. 2021, Conditional Positional Encodings for Vision Transformers (arXiv:2102.10882), 4.5",
    minutes={"smoke": 1, "cpu": 3},
    expected="little: on so small a set the teacher repeats the labels, or is wrong",
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
    budgets={"smoke": Budget(values={"optimizer.epochs": 3}, seeds=2), "cpu": Budget(values={"optimizer.epochs": 15})},
    published=(
        Published("learnable", 0.722, None, "table 4, DeiT-tiny on ImageNet"),
        Published("learnable, taught", 0.745, None, "table 4, DeiT-tiny on ImageNet, taught by RegNetY-160"),
        Published("peg", 0.734, None, "table 4, CPVT-Ti on ImageNet"),
        Published("peg, taught", 0.759, None, "table 4, CPVT-Ti on ImageNet, taught by RegNetY-160"),
    ),
    gaps=(
        "the paper distils DeiT-tiny and CPVT-Ti from a RegNetY-160 on ImageNet; digits, sizes and teacher are ours",
        "its CPVT-Ti has five PEGs, after blocks 0 to 4; ours has one, before the first of two blocks",
        "no augmentation, so the teacher labels each image once; theirs labels every augmented image",
    ),
)
