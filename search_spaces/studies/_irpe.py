"""What the studies of iRPE share: the paper, the model read at the mean of its patches, budgets and gaps."""

from search_spaces.studies._images import IMAGES
from search_spaces.studies._smoke import PARTS_GAP, SMALL
from search_spaces.study import Budget
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.encodings import IRPE
from trainables.recipe import AdamW, Recipe

PAPER = "Wu et al. 2021, Rethinking and Improving Relative Position Encoding for Vision Transformer (arXiv:2107.14222)"

BASE = Recipe(
    data=RedGreen(task="direction", train_size=2000, val_size=500),
    model=ViT(pool="avg"),
    encoding=IRPE(),
    optimizer=AdamW(epochs=12, lr=0.002, batch_size=50),
)
"""Mean pooling: one block that is read at its class token is blind to relative encodings."""

BUDGETS = {
    "smoke": Budget(SMALL, seeds=2, gap=PARTS_GAP),
    "cpu": Budget(),
    "images": Budget({**IMAGES, "model.depth": 3}, seeds=3),
}

GAPS = (
    "DeiT on ImageNet there; one block on red-green images, or 3 blocks on 5,000 images of CIFAR-10, here",
    "the published models keep a table of absolute positions beside iRPE; here iRPE is alone",
    "DeiT is read at its class token; here patches are averaged, because one block with a class token is blind to iRPE",
    "the tables of the paper's comparison are pictures that are lost in our copy: no number published",
)
