"""The names that `import service` offers: the verbs, and what a study is written with."""

from search_spaces.ablation import leave_one_out
from search_spaces.claim import (
    AtChance,
    AtLeast,
    Better,
    Equivalent,
    NoWorse,
    ProbeAlike,
    ProbeBetween,
    ProbeRising,
    Ranked,
    Rising,
)
from search_spaces.space import Above, Choice, Integer, Real, Space, Subset
from search_spaces.study import Ablation, Budget, Halving, Published, Score, Search, Study, Tuning
from service.adhoc import ablate, sweep
from service.api import (
    compare,
    forget,
    matrix,
    repair,
    report,
    rerun,
    result,
    run,
    simulate,
    status,
    submit,
    verify,
)
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
    "NoWorse",
    "ProbeAlike",
    "ProbeBetween",
    "ProbeRising",
    "Published",
    "Ranked",
    "Real",
    "Recipe",
    "Rising",
    "Score",
    "Search",
    "Space",
    "SpecError",
    "Study",
    "Subset",
    "Tuning",
    "ablate",
    "compare",
    "forget",
    "leave_one_out",
    "matrix",
    "repair",
    "report",
    "rerun",
    "result",
    "run",
    "simulate",
    "status",
    "submit",
    "sweep",
    "verify",
]
