"""Do directed mappings of offsets tell left from right, where undirected ones cannot?

Source: the note on iRPE ("Directed > Undirected"); no number published. Cost: smoke 1 minute, cpu 8, images 44 on 2
cores.
Expected: euclidean and quantization see the same in an image and its mirror image, so they score exactly 0.5 on the
test set, whose images come in mirrored pairs; cross and product score above 0.99. On photographs all are alike.
"""

from search_spaces.claim import AtChance, AtLeast, Better
from search_spaces.studies._irpe import BASE, BUDGETS, GAPS, PAPER
from search_spaces.study import Ablation, Budget, Score, Study
from trainables.data import RedGreen

study = Study(
    name="irpe-mapping",
    question="Do directed mappings of offsets tell left from right, where undirected ones cannot?",
    family="irpe",
    paper=PAPER,
    cost="smoke 1 minute, cpu 8, images 44 on 2 cores",
    expected="undirected mappings score exactly 0.5, directed ones above 0.99; on photographs all are alike; "
    "no number published. Came out at cpu, 5 seeds: none, euclidean and both quantizations 0.5000 on every test set, "
    "cross and product 1.0000",
    base=BASE.put(
        {
            "data": RedGreen(task="direction", aligned=True, train_size=1000, val_size=400, test_size=1000),
            "optimizer.epochs": 30,
            "optimizer.lr": 0.001,
        }
    ),
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "euclidean": {"encoding.mapping.kind": "euclidean"},
            "quantization": {"encoding.mapping.kind": "quantization"},
            "quantization, ranks": {"encoding.mapping.kind": "quantization", "encoding.mapping.of": "rank"},
            "cross": {"encoding.mapping.kind": "cross"},
            "product": {},
        },
        baseline="euclidean",
    ),
    score=Score("val/accuracy"),
    budgets={
        **BUDGETS,
        "images": Budget(
            BUDGETS["images"].values,
            seeds=3,
            gap="photographs do not come in mirrored pairs: the claims on chance are about red-green images",
        ),
    },
    claims=(
        AtChance("none", 0.005),
        AtChance("euclidean", 0.005, "ours: undirected, blind to reflection"),
        AtChance("quantization", 0.005, "ours: undirected, blind to reflection"),
        AtChance("quantization, ranks", 0.005, "ours: undirected, blind to reflection"),
        AtLeast("cross", 0.99, "ours: directed"),
        AtLeast("product", 0.99, "ours: directed"),
        Better("cross", "euclidean", 0.0, "the note: Directed > Undirected"),
        Better("product", "euclidean", 0.0, "the note: Directed > Undirected"),
    ),
    gaps=(
        *GAPS,
        "squares lie on the grid of patches, so that no patch shows what no position is needed for",
        "the published code has ratio 1.9 for product, 20 for euclidean and cross, 33 for quantization; here all "
        "have 1.9",
    ),
)
