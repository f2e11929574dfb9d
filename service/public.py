"""The names that `import service` offers: the verbs, and what a study is written with."""

from search_spaces.claim import AtChance, AtLeast, Better, Equivalent
from search_spaces.space import Above, Choice, Integer, Real, Space, Subset
from search_spaces.study import Ablation, Budget, Halving, Published, Score, Search, Study
from service.api import ablate, forget, report, rerun, result, run, status, submit, sweep, verify
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
    "forget",
    "report",
    "rerun",
    "result",
    "run",
    "status",
    "submit",
    "sweep",
    "verify",
]
