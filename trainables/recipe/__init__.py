"""What is trained, as data: a recipe, and a run of it at one seed."""

from trainables.recipe.init_from import Fresh, FromFile, FromTimm, FromTrial, Use
from trainables.recipe.losses import BinaryCrossEntropy, DRLoc, NoAuxiliary, NoTeacher, TaughtByFile, TaughtByTrial
from trainables.recipe.optimizer import LAMB, SGD, AdamW, Muon
from trainables.recipe.recipe import Recipe, Run

__all__ = [
    "LAMB", "SGD", "AdamW", "BinaryCrossEntropy", "DRLoc", "Fresh", "FromFile", "FromTimm", "FromTrial", "Muon",
    "NoAuxiliary", "NoTeacher", "Recipe", "Run", "TaughtByFile", "TaughtByTrial", "Use",
]  # fmt: skip
