"""How many channels should a concatenated position have, and where?

Source: the concat paper 3.1 and table 1 (split 1/2, before the first block), 4.3 (places); no number published for
other splits and places. Cost: smoke 1 min, cpu 18 min, images 32 min on 2 cores; paper 63 GPU-hours.
Expected: in so short a training accuracy rises with the split up to about 1/2 (before the first block 0.90 at 1/8, 0.97
at 1/2); in one block that is read at its class token, position in the queries alone shows nothing, and every set of
places with `common`, `key` or `value` in it works.
"""

from search_spaces.claim import NoWorse
from search_spaces.space import Choice, Space, Subset
from search_spaces.studies._concat import WHOLE
from search_spaces.studies._imagenet import CROP_GAP, STAND_IN_GAP
from search_spaces.studies._images import SEARCHED
from search_spaces.studies._smoke import searched
from search_spaces.study import Budget, Halving, Published, Score, Search, Study
from trainables.data import RedGreen
from trainables.encodings import Learnable
from trainables.recipe import AdamW, Recipe

SPLIT, PLACES = "encoding.injection.split", "encoding.injection.places"

study = Study(
    name="concat-split",
    question="How many channels should a concatenated position have, and where?",
    family="concat",
    paper="Zhou et al. 2024, Rethinking Position Embedding Methods in the Transformer Architecture "
    "(doi:10.1007/s11063-024-11539-7), 3.1, 4.3 and table 1",
    minutes={"smoke": 1, "cpu": 18, "images": 32},
    gpu_hours={"paper": 63},
    expected="accuracy rises with the split up to about 1/2; position in the queries alone shows nothing in one "
    "block; no number published for splits other than 1/2, nor for other places",
    found={
        "images": "fresh seeds, test images: a half in query, key and value is best: 0.4127 (95 % interval 0.4101 to "
        "0.4153); the paper's half before the first block has 0.3617 (0.3153 to 0.4082), and each of the three best "
        "random points 0.382.",
    },
    base=Recipe(
        data=RedGreen(task="direction", train_size=3000, val_size=500),
        encoding=Learnable(std=0.5),
        optimizer=AdamW(epochs=12, lr=0.002, batch_size=50),
    ).put({"encoding.injection.kind": "concat"}),
    plan=Search(
        space=Space(
            {
                SPLIT: Choice((0.0625, 0.125, 0.25, 0.5, 0.75)),
                PLACES: Subset(("common", "query", "key", "value")),
            }
        ),
        first=(
            {SPLIT: 0.5, PLACES: ["common"]},
            {SPLIT: 0.5, PLACES: ["query", "key"]},
            {SPLIT: 0.5, PLACES: ["query", "key", "value"]},
        ),
        trials=24,
        stop=Halving(factor=3),
        rival=True,
    ),
    score=Score("val/accuracy"),
    budgets={
        "smoke": searched(trials=4),
        "cpu": Budget(stop=False),  # the importance of paths needs forty points that were not stopped
        "images": Budget(SEARCHED, trials=10, seeds=3),
        "paper": Budget(WHOLE, trials=10, seeds=1, rival=False, gap=STAND_IN_GAP),
    },
    published=(Published("first", 0.800, None, "table 1, DeiT-S on ImageNet, split 1/2 (79.8 added)"),),
    claims=(
        NoWorse("best", "first", 0.02, "ours: no worse than the paper's split of 1/2 before the first block (3.1)"),
    ),
    gaps=(
        "the paper tries the split 1/2 alone, and does not say how a code is joined to heads: here head by head",
        "its 4.3 tries the four places one by one, on Flowers-102, and shows heat maps; it does not join places",
        "DeiT on ImageNet there; one block on red-green images, or 4 blocks on a part of CIFAR-10, here",
        CROP_GAP,
        "tables start with deviation 0.5 at smoke, cpu and images, 0.02 at paper, as DeiT has it; the paper does not "
        "say",
    ),
)
