"""Do models with a concatenated table transfer as well as models with an added one?

Source: the concat paper 4.2, tables 2 and 3. Cost: smoke 1 min, cpu 10 min on 2 cores; paper 76 GPU-hours,
paper-cifar100 76 GPU-hours, paper-flowers102 49 GPU-hours, paper-pets 50 GPU-hours.
Expected: alike, as in the paper (differences of -0.2 to 0.3 points on five sets), and both better than the same ViT
from scratch. Here a parent learns from 2,000 images which of four ways one square lies from the other; its child learns
left from right from 200, which are too few without a parent.
"""

from typing import Any

from search_spaces.claim import Better, Equivalent
from search_spaces.studies._concat import (
    BACKBONES,
    IMAGENET,
    PAPER,
    PYRAMID_GAP,
    SMALL_GAP,
    SMALL_SIZES,
    TABLE,
    TRAINING,
)
from search_spaces.studies._imagenet import CROP_GAP, STAND_IN_GAP
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.data import RedGreen
from trainables.encodings import Learnable
from trainables.recipe import AdamW, FromTrial, Recipe

FEW = 200
"""How many images a child learns from."""
DIRECTION: dict[str, Any] = {"kind": "red_green", "task": "direction4", "image_size": 16}


def parent(data: dict[str, Any], **values: Any) -> dict[str, Any]:
    """Returns `init`: all weights of the same model after training on other data. A head with other outputs is new."""
    return FromTrial(values={"data": data, **values}, part="all").plain()


def finetuned(kind: str) -> Budget:
    """Returns a set of table 2, in images of 224 pixels, after a parent on ImageNet.

    Other sets than CIFAR-10 stand in gaps.
    """
    beside = (
        "" if kind == "cifar10" else f"the published numbers beside the scores are those of CIFAR-10, not of {kind}; "
    )
    values = {
        **TRAINING,
        **SMALL_SIZES["vit"],
        "data": {"kind": kind, "image_size": 224},
        "optimizer.batch_size": 128,
        "init": parent(IMAGENET, **{"optimizer.batch_size": 1024}),
    }
    return Budget(values, arms=SMALL_SIZES, seeds=1, gap=f"{beside}the parent's images: {STAND_IN_GAP}")


