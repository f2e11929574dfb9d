"""A study is a question with a plan. It is data only, so that it travels as JSON.

A file of `studies/` defines a `Study`. An `Edition` is a study at a budget with a user's own values; its id is such as
`fourier-gamma@cpu`, and its definition may not change under that id.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from search_spaces.claim import Claim
from search_spaces.grid import grid, without_points
from search_spaces.space import Space, probes
from search_spaces.words import placeless, short, without_sources
from trainables.own import Values, carry
from trainables.recipe import Recipe, Run
from trainables.spec import Spec, SpecError, digest, require

CONFIRMED = 3
"""How many of a search's best trials are confirmed on fresh seeds."""
NAME = r"[a-z0-9]+(-[a-z0-9]+)*"
"""What studies and budgets are called: their names become names of folders."""
GRID_LIMIT = 10_000
"""How many points a grid may have: all are listed before the first one is tried."""
CONFIRM_FROM = 1000
"""The first seed of a confirmation."""


class Score(Spec):
    """The metric that a search maximizes: the validation value of the last epoch, never the best over epochs."""

    metric: str = Field(default="val/accuracy", pattern=r"^val/", description="a metric such as 'val/accuracy'")

    @property
    def test(self) -> str:
        """The same metric on the test set."""
        return self.metric.replace("val/", "test/", 1)


class Halving(Spec):
    """Successive halving of the first seeds: after one and two thirds of the epochs the best 1/factor continue."""

    factor: int = Field(default=3, ge=2, description="a whole number of 2 or more")


class Search(Spec):
    """A space, the points tried first (the paper's), how many trials, which sampler, and how bad trials are stopped.

    `sampler`: `tpe` learns from earlier trials; `random` does not, so it is the baseline; `grid` tries every
    combination of choices, integers and the `points` of real numbers, in an order that the study's id decides.
    """

    kind: Literal["search"] = Field(default="search", init=False)
    space: Space
    first: tuple[dict[str, Any], ...] = Field(default=(), strict=False, description="a list of {path: value}")
    trials: int = Field(default=20, gt=0, description="a positive number of trials")
    stop: Halving | None = None
    sampler: Literal["tpe", "random", "grid"] = Field(default="tpe", description="'tpe', 'random' or 'grid'")

    @model_validator(mode="after")
    def _laid_out(self) -> Search:
        endless = without_points(self.space) if self.sampler == "grid" else []
        require(not endless, "sampler", f"tpe or random where {', '.join(endless)} has no points", self.sampler)
        return self


class Ablation(Spec):
    """Named arms against a baseline; every arm runs every seed, nothing is stopped."""

    kind: Literal["ablation"] = Field(default="ablation", init=False)
    arms: dict[str, Values] = Field(min_length=1, description="{arm: {path: value}}")
    baseline: str

    @model_validator(mode="after")
    def _baseline(self) -> Ablation:
        require(self.baseline in self.arms, "baseline", f"one of the arms {', '.join(self.arms)}", self.baseline)
        return self


class Published(Spec):
    """A number of a paper, shown beside the test score of an arm (or of `best`).

    `same_data`: whether the paper's images are of the kind that the study trains on, so that both share an axis.
    """

    who: str
    value: float
    spread: float | None
    source: str
    same_data: bool = False

    def __str__(self) -> str:
        spread = "" if self.spread is None else f" +- {self.spread:g}"
        return f"{self.value:g}{spread}, {self.source}"


class Budget(Spec):
    """How large: values put on the base recipe, and counts."""

    values: Values = Field(default_factory=dict)
    trials: int | None = Field(default=None, gt=0, description="a positive number of trials")
    seeds: int | None = Field(default=None, gt=0, description="a positive number of seeds")
    stop: bool = True
    """False: nothing is stopped at this size; a handful of trials is too few to halve."""
    gap: str = ""
    """In what this size differs from the paper's protocol."""


class Trial(Spec):
    """One recipe of a study: a point or an arm, its confirmation on fresh seeds, or a parent."""

    number: int
    name: str
    values: dict[str, Any]
    recipe: Recipe
    role: Literal["trial", "confirmation", "parent"] = "trial"

    @property
    def label(self) -> str:
        """The number with its role: 7, c7, p1."""
        return {"trial": "", "confirmation": "c", "parent": "p"}[self.role] + str(self.number)

    @property
    def score(self) -> Score:
        """The score of its runs: the study's own; for a parent that of its own data."""
        return Score(f"val/{self.recipe.data.metric}")

    def seeds(self, count: int) -> range:
        """The seeds of this trial's runs."""
        return range(CONFIRM_FROM, CONFIRM_FROM + count) if self.role == "confirmation" else range(count)

    def runs(self, count: int) -> list[Run]:
        """One run a seed."""
        return [Run(recipe=self.recipe, seed=seed) for seed in self.seeds(count)]


