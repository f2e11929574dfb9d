"""Does a position encoding help a small ViT on photographs?

Source: ViT appendix D.4 asks it of ImageNet. Cost: smoke 2 min, cpu 40 min on 2 cores.
Expected: a learned table beats none; fixed sinusoids, which the appendix does not try, are close to it.
"""

from search_spaces.claim import Better
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.backbones import ViT
from trainables.data import Cifar10
from trainables.recipe import AdamW, Recipe

study = Study(
    name="cifar-baselines",
    question="Does a position encoding help a small ViT on photographs?",
    family="vit",
    paper="Dosovitskiy et al. 2021, An Image is Worth 16x16 Words (arXiv:2010.11929), appendix D.4",
    minutes={"smoke": 2, "cpu": 40},
    expected="a learned table beats none; fixed sinusoids are close to it",
    base=Recipe(
        data=Cifar10(train_size=10_000, val_size=2_000),
        model=ViT(depth=4),
        optimizer=AdamW(epochs=20, lr=0.002, batch_size=100),
    ),
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "learnable": {"encoding.kind": "learnable"},
            "sinusoidal": {"encoding.kind": "sinusoidal"},
        },
        baseline="none",
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(
            values={"data.train_size": 1_000, "data.val_size": 500, "data.test_size": 500, "optimizer.epochs": 3},
            seeds=2,
            gap=ARMS_GAP,
        ),
        "cpu": Budget(seeds=4),
    },
    published=(
        Published("none", 0.61382, None, "table 8, ImageNet 5-shot"),
        Published("learnable", 0.64206, None, "table 8, ImageNet 5-shot, 1-D"),
    ),
    claims=(
        Better("learnable", "none", source="appendix D.4, table 8"),
        Better("sinusoidal", "none"),
    ),
    gaps=(
        "a ViT-B of 12 blocks that is read by 5-shot regression on ImageNet there, 10,000 images of CIFAR-10 and 4 "
        "blocks here: only the order can be compared",
        "no number published for fixed sinusoids; the table's other rows (2-D 0.64001, relative 0.64032) are left out",
        "no augmentation",
    ),
)
