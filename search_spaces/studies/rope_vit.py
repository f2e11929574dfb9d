"""Do rotary positions keep a ViT's accuracy on images of other sizes, where a table loses it?

Source: Heo et al. 2024, Rotary position embedding for vision transformer (the README of its repository has the
numbers). Cost: smoke 2 min (an estimate), cpu 45 min (an estimate) on 2 cores; paper 27 GPU-hours, paper-base 74
GPU-hours.
Expected: on images of the training's size rotary positions are above the table by little. On larger ones the paper has
them above it by much, mixed frequencies most of all; cpu need not: one seed of mixed scored 0.40 on 32 pixels and 0.29
on 56.
"""

from typing import Any

from search_spaces.claim import Better, KeepsMore
from search_spaces.presets import DEIT3
from search_spaces.studies._composed import both
from search_spaces.studies._imagenet import STAND_IN_GAP
from search_spaces.studies._images import PART
from search_spaces.studies._smoke import ARMS_GAP, SMALL
from search_spaces.study import Ablation, Budget, Published, Score, Study
from trainables.backbones import ViT
from trainables.backbones.vit import DEIT_BASE, DEIT_SMALL
from trainables.recipe import LAMB, BinaryCrossEntropy, Recipe

README = "README of the paper's repository"
TABLE: dict[str, Any] = {"kind": "learnable"}
AXIAL: dict[str, Any] = {"kind": "rotary", "form": "axial"}
MIXED: dict[str, Any] = {"kind": "rotary", "form": "mixed"}
CROPPED: dict[str, Any] = {"kind": "three_augment", "scale": 0.25, "mixup": 0.0, "cutmix": 0.0, "repeats": 1}
"""3-Augment without mixing: a model that has never seen objects of other sizes cannot keep its score at other sizes."""
LARGER = 56
"""A grid of 14 patches a side for 8, as 384 pixels are for 224. Units: pixels."""
SIDES = [20, 24, 28, 36, 44, 52, LARGER, 72]
"""Grids of 5 to 18 patches a side for 8, as the paper's of 144 to 512 pixels are for 224."""


def large(model: ViT, side: int, **values: Any) -> dict[str, Any]:
    """Returns the paper's training of a ViT of a size, on images of a side."""
    return {
        "data": {"kind": "tiny_imagenet", "image_size": side},
        **{f"model.{name}": getattr(model, name) for name in ("embed_dim", "depth", "num_heads", "patch_size")},
        **DEIT3,
        "optimizer.epochs": 400,
        "optimizer.warmup": 5 / 400,
        "optimizer.weight_decay": 0.03,
        "test_sizes": [size for size in (144, 192, 224, 256, 320, 384, 448, 512) if size != side],
        **values,
    }


study = Study(
    name="rope-vit",
    question="Do rotary positions keep a ViT's accuracy on images of other sizes, where a table loses it?",
    family="rope",
    paper="Heo et al. 2024, Rotary position embedding for vision transformer (arXiv:2403.13298)",
    minutes={"smoke": 2, "cpu": 45},
    not_run=("smoke", "cpu"),
    gpu_hours={"paper": 27, "paper-base": 74},
    expected="rotary positions are above the table by little at the training's size; the paper's order on larger "
    "images may not come out at cpu, where one seed of mixed scored 0.40 on 32 pixels and 0.29 on 56",
    base=Recipe(
        model=ViT(depth=4, layer_scale=1e-4),
        optimizer=LAMB(lr=0.01, weight_decay=0.03, epochs=20, batch_size=100, schedule="cosine", warmup=0.1),
        loss=BinaryCrossEntropy(target_threshold=0.0),
    ).put({**PART, "augment": CROPPED, "test_sizes": SIDES}),
    plan=Ablation(
        arms={
            "APE": {"encoding": TABLE},
            "axial": {"encoding": AXIAL},
            "mixed": {"encoding": MIXED},
            "axial and APE": both(TABLE, AXIAL),
            "mixed and APE": both(TABLE, MIXED),
        },
        baseline="APE",
    ),
    score=Score("val/accuracy"),
    seeds=3,
    budgets={
        "smoke": Budget(SMALL, seeds=2, gap=ARMS_GAP),
        "cpu": Budget(),
        "paper": Budget(large(DEIT_SMALL, 224, **{"model.drop_path": 0.0}), seeds=1, gap=STAND_IN_GAP),
        "paper-base": Budget(
            large(DEIT_BASE, 192, **{"model.drop_path": 0.1, "optimizer.lr": 3e-3}), seeds=1, gap=STAND_IN_GAP
        ),
    },
    published=(
        Published("APE", 0.804, None, f"{README}, ViT-S at 224 (384: 0.794; ViT-B: 0.834, 0.828)"),
        Published("axial", 0.809, None, f"{README}, ViT-S at 224 (384: 0.800; ViT-B: 0.836, 0.839)"),
        Published("mixed", 0.809, None, f"{README}, ViT-S at 224 (384: 0.818; ViT-B: 0.838, 0.844)"),
        Published("axial and APE", 0.807, None, f"{README}, ViT-S at 224 (384: 0.812; ViT-B: 0.837, 0.838)"),
        Published("mixed and APE", 0.809, None, f"{README}, ViT-S at 224 (384: 0.817; ViT-B: 0.838, 0.843)"),
    ),
    claims=(
        Better("axial", "APE", 0.0, "README: 80.9 against 80.4, ViT-S at 224"),
        Better("mixed", "APE", 0.0, "README: 80.9 against 80.4, ViT-S at 224"),
        Better("axial", "APE", 0.0, "README: 80.0 against 79.4, ViT-S at 384", image_size=LARGER),
        Better("mixed", "APE", 0.0, "README: 81.8 against 79.4, ViT-S at 384", image_size=LARGER),
        Better("mixed", "axial", 0.0, "README: 81.8 against 80.0, ViT-S at 384", image_size=LARGER),
        Better("axial and APE", "axial", 0.0, "README: 81.2 against 80.0, ViT-S at 384", image_size=LARGER),
        KeepsMore("mixed", "APE", LARGER, 0.0, "README: 81.8 of 80.9 against 79.4 of 80.4, ViT-S at 384"),
    ),
    gaps=(
        "ViT-S and ViT-B on ImageNet there; 4 blocks of 64 channels on 5,000 images of CIFAR-10 at cpu: only the order "
        "can be compared",
        "cpu has the paper's optimizer, loss, layer scale and 3-Augment, whose crops hold a quarter of the image or "
        "more, 8 % there; mixing and repeated images need more than 20 epochs of so few images",
        "paper and paper-base are trained as the repository's commands have it, in batches of 2,048; Tiny-ImageNet has "
        "44 steps an epoch, ImageNet 626",
        "paper-base ends after the training at 192 pixels; the paper then fine-tunes ViT-B at 224 for 20 epochs, and a "
        "run here starts from a parent's weights of its own size alone",
        "the README has numbers of 224 and 384 pixels alone",
        "the table of DeiT III has no row for the class token, ours has one",
        "left out: ViT-L (84.6, 84.7 and 84.8 at 224; 84.2, 85.1 and 85.6 at 384), Swin, detection, segmentation",
    ),
)