Plan = Annotated[Search | Ablation, Field(discriminator="kind")]


class Study(Spec):
    """One question about position encodings, and everything needed to answer it.

    `family` groups studies in MLflow (the paper's short name), `paper` is the source of the question, `cost` and
    `expected` what to expect, `gaps` in what it differs from the paper's protocol.
    """

    name: str = Field(pattern=rf"^{NAME}$", description="lower-case words joined by '-'")
    question: str
    base: Recipe
    plan: Plan
    score: Score = Score()
    seeds: int = Field(default=3, gt=0, description="a positive number of seeds")
    budgets: dict[str, Budget] = Field(default_factory=dict)
    published: tuple[Published, ...] = Field(default=(), strict=False)
    claims: tuple[Claim, ...] = Field(default=(), strict=False)
    keep: tuple[Literal["weights"], ...] = Field(
        default=("weights",), strict=False, description="a list of what to keep: weights"
    )
    family: str = Field(default="sweeps", pattern=r"^[\w.-]+$", description="a short word")
    paper: str = ""
    cost: str = ""
    expected: str = ""
    gaps: tuple[str, ...] = Field(default=(), strict=False)

    @model_validator(mode="after")
    def _builds(self) -> Study:
        metric = f"val/{self.base.data.metric}"
        require(self.score.metric == metric, "score.metric", f"{metric!r} for {self.base.data.kind}", self.score.metric)
        for name in self.budgets:
            require(
                re.fullmatch(NAME, name) is not None, f"budgets.{name}", "named by lower-case words joined by '-'", name
            )
        for name, point in self._points():
            try:
                self._require_same_score(self.recipe(point))
            except SpecError as error:
                raise SpecError(
                    f"arm {name!r}: {error}" if name else f"{error}; {self._said_of_space(str(error))}"
                ) from None
        known = self.names()
        for claim in self.claims:
            for who in (claim.who, getattr(claim, "than", claim.who)):
                require(who in known, "claims", f"about one of {', '.join(known)}", who)
        return self

    def _said_of_space(self, error: str) -> str:
        """What to know of the space where one of its points builds no recipe."""
        if error.startswith("no field"):
            return f"the space of {self.name} names {', '.join(self.paths())}"
        return (
            f"each point of the space of {self.name} must build a recipe: Above keeps a path above another one, Choice "
            "and Subset list legal values"
        )

    def _require_same_score(self, recipe: Recipe) -> None:
        """Refuses a recipe whose score cannot be compared with the base's."""
        data, base = recipe.data, self.base.data
        if (data.metric, data.chance) != (base.metric, base.chance):
            raise SpecError(
                f"data must have the metric and the chance of the base ({base.metric}, {base.chance:g}), as scores "
                f"are compared, got {data.metric}, {data.chance:g}"
            )

    def _points(self) -> list[tuple[str, dict[str, Any]]]:
        """The arms by name, or points all over the space, which have none."""
        if isinstance(self.plan, Ablation):
            return list(self.plan.arms.items())
        for point in self.plan.first:
            self.plan.space.require_point(self.base, point, "plan.first")
        if self.plan.sampler == "grid":
            count = sum(1 for _ in islice(grid(self.plan.space, self.base), GRID_LIMIT + 1))
            require(count <= GRID_LIMIT, "plan.space", f"of at most {GRID_LIMIT} grid points", "more")
        return [("", point) for point in (*self.plan.first, *probes(self.plan.space, self.base))]

    def recipe(self, values: dict[str, Any]) -> Recipe:
        """The recipe of an arm or a point."""
        return self.base.put(self.plan.space.carried(values) if isinstance(self.plan, Search) else values)

    def names(self) -> list[str]:
        """What claims and published numbers may name: the arms, or `best` and `first`."""
        return list(self.plan.arms) if isinstance(self.plan, Ablation) else ["best", "first"]

    def paths(self) -> list[str]:
        """The paths in which this study's trials differ."""
        if isinstance(self.plan, Search):
            return list(dict.fromkeys(path for path, _ in self.plan.space.every()))
        return list(dict.fromkeys(path for values in self.plan.arms.values() for path in without_sources(values)))

    def at(
        self,
        budget: str | None = None,
        *,
        set: dict[str, Any] | None = None,
        name: str = "",
        trials: int | None = None,
        seeds: int | None = None,
    ) -> Edition:
        """The study at a budget, with the user's own values and counts; `name` marks the edition.

        Raises: SpecError for an unknown budget, a value that no recipe takes, a value that every arm overrides.
        """
        if not re.fullmatch(r"[\w-]*", name):
            raise SpecError(f"an edition's name must be letters, digits, '-' and '_', got {name!r}")
        chosen = budget or ("cpu" if "cpu" in self.budgets else "base")
        if chosen != "base" and chosen not in self.budgets:
            raise SpecError(f"{self.name} has no budget {chosen!r}; known: {', '.join(['base', *self.budgets])}")
        size = self.budgets.get(chosen, Budget())
        edition = self._edition(chosen, size, {}, seeds, trials)
        mark, own = name, carry(set or {})
        changed = self._edition(chosen, size, own, seeds, trials) if own else edition
        if changed.study != edition.study:  # values that are there already make no other edition
            mark = name or digest(changed.definition, 4)
            edition = changed.model_copy(update={"own_paths": tuple(own)})
        return edition.model_copy(update={"mark": f"~{mark}" if mark else ""})

    def _edition(
        self, budget: str, size: Budget, own: dict[str, Any], seeds: int | None, trials: int | None
    ) -> Edition:
        """The study with a budget's values and the user's own, and with its counts."""
        resolved = self._with(size.values, own).counted(
            seeds=size.seeds if seeds is None else seeds,
            trials=size.trials if trials is None else trials,
            stop=size.stop,
            gaps=(*self.gaps, size.gap) if size.gap else self.gaps,
        )
        return Edition(budget=budget, study=resolved)

    def counted(
        self, *, seeds: int | None = None, trials: int | None = None, stop: bool = True, **fields: Any
    ) -> Study:
        """The study with other counts, where they are given, and other fields. `stop`: False stops no trial early.

        Raises: SpecError for the trials of an ablation.
        """
        plan = self.plan
        if isinstance(plan, Search):
            points = plan.trials if trials is None else trials
            plan = Search(**{**dict(plan), "trials": points, "stop": plan.stop if stop else None})
        elif trials is not None:
            raise SpecError(f"{self.name} is an ablation of {len(plan.arms)} arms; trials are for searches")
        return Study(**{**dict(self), "seeds": self.seeds if seeds is None else seeds, "plan": plan, **fields})

    def _with(self, values: dict[str, Any], own: dict[str, Any]) -> Study:
        base = self.base.put(values).put(own)
        plan = self.plan
        if isinstance(plan, Ablation):
            for path in own:
                if all(_overrides(arm, path) for arm in plan.arms.values()):
                    raise SpecError(f"{path} is set by every arm of {self.name}; give another path")
        else:
            plan = self._pinned(plan, own)
        return Study(**{**dict(self), "base": base, "plan": plan})

    def _pinned(self, plan: Search, own: dict[str, Any]) -> Search:
        space = plan.space.pinned(own)
        if space is None:
            raise SpecError(f"{', '.join(sorted(own))} is all that {self.name} searches; leave something open")
        first: list[dict[str, Any]] = []
        for point in plan.first:
            rest = {path: value for path, value in point.items() if path not in own}
            if space.opens(rest) and rest not in first:
                first.append(rest)
        return Search(**{**dict(plan), "space": space, "first": tuple(first)})


