"""Does pretraining on relative location help Fourier features on real images?

Source: thesis 5.1 (4-class direction, then distance; Wr and MLP taken over). Cost: smoke 1 minute, cpu 5 on 2 cores.
Expected: a little more accuracy on small sets, within the noise of a few seeds; digits were not in the thesis.
"""

from search_spaces.studies._thesis import PAPER
from search_spaces.study import Ablation, Budget, Score, Study
from trainables.backbones import ViT
from trainables.data import Digits
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe

DIRECTION = {"data": {"kind": "red_green", "task": "direction4"}, "model.patch_size": 4, "optimizer.lr": 0.001}
"""The first pretraining run: the same encoding on the 4-class direction task, on a grid of 8 x 8."""

DISTANCE = {
    **DIRECTION,
    "data": {"kind": "red_green", "task": "distance"},
    "init": FromTrial(values=DIRECTION, part="encoding").plain(),
}
"""The second, which starts from the first's encoding."""

study = Study(
    name="pretrained-fourier",
    question="Does pretraining on relative location help Fourier features on real images?",
    family="thesis",
    paper=f"{PAPER}, 5.1",
    cost="smoke 1 minute, cpu 5 on 2 cores",
    expected="a little more accuracy, within the noise of a few seeds",
    base=Recipe(data=Digits(), model=ViT(patch_size=1, pool="avg"), encoding=Fourier(gamma=2.5)),
    plan=Ablation(
        arms={
            "none": {"encoding.kind": "none"},
            "fourier": {},
            "pretrained": {"init": FromTrial(values=DISTANCE, part="encoding").plain()},
        },
        baseline="fourier",
    ),
    score=Score("val/accuracy"),
    budgets={"smoke": Budget(values={"optimizer.epochs": 3}, seeds=2), "cpu": Budget(values={"optimizer.epochs": 15})},
    gaps=("the thesis trains a ViT-B on CIFAR, Flowers-102 and Tiny-ImageNet; the digits are ours",),
)
