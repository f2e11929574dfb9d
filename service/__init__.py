"""locus: named studies of position encodings in vision transformers.

    import service

    result = service.run("fourier-gamma", budget="smoke")
    result = service.sweep({"data.task": "direction"}, {"encoding.gamma": service.Real(0.1, 30, log=True)}, trials=12)
    result = service.ablate({"none": {}, "peg": {"encoding.kind": "peg"}}, baseline="none", seeds=5)
    submission = service.submit("fourier-gamma", address="http://head:8265", home="/shared/locus")

Every verb raises LocusError with one sentence for what cannot be. Importing this starts nothing: torch, timm, Ray,
Optuna and MLflow are imported where they are needed.
"""

from search_spaces.claim import AtChance, AtLeast, Better, Equivalent
from search_spaces.space import Above, Choice, Integer, Real, Space, Subset
from search_spaces.study import Ablation, Budget, Halving, Published, Score, Search, Study
from service.api import ablate, report, rerun, result, run, status, submit, sweep, verify
from trainables.recipe import Recipe
from trainables.spec import LocusError, SpecError

__all__ = [
    "Ablation",
    "Above",
    "AtChance",
    "AtLeast",
    "Better",
    "Budget",
    "Choice",
    "Equivalent",
    "Halving",
    "Integer",
    "LocusError",
    "Published",
    "Real",
    "Recipe",
    "Score",
    "Search",
    "Space",
    "SpecError",
    "Study",
    "Subset",
    "ablate",
    "report",
    "rerun",
    "result",
    "run",
    "status",
    "submit",
    "sweep",
    "verify",
]
