"""What the studies of CPVT share: the paper, a small model with one PEG, the paper's own training, budgets and gaps."""

from typing import Any

from search_spaces.presets import DEIT
from search_spaces.studies._imagenet import CROP_GAP, STAND_IN_GAP
from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import ARMS_GAP, SMALL
from search_spaces.study import Budget
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.encodings import PEG
from trainables.recipe import AdamW, Recipe

PAPER = "Chu et al. 2021, Conditional Positional Encodings for Vision Transformers (arXiv:2102.10882)"

BASE = Recipe(
    data=RedGreen(task="absolute", image_size=24, train_size=2000, val_size=500, test_size=4000),
    model=ViT(depth=3, pool="gap"),
    encoding=PEG(places=(0,)),
    optimizer=AdamW(epochs=10, lr=0.001, batch_size=50),
)
"""A PEG after the first block. A model that cannot see the border is at chance on this task by construction: an image
with both squares above, moved down by half its height, is an equally likely image with both squares below. The test
set is large, so that chance is met within a point.

At higher rates some runs never begin to learn: on these images 1 of 5 at 0.002; on others (data_seed 7) none of 12 at
0.001 and at 0.002, and 1 of 12 at 0.004. Two studies have 0.002 (gap, cpvt-encodings), where all 50 runs began."""

TINY: dict[str, Any] = {
    "data": {"kind": "tiny_imagenet", "image_size": 224},
    "model.embed_dim": 192,
    "model.depth": 12,
    "model.num_heads": 3,
    "model.patch_size": 16,
    "model.pool": "token",
    **DEIT,
}
"""CPVT-Ti and DeiT-tiny (table 9) and their training (table 10), on images of the paper's size."""

PHOTOGRAPHS: dict[str, Any] = {**IMAGES, "model.depth": 3}
"""5,000 images of CIFAR-10 at 32 px, a grid of 8 x 8 patches, in 3 blocks."""
DEEPER: dict[str, Any] = {**PHOTOGRAPHS, "model.depth": 6, "optimizer.epochs": 15}
"""The same in 6 blocks, for studies with several PEGs."""

BUDGETS = {
    "smoke": Budget(SMALL, seeds=2, gap=ARMS_GAP),
    "cpu": Budget(),
    "images": Budget(PHOTOGRAPHS, seeds=3, chance=False),
    "paper": Budget(TINY, seeds=1, gap=STAND_IN_GAP),
}

SINES_GAP = "sines are computed for the new grid; the paper does not say whether it does that or resamples them"
SIZE_GAP = (
    "DeiT-tiny, 12 blocks of 192 channels read at the class token, on ImageNet there; 3 blocks of 64 channels, whose "
    "patches are averaged, on red-green images here: only the order can be compared"
)
SEVERAL_GAP = (
    "the paper's several PEGs are separable by their counts of parameters (table 12); ours are depth-wise, as the "
    "caption of table 2 has them"
)
IMAGES_GAP = "the budget images has 5,000 images of CIFAR-10, without augmentation"
TRAINING_GAPS = (
    "the budget paper has a batch of 1,024, as table 10 has; 4.1 has 2,048 and a rate in proportion to the batch",
    "table 10 names LAMB for CPVT; by 4.1 all models but CPVT-B have AdamW, and so have ours",
    CROP_GAP,
)
GAPS = (SIZE_GAP, IMAGES_GAP, *TRAINING_GAPS)
