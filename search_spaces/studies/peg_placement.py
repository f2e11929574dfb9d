"""Which blocks should carry a PEG?

Source: CPVT 5.2, table 6 (one PEG), and B.4, table 12 (several). Cost: smoke 1 min, cpu 40 min, images 30 min on 2
cores; paper 19 GPU-hours.
Expected: none is at chance, several PEGs beat one, and where one stands makes no difference at `cpu`. In the paper it
does: after the first block is good, before it (-1) is worse, and the last place is worst. On ImageNet: none 68.2, -1
70.6, 0 72.4, 3 72.3, 6 71.7, 10 69.0, 0 to 4 73.4.
"""

from typing import Any

from search_spaces.space import Space, Subset
from search_spaces.studies._cpvt import SEVERAL_GAP, TINY, TRAINING_GAPS
from search_spaces.studies._imagenet import STAND_IN_GAP
from search_spaces.studies._images import PART
from search_spaces.studies._smoke import searched
from search_spaces.study import Budget, Halving, Published, Score, Search, Study
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.encodings import PEG
from trainables.recipe import AdamW, Recipe

PLACES = "encoding.places"
FIRST: tuple[dict[str, Any], ...] = tuple({PLACES: places} for places in ([0], [-1], [1], [3], [4], []))
"""Table 6 in a ViT half as deep: after block 0; before it; 3, 6 and 10 of 12 blocks are 1, 3 and 4 of 6; none."""

study = Study(
    name="peg-placement",
    question="Which blocks should carry a PEG?",
    family="cpvt",
    paper="Chu et al. 2021, Conditional Positional Encodings for Vision Transformers (arXiv:2102.10882), 5.2 and B.4, "
    "tables 6 and 12",
    minutes={"smoke": 1, "cpu": 40, "images": 30},
    gpu_hours={"paper": 19},
    expected="none is at chance, several PEGs are better than one; where one stands makes no difference at cpu",
    found={
        "images": "fresh seeds, test images: several beat one, too, by less: after block 0 0.3597, after block 1 "
        "0.3637, at -1, 0, 3 and 4 0.3809; the best random points, 0, 1, 2 and 4 and 0, 3 and 4, have 0.3832 and "
        "0.3733; intervals are 0.02 to 0.03 wide to each side. None, -1, 3 and 4 were stopped early, as in the "
        "paper's order.",
    },
    base=Recipe(
        data=RedGreen(task="direction", image_size=24, train_size=2000, val_size=500),
        model=ViT(depth=6, pool="gap"),
        encoding=PEG(places=(0,)),
        optimizer=AdamW(epochs=8, lr=0.002, batch_size=50),
    ),
    plan=Search(
        space=Space({PLACES: Subset((-1, 0, 1, 2, 3, 4))}),
        first=FIRST,
        trials=12,
        stop=Halving(factor=3),
        rival=True,
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": searched(trials=3),
        "cpu": Budget(),
        "images": Budget({**PART, "data.image_size": 24, "optimizer.batch_size": 100}, trials=10, seeds=3),
        "paper": Budget(
            TINY,
            trials=12,
            seeds=1,
            rival=False,
            gap=f"places 6 and 10 of table 6 are not in the space, which is that of 6 blocks; {STAND_IN_GAP}",
        ),
    },
    published=(Published("first", 0.724, None, "table 6, PEG at 0 in DeiT-tiny on ImageNet"),),
    gaps=(
        "12 blocks of DeiT-tiny on ImageNet there; 6 blocks on red-green images, or on 5,000 images of CIFAR-10 at "
        "24 px, here: only the order of places can be compared",
        "the table's other rows (none 68.2, -1 70.6, 3 72.3, 6 71.7, 10 69.0) are tried first, as points of the "
        "search; in 6 blocks the places 1, 3 and 4 stand for its 3, 6 and 10",
        "of table 12, tiny after block 0 (72.4) and after 0 to 4 (73.4) are points of the search at paper; after 0 to "
        "10 (73.4) and small (79.9, 80.5, 80.6) are not. Table 6's kernel of 27 x 27 at -1 (72.5) is in the study "
        "peg-kernel",
        "table 12's claim, several PEGs are better than one, is judged in the study peg-count, whose arms are sets of "
        "places; the best point of a search may have one PEG",
        SEVERAL_GAP,
        "GAP here; its table 6 has the class token",
        *TRAINING_GAPS,
    ),
)
