"""A trial: one recipe of a study, what it is for, and the score that its runs get."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from pydantic import Field

from search_spaces.roles import FIRST_SEEDS, LETTERS, Role
from trainables.recipe import Recipe, Run
from trainables.spec import Spec


class Score(Spec):
    """The metric that a search maximizes: the validation value of the last epoch, never the best over epochs."""

    metric: str = Field(default="val/accuracy", pattern=r"^val/", description="a metric such as 'val/accuracy'")

    @property
    def test(self) -> str:
        """The same metric on the test set."""
        return self.metric.replace("val/", "test/", 1)


class Trial(Spec):
    """One recipe of a study: a point or an arm, a confirmation on fresh seeds, a random rival, or a parent.

    `tunes`: the arm that it tunes, and the place of this arm; None for a trial that tunes none.
    """

    number: int
    name: str
    values: dict[str, Any]
    recipe: Recipe
    role: Role = "trial"
    tunes: tuple[str, int] | None = None

    @property
    def label(self) -> str:
        """The number with its role: 7, c7, r7, rc7, p1; t2.7 is the trial 7 that tunes the arm 2."""
        return f"{LETTERS[self.role]}{f'{self.tunes[1]}.' if self.tunes else ''}{self.number}"

    @cached_property
    def score(self) -> Score:
        """The score of its runs: the study's own; for a parent that of its own data."""
        return Score(f"val/{self.recipe.data.reported}")

    def seeds(self, count: int) -> range:
        """Returns the seeds of this trial's runs."""
        first = FIRST_SEEDS.get(self.role, 0)
        return range(first, first + count)

    def runs(self, count: int) -> list[Run]:
        """Returns one run per seed."""
        return [self.run(seed) for seed in self.seeds(count)]

    def run(self, seed: int) -> Run:
        """Returns the run of a seed: the same object each time, as a large study has many."""
        run = self._runs.get(seed)
        if run is None:
            run = self._runs[seed] = Run(recipe=self.recipe, seed=seed)
        return run

    @cached_property
    def _runs(self) -> dict[int, Run]:
        return {}
