"""What the studies of Gabor codes share: the paper, frozen backbones, the encodings of its tables, budgets and gaps."""

from typing import Any

from search_spaces.presets import GABOR
from search_spaces.studies._imagenet import STAND_IN_GAP
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP
from search_spaces.study import Budget
from trainables.backbones import ViT
from trainables.data import Digits
from trainables.encodings import Learnable
from trainables.recipe import AdamW, FromTimm, FromTrial, Recipe
from trainables.recipe.init_from import Part

PAPER = "Jiang et al. 2023, The encoding method of position embeddings in vision transformer"

UNCHANGED: dict[str, Any] = {
    "trainable": "all",
    "optimizer.lr": 1e-12,
    "optimizer.min_lr": 0.0,
    "optimizer.epochs": 1,
}
"""The weights that `init` gives, as they are: at this rate a step changes only weights below 2e-5, and those by a
millionth of a millionth. So an arm shows what a frozen model scores in which nothing learns."""


def backbone(encoding: dict[str, Any], **training: Any) -> dict[str, Any]:
    """Returns `init`: the backbone of a run with another encoding, in which all learns. `training`: its lr and epochs.

    Both are named here because the arms of one study differ in them, and all must start from the same run.
    """
    values = {"encoding": encoding, "optimizer.min_lr": 0.0}
    values |= {f"optimizer.{name}": value for name, value in training.items()}
    return FromTrial(values=values, part="backbone").plain()


def fine_tuned(encoding: dict[str, Any], name: str, part: Part, epochs: int) -> dict[str, Any]:
    """Returns `init`: the same for a model of timm's that goes on learning at the paper's rate of 1e-5."""
    values = {
        "encoding": encoding,
        "init": FromTimm(name=name, part=part).plain(),
        "optimizer.lr": 1e-5,
        "optimizer.min_lr": 1e-5,
        "optimizer.epochs": epochs,
    }
    return FromTrial(values=values, part="backbone").plain()


NONE: dict[str, Any] = {"kind": "none"}
LE: dict[str, Any] = {"kind": "learnable"}
WITHOUT: dict[str, Any] = {"encoding": NONE, **UNCHANGED}
"""The arm without position: the frozen backbone itself."""


def placed(code: dict[str, Any], *places: str, **more: Any) -> dict[str, Any]:
    """Returns a code that is added in every block at these places; each block and place has a code of its own."""
    return {**code, "injection": {"kind": "add", "places": [*places], "shared": False, **more}}


G_E: dict[str, Any] = {"kind": "gabor"}
E: dict[str, Any] = {"kind": "gabor", "form": "edge"}
E_IN_V = placed(E, "value")

BASE = Recipe(
    data=Digits(train_size=997, val_size=200, test_size=600, data_seed=1),
    model=ViT(patch_size=2, depth=3),
    encoding=Learnable(),
    optimizer=AdamW(epochs=60, lr=0.005, batch_size=50),
    init=FromTrial(values=backbone(NONE, lr=0.002, epochs=40)["values"], part="backbone"),
    trainable="position",
)
"""Digits in 4 x 4 patches, read at the class token as in DeiT. The backbone learns without position, then stays as it
is, and position alone learns. Red-green images cannot be asked: without position their backbone learns nothing. A
third of the digits are test images, because the differences are small. Position learns for 1,200 steps; in the paper
it has 125,000."""

SMOKE: dict[str, Any] = {
    "data.train_size": 600,
    "data.val_size": 100,
    "data.test_size": 100,
    "optimizer.epochs": 4,
    "init": backbone(NONE, lr=0.002, epochs=15),
}

PHOTOGRAPHS: dict[str, Any] = {
    **IMAGES,
    "model.depth": 3,
    "model.patch_size": 4,
    "optimizer.epochs": 30,
    "optimizer.lr": 0.005,
    "init": backbone(NONE, lr=0.002, epochs=20),
}
"""5,000 images of CIFAR-10 at 32 px, a grid of 8 x 8 patches, in 3 blocks."""

DEIT_TINY: dict[str, Any] = {
    "data": {"kind": "tiny_imagenet", "image_size": 224},
    "model.embed_dim": 192,
    "model.depth": 12,
    "model.num_heads": 3,
    "model.patch_size": 16,
    **GABOR,
    "init": fine_tuned(NONE, "deit_tiny_patch16_224.fb_in1k", "backbone", 50),
}
"""DeiT-tiny without its table: all learns at a rate of 1e-5 for 50 epochs, then position alone at 1e-3 to 1e-5."""

PAPER_GAP = (
    f"{STAND_IN_GAP}. Tiny-ImageNet has 200 classes, so the head is new there, and learns while the backbone does"
)

SMOKE_BUDGET = Budget(SMOKE, seeds=2, gap=ARMS_GAP)
IMAGES_BUDGET = Budget(PHOTOGRAPHS, seeds=3)
PAPER_BUDGET = Budget(DEIT_TINY, seeds=1, gap=PAPER_GAP)

TOP_FIVE_GAP = "tables 1 and 3 to 5 also give top-5 accuracy; here it is top-1 accuracy"

GAPS = (
    "DeiT-tiny, 12 blocks of 192 channels on ImageNet, there; here 3 blocks of 64 channels, on digits of 8 x 8 pixels "
    "at cpu, a grid of 4 x 4 patches: only the order can be compared",
    "the paper trains DeiT-tiny with its table, then without it, then freezes it; our small backbones have learned "
    "without position from the start",
    "60 epochs for position were chosen on another split of the same 1,797 digits (data_seed 0), by scores of seed 0 "
    "of two studies (attention-parts, edge-in-value): 20 were too few for codes in q and k",
    "the paper gives no initial values of a Gabor code; trainables/encodings/gabor.py says which are ours",
    "a class token has a vector of its own in every code, as the paper's counts of parameters need it",
    "the budget images has 5,000 images of CIFAR-10, without augmentation, a grid of 8 x 8 patches",
)