class Edition(Spec):
    """A study as it runs, under an id: base resolved, counts settled. `own_paths`: those that the user's values set."""

    budget: str = Field(pattern=rf"^{NAME}$", description="lower-case words joined by '-'")
    study: Study
    mark: str = Field(default="", pattern=r"^(~[\w-]+)?(\.\d+)?$", description="'~WORD', '.NUMBER' or both")
    own_paths: tuple[str, ...] = Field(default=(), strict=False)

    @property
    def id(self) -> str:
        """NAME@BUDGET, with ~xxxx for the user's own values and .2 for a fresh start."""
        return f"{self.study.name}@{self.budget}{self.mark}"

    @property
    def definition(self) -> dict[str, Any]:
        """What can change a run or choose a trial; under one id it may not change."""
        plan = placeless(self.study.plan.identity())
        for free in ("trials", "baseline"):
            plan.pop(free, None)
        return {"base": self.study.base.identity(), "plan": plan, "score": self.study.score.plain()}

    def fresh(self, number: int) -> Edition:
        """The same definition under the next id, with `.number`."""
        mark = re.sub(r"\.\d+$", "", self.mark) + f".{number}"
        return Edition(budget=self.budget, mark=mark, study=self.study, own_paths=self.own_paths)

    def trial(self, number: int, values: dict[str, Any], name: str = "") -> Trial:
        """A trial of this study: its values put on the base recipe."""
        return Trial(number=number, name=name or short(values), values=values, recipe=self.study.recipe(values))

    def arms(self) -> list[Trial]:
        """The trials of an ablation, in order."""
        assert isinstance(self.study.plan, Ablation)
        return [self.trial(number, values, name) for number, (name, values) in enumerate(self.study.plan.arms.items())]


def _overrides(arm: Mapping[str, Any], path: str) -> bool:
    """Whether an arm sets a path, a node that holds it, or that node's kind, which resets the node."""
    return any(path == said or path.startswith(f"{said.removesuffix('.kind')}.") for said in arm)