study = Study(
    name="concat-transfer",
    question="Do models with a concatenated table transfer as well as models with an added one?",
    family="concat",
    paper=f"{PAPER}, 4.2, tables 2 and 3",
    minutes={"smoke": 1, "cpu": 10},
    gpu_hours={"paper": 76, "paper-cifar100": 76, "paper-flowers102": 49, "paper-pets": 50},
    expected="alike after fine-tuning, and better than from scratch",
    found={
        "cpu": "5 seeds, test images, added and concatenated: ViT 0.9608 and 0.9744, CaiT 0.9618 and 0.9698, ConViT "
        "0.9720 and 0.9658, VOLO 0.9848 and 0.9864, TNT 0.9710 and 0.9732; ViT from scratch 0.7944 and 0.6770. "
        "Supported: both are equal within 0.03 in ConViT (-0.0062, 98 % interval -0.0240 to 0.0116), VOLO (+0.0016; "
        "97.5 %, -0.0208 to 0.0240) and TNT (+0.0022; 98.3 %, -0.0141 to 0.0185), and the parent helps (+0.2974; 96.7 "
        "%, 0.0537 to 0.5411). Inconclusive at 99.2 %: ViT (+0.0136; -0.0247 to 0.0519; about 12 seeds would decide "
        "it), CaiT (+0.0080; -0.0382 to 0.0542; 10).",
    },
    base=Recipe(
        data=RedGreen(task="direction", image_size=16, train_size=FEW, val_size=200),
        encoding=Learnable(std=0.5),
        optimizer=AdamW(epochs=10, lr=0.002, batch_size=50),
        init=FromTrial(values={"data": {**DIRECTION, "train_size": 2000}}, part="all"),
    ),
    plan=Ablation(
        axes={
            "start": {"fine-tuned": {}, "from scratch": {"init.kind": "fresh"}},
            "backbone": BACKBONES,
            "table": TABLE,
        },
        without=tuple({"start": "from scratch", "backbone": name} for name in BACKBONES if name != "vit"),
        baseline="added",
    ),
    score=Score("val/accuracy"),
    seeds=10,
    budgets={
        "smoke": Budget(
            {
                "data.train_size": 100,
                "data.val_size": 100,
                "data.test_size": 100,
                "optimizer.epochs": 2,
                "init": parent({**DIRECTION, "train_size": 300, "val_size": 100, "test_size": 100}),
            },
            seeds=2,
            gap=ARMS_GAP,
        ),
        "cpu": Budget(),
        "paper": finetuned("cifar10"),
        "paper-cifar100": finetuned("cifar100"),
        "paper-flowers102": finetuned("flowers102"),
        "paper-pets": finetuned("oxford_pets"),
    },
    published=(
        Published("fine-tuned, vit, added", 0.986, None, "table 3, DeiT-S on CIFAR-10"),
        Published("fine-tuned, vit, concatenated", 0.986, None, "table 3, DeiT-S on CIFAR-10"),
        Published("fine-tuned, cait, added", 0.988, None, "table 3, CaiT-XXS36 on CIFAR-10"),
        Published("fine-tuned, cait, concatenated", 0.989, None, "table 3, CaiT-XXS36 on CIFAR-10"),
        Published("fine-tuned, convit, added", 0.985, None, "table 3, ConViT-S on CIFAR-10"),
        Published("fine-tuned, convit, concatenated", 0.986, None, "table 3, ConViT-S on CIFAR-10"),
        Published("fine-tuned, volo, added", 0.989, None, "table 3, VOLO-D1 on CIFAR-10"),
        Published("fine-tuned, volo, concatenated", 0.989, None, "table 3, VOLO-D1 on CIFAR-10"),
        Published("fine-tuned, tnt, added", 0.986, None, "table 3, TNT-S on CIFAR-10"),
        Published("fine-tuned, tnt, concatenated", 0.986, None, "table 3, TNT-S on CIFAR-10"),
    ),
    claims=(
        *(
            Equivalent(
                f"fine-tuned, {name}, concatenated",
                f"fine-tuned, {name}, added",
                0.03,
                "4.2: table 3, “the transferability … is similar”",
            )
            for name in BACKBONES
        ),
        Better(
            "fine-tuned, vit, concatenated",
            "from scratch, vit, concatenated",
            0.0,
            "ours: if the parent taught nothing, the other claims do not show transfer",
        ),
    ),
    gaps=(
        "ImageNet, then five sets of photographs there; two red-green tasks in backbones of two blocks here: only the "
        "differences of two arms of one backbone can be compared",
        "no budget `images` on 5,000 images of CIFAR-10: a parent on other photographs would need CIFAR-100",
        CROP_GAP,
        SMALL_GAP,
        "the other sets of table 3 (added, concatenated) on CIFAR-100, Flowers-102, Cars, Pets: DeiT-S 87.5, 87.8; "
        "99.2, 99.1; 92.0, 92.1; 95.5, 95.7. CaiT-XXS36 88.8, 89.0; 99.1, 99.3; 92.3, 92.5; 95.8, 96.0. ConViT-S "
        "89.1, 89.3; 99.2, 99.3; 92.2, 92.5; 95.8, 96.1. VOLO-D1 89.8, 89.9; 99.4, 99.4; 93.4, 93.5; 96.7, 96.7. "
        "TNT-S 88.6, 88.6; 99.2, 99.1; 92.8, 92.6; 95.9, 95.8",
        "PVT-S, which has no arm: CIFAR-10 98.3, 98.4; 81.7, 82.0; 99.1, 98.9; 91.5, 91.8; 95.8, 96.0",
        "Stanford Cars has no kind of its own here: --set data.kind=folder --set data.path=FOLDER trains on it",
        "4.2 says “from scratch”; table 3 says with ImageNet-1k pre-training; 98.6 % on CIFAR-10 needs it",
        "table 2 has 3,698 and 3,695 images of Pets; the official split has 3,680 and 3,669",
        "the paper gives neither rate nor batch of its fine-tuning: here 128 images a step, and the rate of 4.1 in "
        "proportion to the batch, 1.25e-4; 300 epochs are its own",
        "the paper budgets hold out images for validation: they train on 45,000 of CIFAR's 50,000, 1,020 of Flowers' "
        "2,040 (its own split) and 3,312 of Pets' 3,680",
        PYRAMID_GAP,
    ),
)
