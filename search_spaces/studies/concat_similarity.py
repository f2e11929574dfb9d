"""Does a concatenated table learn the same neighborhoods as an added one?

Source: the concat paper 5.1, figures 6 and 10 (similarity of both methods' tables: DeiT-S 0.93, CaiT-XXS36 0.96). Cost:
smoke 1 min, cpu 7 min, images 25 min (an estimate) on 2 cores; paper 19 GPU-hours.
Expected: the maps of both tables correlate, perhaps less than in the paper, whose tables have 300 epochs to grow;
before training they do not. Fixed sines resemble far positions more.
"""

from typing import Any

from search_spaces.claim import ProbeAlike, ProbeRising
from search_spaces.studies._concat import DEEP, PAPER, PYRAMID_GAP, SMALL_SIZES, TABLE, WHOLE
from search_spaces.studies._imagenet import CROP_GAP, STAND_IN_GAP
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP, SMALL
from search_spaces.study import Ablation, Budget, Published, Score, Study

BACKBONES: dict[str, dict[str, Any]] = {"vit": {}, "cait": {"model.kind": "cait"}}
CODES = {**TABLE, "sines": {"encoding": {"kind": "sinusoidal"}}}
MAPS, FAR = ("similarity", "maps"), ("similarity", "others")
NARROWER = "5.1: figure 6, with concatenation “the color area resembling the highlighted spot … is smaller”"
SINES = "5.1: figure 6, sines fail “to present a distinct difference” between positions"
DRAWN = "ours: tables drawn at random are not alike, so what is alike was learned"

study = Study(
    name="concat-similarity",
    question="Does a concatenated table learn the same neighborhoods as an added one?",
    family="concat",
    paper=f"{PAPER}, 5.1 and figures 6 and 10",
    minutes={"smoke": 1, "cpu": 7, "images": 25},
    not_run=("images",),
    gpu_hours={"paper": 19},
    expected="the maps of both tables correlate after training, not before",
    found={
        "cpu": "5 seeds: every ViT and CaiT with an added table score 1.0000; CaiT concatenated has two seeds of five "
        "that never begin to learn. Supported: the maps of both tables correlate by 0.9712 in ViT (97.5 % interval "
        "0.9387 to 1.0000) and 0.9326 in CaiT (96.7 %, 0.8568 to 1.0000), as in the paper, and by 0.0057 before "
        "training (98 %, -0.0292 to 0.0407); sines resemble other positions more than the table does (+0.8414; 98.3 "
        "%, 0.7932 to 0.8897). Inconclusive at 98.3 %: the added table resembles other positions more than the "
        "concatenated one, ViT +0.0294 (-0.0179 to 0.0768; about 9 seeds would decide it), CaiT +0.0006 (-0.0531 to "
        "0.0544; more than 1,000).",
    },
    base=DEEP.put({"model.depth": 2}),
    plan=Ablation(
        axes={"backbone": BACKBONES, "code": CODES},
        without=({"backbone": "cait", "code": "sines"},),
        baseline="added",
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": Budget(SMALL, seeds=2, gap=ARMS_GAP),
        "cpu": Budget(),
        "images": Budget({**IMAGES, "model.depth": 2}, seeds=3),
        "paper": Budget(WHOLE, arms={name: SMALL_SIZES[name] for name in BACKBONES}, seeds=1, gap=STAND_IN_GAP),
    },
    probes=("similarity",),
    published=(
        Published("vit, added", 0.798, None, "table 1, DeiT-S on ImageNet"),
        Published("vit, concatenated", 0.800, None, "table 1, DeiT-S on ImageNet"),
        Published("cait, added", 0.791, None, "table 1, CaiT-XXS36 on ImageNet"),
        Published("cait, concatenated", 0.793, None, "table 1, CaiT-XXS36 on ImageNet"),
    ),
    claims=(
        ProbeAlike("vit, concatenated", "vit, added", *MAPS, 0.8, None, "figure 6: 0.93", when="after"),
        ProbeAlike("cait, concatenated", "cait, added", *MAPS, 0.8, None, "figure 6: 0.96", when="after"),
        ProbeAlike("vit, concatenated", "vit, added", *MAPS, None, 0.2, DRAWN, when="before"),
        ProbeRising(("vit, concatenated", "vit, added"), *FAR, source=NARROWER, when="after"),
        ProbeRising(("cait, concatenated", "cait, added"), *FAR, source=NARROWER, when="after"),
        ProbeRising(("vit, added", "vit, sines"), *FAR, source=SINES, when="after"),
    ),
    gaps=(
        "300 epochs of ImageNet and tables of 14 x 14 there; red-green images or 5,000 images of CIFAR-10, two blocks "
        "and tables of 8 x 8 here",
        CROP_GAP,
        "figure 6's similarity of two tables is not defined: here the correlation of their similarity maps over all "
        "pairs of different positions, as the tables differ in width; that 0.8 is alike is ours",
        f"LocalViT-PVT has 0.89 and PVT-S 0.82 there; {PYRAMID_GAP}",
        "the size of the colored area: here the mean similarity of positions that are not neighbors (others)",
        "no number published for sines; figure 10's maps of 14 x 14 patches are those of the budget paper, and its "
        "models of several stages are left out, too",
    ),
)
