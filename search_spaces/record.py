"""What came out when a study was run, as data: a small JSON file for each study and budget.

It lies in the folder `records` beside the file of the study, and has the id as its name: `fourier-gamma@cpu.json`, and
`fourier-gamma@cpu~pets-1f2e.json` for a person's own images or values. `locus record` writes it. What differs today
from the day of the record is found by comparison, never written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from search_spaces.study import Edition, Study
from trainables.recipe import Recipe
from trainables.recipe.revisions import code_of
from trainables.spec import Spec, SpecError, digest

RULES = 5
"""The number of the rules in service/README.md that judge scores. It rises with a rule that changes verdicts."""
BEFORE = "before these rules"
"""What is said of results that were judged by earlier rules, such as the words in `Study.found`."""
ANOTHER = "of another definition"
"""What is said of results of a study that asks something else today."""


class Scored(Spec):
    """The test scores of a trial over its seeds.

    `failed`: how many seeds failed. `interval`: of the mean over all seeds; None for too few seeds. `seeds`: the scores
    themselves, which records of before the fifth rules lack.
    """

    n: int
    mean: float
    std: float | None
    interval: tuple[float, float] | None
    failed: int
    seeds: dict[int, float] = Field(default_factory=dict)


class Row(Spec):
    """An arm, or the `best`, `first` or `random` of a search. `code`: the digest of the code that trained it.

    `values`: those that the search or the arm's tuning chose. `diverged`: how many seeds count at chance, as they
    diverged. `test_sizes`: the scores at further sides of test images. `lengths`: the validation scores at each length
    of training, where there are several. Units: pixels, epochs; `time_s`, a run, in seconds.
    """

    name: str
    code: str
    values: dict[str, Any]
    asked: int
    diverged: int
    time_s: float | None
    test: Scored
    test_sizes: dict[int, Scored]
    lengths: dict[int, Scored] = Field(default_factory=dict)

    def recipe(self, edition: Edition) -> Recipe:
        """Returns what the edition trains under this name, with these values."""
        plan = edition.study.plan
        if not plan.arms:
            return edition.study.recipe(self.values)
        arm = plan.arms[self.name]
        return edition.study.recipe(plan.tune.put_on(arm, self.values) if plan.tune else arm)


class Judged(Spec):
    """A claim with its verdict, and the numbers that decided it.

    `interval`: one of all claims of the study together. `p`: two-sided, adjusted for these and for looks. `unseen`:
    what seeds that were not seen might do.
    """

    claim: str
    word: Literal["SUPPORTED", "REFUTED", "INCONCLUSIVE", "NOT JUDGED"]
    n: int
    measured: float | None
    interval: tuple[float, float] | None
    p: float | None
    unseen: str = ""


class Record(Spec):
    """What came out of a study at a budget.

    `mark`: of an edition with a person's own values, as in its id; `own`: these values, by the nodes of the recipe.
    `date`: the day (UTC) of the last result. `rules`: the number of the rules of the verdicts. `definition`: a digest
    of what was asked. `minutes`: in which at least one run was under way; a run that another study trained adds the
    time of its own epochs. `machine`: what trained.
    `level`: of the intervals of `rows`. `gap`: why no claim is judged here; empty if claims are judged. With own values
    `verdicts` are what each test finds there.
    """

    study: str
    budget: str
    date: str = Field(pattern=r"^\d{4}-\d\d-\d\d$", description="a day such as '2026-11-25'")
    rules: int
    definition: str
    seeds: int
    minutes: float
    machine: str
    versions: dict[str, str]
    headline: str
    metric: str
    level: float
    rows: tuple[Row, ...] = Field(strict=False)
    verdicts: tuple[Judged, ...] = Field(strict=False)
    gap: str
    mark: str = ""
    own: dict[str, Any] = Field(default_factory=dict)

    @property
    def id(self) -> str:
        """The name of the record's file."""
        return f"{self.study}@{self.budget}{self.mark}"

    def edition(self, study: Study) -> Edition:
        """Returns what the study asks today at this budget, with the values of the record's own."""
        return study.at(self.budget, set=self.own, name=self.mark.removeprefix("~"))

    def since(self, edition: Edition) -> list[str]:
        """Returns how today's edition differs from what was recorded, in words; nothing if it is the same.

        Rows of another definition are not compared by their code.
        """
        differences = [BEFORE] if self.rules < RULES else []
        if self.definition != defined(edition) or not {row.name for row in self.rows} <= {*edition.study.names()}:
            return [*differences, ANOTHER]
        older = any(row.code != code_of(row.recipe(edition)).digest for row in self.rows)
        return [*differences, "by older code"] if older else differences


def defined(edition: Edition) -> str:
    """Returns a digest of what an edition asks."""
    return digest(edition.definition)


def read(path: Path) -> Record | None:
    """Returns the record of a file; None if there is none.

    Raises: SpecError for a file that holds no record of its name.
    """
    if not path.is_file():
        return None
    try:
        record = Record.read_text(path.read_text(encoding="utf-8"))
    except (SpecError, ValueError) as error:
        raise SpecError(f"{path} must hold a record, but {error}") from None
    if record.id != path.stem:
        raise SpecError(f"{path} must hold the record of {path.stem}, got {record.id}")
    return record
