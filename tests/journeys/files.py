"""Study files as a user would write them, small enough to train in seconds."""

SMALL = """
from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Budget, Halving, Search, Study
from search_spaces.claim import AtLeast
from trainables.encodings import CodeSpec, Fourier, NoEncoding, Sinusoidal, linear
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.recipe import AdamW, DRLoc, FromTrial, Recipe, TaughtByTrial
from pydantic import Field

BASE = Recipe(
    data=RedGreen(image_size=16, train_size=120, val_size=40, test_size=60),
    model=ViT(embed_dim=16, num_heads=2),
    encoding=Fourier(gamma=2.0),
    optimizer=AdamW(epochs=2, batch_size=40, lr=0.01),
)
"""

SPIRAL = (
    SMALL
    + '''
class Spiral(CodeSpec):
    """A place's angle and radius around the middle, the angle wound by the radius."""

    kind: str = Field(default="mine.py:Spiral", init=False)
    turns: float = Field(default=2.0, gt=0, description="a positive number of turns")

    def params(self, dim, grid):
        return linear("project", 2, dim)

    def code(self, p, at):
        x, y = at.x - (at.grid.columns - 1) / 2, at.y - (at.grid.rows - 1) / 2
        radius = (x.square() + y.square()).sqrt()
        angle = y.atan2(x) + self.turns * radius
        return at.prefixed(p.linear("project", at.stack(radius * angle.cos(), radius * angle.sin())))


study = Study(
    name="mine",
    question="Does a spiral beat a wave?",
    base=BASE,
    plan=Ablation(arms={"wave": {}, "spiral": {"encoding": Spiral(turns=1.5)}}, baseline="wave"),
    claims=(AtLeast("wave", 0.999, source="a claim that so short a training refutes"),),
    seeds=2,
)
'''
)
"""An ablation with an encoding of one's own: four runs of two epochs."""

WIDTHS = (
    SPIRAL[: SPIRAL.index("    plan=")]
    + """    plan=Ablation(
        arms={"narrow": {"model.embed_dim": 8}, "wide": {"model.embed_dim": 32}}, baseline="narrow"
    ),
    seeds=2,
)
"""
)
"""The same encoding, and arms that leave the encoding alone, so that any may be set."""

ENCODINGS = (
    SMALL
    + """
study = Study(
    name="waves",
    question="Which one?",
    base=BASE,
    plan=Ablation(
        arms={"none": {"encoding": NoEncoding()}, "wave": {}, "sine": {"encoding": Sinusoidal()}}, baseline="none"
    ),
    budgets={
        "small": Budget(values={}),
        "long": Budget(values={"data.train_size": 2000, "optimizer.epochs": 40}, seeds=1),
    },
    seeds=2,
)
"""
)
"""A plain ablation: six runs of two epochs; `long`: three of forty, long enough to type six commands meanwhile."""

REACH = (
    SMALL
    + """
study = Study(
    name="reach",
    question="How far?",
    base=BASE.put({"optimizer.epochs": 4}),
    plan=Search(
        space=Space({"encoding.gamma": Real(low=0.1, high=30.0, log=True)}),
        first=({"encoding.gamma": 2.0},),
        trials=5,
        stop=Halving(factor=2),
    ),
    seeds=2,
)
"""
)
"""A search of five points with halving: runs of four epochs."""

PRETRAINED = (
    SMALL
    + """
DIRECTION = {"data.task": "direction4"}
DISTANCE = {"data.task": "absolute", "init": FromTrial(values=DIRECTION, part="encoding").plain()}
study = Study(
    name="pretrained",
    question="Does pretraining help?",
    base=BASE,
    plan=Ablation(
        arms={
            "scratch": {},
            "once": {"init": FromTrial(values=DIRECTION, part="encoding").plain()},
            "twice": {"init": FromTrial(values=DISTANCE, part="encoding").plain()},
        },
        baseline="scratch",
    ),
    seeds=2,
)
"""
)
"""Arms that start from other runs: `once` from one, `twice` from one that starts from the same."""

PLUGGED = (
    SMALL
    + """
FILE = {"kind": "from_file", "path": "weights.pt", "sha256": "SHA256"}
study = Study(
    name="plugged",
    question="Does position plugged into a trained backbone help?",
    base=BASE.put({"encoding.kind": "gabor", "init": {**FILE, "part": "backbone"}, "trainable": "position"}),
    plan=Ablation(
        arms={"gabor": {}, "table": {"encoding.kind": "learnable", "init": FILE, "trainable": "all"}}, baseline="table"
    ),
    seeds=1,
)
"""
)
"""Arms that start from a file of weights: position alone learns, or all of it with the file's table."""


DISTILLED = (
    SMALL
    + """
study = Study(
    name="distilled",
    question="Does a teacher help?",
    base=BASE.put({"model.pool": "distilled", "teacher": TaughtByTrial(values={"model.depth": 2})}),
    plan=Ablation(
        arms={
            "alone": {"model.pool": "token", "teacher.kind": "none"},
            "taught": {},
            "localised": {"auxiliary": DRLoc(pairs=4, hidden=8)},
        },
        baseline="alone",
    ),
    seeds=2,
)
"""
)
"""An arm by itself and two with one teacher, a deeper model; the last is trained to tell offsets, too."""
