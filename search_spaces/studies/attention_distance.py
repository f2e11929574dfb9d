"""Do the last blocks attend less far with a concatenated table?

Source: the concat paper 4.1, figure 2; no distance published. Cost: smoke 1 min, cpu 17 min, images 50 min (an
estimate) on 2 cores; paper 26 GPU-hours.
Expected: not clear. The paper sees less distance in the last blocks, most of all in DeiT-S after 300 epochs of
ImageNet; short training of four blocks may show nothing, and in ConViT only the last blocks have no locality built in.
"""

from typing import Any

from search_spaces.claim import ProbeRising
from search_spaces.studies._concat import DEEP, PAPER, SMALL_GAP, SMALL_SIZES, TABLE, WHOLE
from search_spaces.studies._imagenet import CROP_GAP, STAND_IN_GAP
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP, SMALL
from search_spaces.study import Ablation, Budget, Published, Score, Study

BACKBONES: dict[str, dict[str, Any]] = {
    "vit": {},
    "cait": {"model.kind": "cait", "model.depth": 4},
    "convit": {"model.kind": "convit", "model.depth": 4, "model.local_up_to_layer": 2},
}
"""The backbones whose attention the probe can see, four blocks deep."""

study = Study(
    name="attention-distance",
    question="Do the last blocks attend less far with a concatenated table?",
    family="concat",
    paper=f"{PAPER}, 4.1 and figure 2",
    minutes={"smoke": 1, "cpu": 17, "images": 50},
    not_run=("images",),
    gpu_hours={"paper": 26},
    expected="not clear: the paper sees less distance after 300 epochs of ImageNet; no distance published",
    found={
        "cpu": "5 seeds: ViT and ConViT score 1.0000; CaiT has seeds that never begin to learn (1 of 5 added, 2 of 5 "
        "concatenated). Mean distance of the last blocks, added minus concatenated, in patches (96.7 % intervals), "
        "all inconclusive: ViT -0.0121 (-0.0785 to 0.0542; about 132 seeds would decide it), CaiT -0.1528 (-0.7293 to "
        "0.4237; 65), ConViT +0.0468 (-0.1164 to 0.2100; 56).",
    },
    base=DEEP,
    plan=Ablation(axes={"backbone": BACKBONES, "table": TABLE}, baseline="added"),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(SMALL, seeds=2, gap=ARMS_GAP),
        "cpu": Budget(),
        "images": Budget({**IMAGES, "optimizer.epochs": 15}, seeds=3),
        "paper": Budget(WHOLE, arms={name: SMALL_SIZES[name] for name in BACKBONES}, seeds=1, gap=STAND_IN_GAP),
    },
    probes=("attention_distance",),
    published=(
        Published("vit, added", 0.798, None, "table 1, DeiT-S on ImageNet"),
        Published("vit, concatenated", 0.800, None, "table 1, DeiT-S on ImageNet"),
        Published("cait, added", 0.791, None, "table 1, CaiT-XXS36 on ImageNet"),
        Published("cait, concatenated", 0.793, None, "table 1, CaiT-XXS36 on ImageNet"),
        Published("convit, added", 0.813, None, "table 1, ConViT-S on ImageNet"),
        Published("convit, concatenated", 0.816, None, "table 1, ConViT-S on ImageNet"),
    ),
    claims=tuple(
        ProbeRising(
            (f"{name}, concatenated", f"{name}, added"),
            "attention_distance",
            "last",
            when="after",
            source="4.1: figure 2, “the concatenation method can reduce the attention distance in the last few layers”",
        )
        for name in BACKBONES
    ),
    gaps=(
        "12 blocks on ImageNet there in DeiT-S; 4 blocks on red-green images, or on 5,000 images of CIFAR-10, here",
        "the last few layers are the last third of the blocks here: one of four, the last 4 of DeiT's 12",
        "the class token is dropped and rows are renormalized, which the paper does not say; distances are in patches",
        "the probe sees vit, cait (before its heads are mixed) and convit; of figure 2's models the paper's text "
        "names only DeiT-S",
        "over the first 32 validation images; the paper does not say over which",
        CROP_GAP,
        SMALL_GAP,
    ),
)
