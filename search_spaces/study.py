"""A study is a question with a plan. It is data only, so that it travels as JSON.

A file of `studies/` defines a `Study`. An `Edition` is a study at a budget with a user's own values; its id is such as
`fourier-gamma@cpu`, and its definition may not change under that id.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from search_spaces.claim import AtChance, Claim, ClaimOfProbe
from search_spaces.fit import Fit as Fit
from search_spaces.fit import has_patch, kept_size
from search_spaces.leaves import is_of_data, leaves
from search_spaces.own_arms import Arm, beside, own_arms
from search_spaces.plans.ablation import Ablation as Ablation
from search_spaces.plans.ablation import require_different
from search_spaces.plans.search import Halving as Halving
from search_spaces.plans.search import Search as Search
from search_spaces.plans.tuning import Tuning as Tuning
from search_spaces.plans.tuning import check_tuning
from search_spaces.published import Published as Published
from search_spaces.roles import MOST_SEEDS, MOST_TRIALS, SEEDS, TRIALS, Role
from search_spaces.space import require_base_kept
from search_spaces.trial import Score as Score
from search_spaces.trial import Trial as Trial
from search_spaces.words import placeless, rough_time, short, shortened
from trainables.own import Values
from trainables.recipe import Recipe
from trainables.recipe.findings import ProbeNames
from trainables.spec import Spec, SpecError, digest, require

NAME, WORDS, LONGEST = r"[a-z0-9]+(-[a-z0-9]+)*", "lower-case words joined by '-', at most 80 letters", 80
"""What studies and budgets are called, for their names become names of folders; and the same in words."""


class Budget(Spec):
    """How large: values put on the base recipe, and counts."""

    values: Values = Field(default_factory=dict)
    arms: dict[str, Values] = Field(default_factory=dict, kw_only=True, description="{arm: {path: value}}")
    """Of an ablation: what some arms, or values of axes, are at this size instead, such as a backbone of full size."""
    trials: int | None = Field(default=None, gt=0, le=MOST_TRIALS, description=TRIALS)
    """Of a search, or of each arm's tuning."""
    seeds: int | None = Field(default=None, gt=0, le=MOST_SEEDS, description=SEEDS)
    stop: bool = True
    """False: nothing is stopped at this size; a handful of trials is too few to halve."""
    rival: bool = True
    """False: no random points are tried at this size, and claims about them are left out."""
    chance: bool = True
    """False: images of this size show more than position, so claims that a trial is at chance are left out."""
    gap: str = ""
    """In what this size differs from the paper's protocol."""
    fit: Fit | None = None
    """What is spent on a run, where sizes follow from the images; null where the values say them."""


Plan = Annotated[Search | Ablation, Field(discriminator="kind")]


class Study(Spec):
    """One question about position encodings, and everything needed to answer it.

    `family` groups studies in MLflow (the paper's short name), `paper` is the source of the question, `expected` what
    to expect, `found` what came out at a budget before there were records, `gaps` in what it differs from the paper's
    protocol. `minutes`: what budgets take on 2 cores, measured, or scaled from other counts of seeds and points; an
    estimate for those that are `not_run` yet; `gpu_hours`: what `locus plan` predicts for those that are too large to
    be run here. `usual`: the arms of an ablation that run where the user names none; all if it is empty.
    """

    name: str = Field(pattern=rf"^{NAME}$", max_length=LONGEST, description=WORDS)
    question: str
    base: Recipe
    plan: Plan
    score: Score = Score()
    seeds: int = Field(default=5, gt=0, le=MOST_SEEDS, description=SEEDS)
    budgets: dict[str, Budget] = Field(default_factory=dict)
    published: tuple[Published, ...] = Field(default=(), strict=False)
    claims: tuple[Claim, ...] = Field(default=(), strict=False)
    usual: tuple[str, ...] = Field(default=(), strict=False)
    keep: tuple[Literal["weights"], ...] = Field(default=("weights",), strict=False, description="a list: weights")
    probes: ProbeNames = ()
    family: str = Field(default="sweeps", pattern=r"^[\w.-]+$", description="a short word")
    paper: str = ""
    minutes: dict[str, float] = Field(default_factory=dict)
    not_run: tuple[str, ...] = Field(default=(), strict=False)
    gpu_hours: dict[str, float] = Field(default_factory=dict)
    expected: str = ""
    found: dict[str, str] = Field(default_factory=dict)
    gaps: tuple[str, ...] = Field(default=(), strict=False)

    @field_validator("plan")
    @classmethod
    def _looks_up(cls, plan: Plan, info: ValidationInfo) -> Plan:
        """Reads the images that arms name once: a study that is stored asks the same when they have changed."""
        base = info.data.get("base")
        return plan if base is None else plan.looked_up(base.data.kind)

    @model_validator(mode="after")
    def _builds(self) -> Study:
        metric = f"val/{self.base.data.reported}"
        require(self.score.metric == metric, "score.metric", f"{metric!r} for {self.base.data.kind}", self.score.metric)
        sizes = [*self.budgets] or ["base"]
        require({*self.not_run} <= {*sizes}, "not_run", f"some of {', '.join(sizes)}", [*self.not_run])
        ran = [size for size in sizes if size not in self.not_run]
        require({*self.found} <= {*ran}, "found", f"by budget ({', '.join(ran) or 'none was run'})", [*self.found])
        require("weights" in self.keep or not self.probes, "keep", "weights where probes are named", [*self.keep])
        for name, size in self.budgets.items():
            named = re.fullmatch(NAME, name) is not None and len(name) <= LONGEST
            require(named, f"budgets.{shortened(name)}", f"named by {WORDS}", shortened(name))
            must = f"values of {', '.join(self.plan.parts) or 'no arm: a search has none'}"
            require(not {*size.arms} - {*self.plan.parts}, f"budgets.{name}.arms", must, [*size.arms])
        for name, point in self.plan.all_over(self.base):
            try:
                self._require_same_score(self.recipe(point))
            except SpecError as error:
                raise SpecError(
                    f"arm {name!r}: {error}" if name else f"{error}; {self._said_of_space(str(error))}"
                ) from None
            self._require_untouched(self.recipe(point))
            if self.plan.space is not None:
                require_base_kept(self.base, point, self.recipe(point))
        if self.plan.arms:
            parts = self.plan.parts
            require({*self.usual} <= {*parts}, "usual", f"some of {', '.join(parts)}", [*self.usual])
            require_different({name: self.recipe(point).identity() for name, point in self.plan.arms.items()})
        if self.plan.tune:
            check_tuning(self.plan.tune, self.base, self.plan.arms)
        names = self.names()
        for who in (who for claim in self.claims for who in claim.names):
            require(who in names, "claims", f"about one of {', '.join(names)}", who)
        for probe in (claim.probe for claim in self.claims if isinstance(claim, ClaimOfProbe)):
            require(probe in self.probes, "claims", "about a probe that `probes` names", probe)
        return self

    def _said_of_space(self, error: str) -> str:
        """Returns what to know of the space where one of its points builds no recipe."""
        if error.startswith("no field"):
            return f"the space of {self.name} names {', '.join(self.paths())}"
        return (
            f"each point of the space of {self.name} must build a recipe: Above keeps a path above another one, Choice "
            "and Subset list legal values"
        )

    def _require_same_score(self, recipe: Recipe) -> None:
        """Refuses a recipe whose score cannot be compared with the base's."""
        data, base = recipe.data, self.base.data
        if data.scale != base.scale:
            raise SpecError(
                f"data must have the metric and the chance of the base ({base.scale}), as scores are compared, got "
                f"{data.scale}; with data.skill true all data have the same"
            )

    def _require_untouched(self, recipe: Recipe) -> None:
        """Refuses a recipe whose values are chosen by the images that then test it."""
        if self.plan.chooses and recipe.data.cross_validated:
            raise SpecError(
                "data.test_size must be given, or a folder test, where data.folds is, and points are searched, or arms "
                "tuned or raced: else the folds that choose test, too"
            )

    def recipe(self, values: dict[str, Any]) -> Recipe:
        """Returns the recipe of an arm or a point; the same object for the same values, as a large study has many."""
        return self.base.variant(self.plan.whole(values))

    def names(self) -> list[str]:
        """Returns what claims and published numbers may name: arms, or `best`, `first` and, with a rival, `random`."""
        return self.plan.names()

    def paths(self) -> list[str]:
        """Returns the paths in which this study's trials differ."""
        return self.plan.paths()

    def at(
        self,
        budget: str | None = None,
        *,
        set: dict[str, Any] | None = None,
        name: str = "",
        trials: int | None = None,
        seeds: int | None = None,
        arms: Iterable[Arm] = (),
        label: str = "",
    ) -> Edition:
        """Returns the study at a budget, with the user's own values and counts; `name` marks the edition.

        `arms`: those of an ablation that run, beside its baseline; where none is named, the usual ones of the study,
        and all for `all`. Encodings of a person's own may be among them. `label`: stands in the mark of an edition
        without a name.
        Raises: SpecError for an unknown budget, a value that no recipe takes, a value that every arm overrides, an
        unknown arm, a search over epochs with early stopping.
        """
        if isinstance(arms, str) or not isinstance(arms, Iterable):
            raise SpecError(f"arms must be a list of names, such as [{str(arms)!r}], got {arms!r}")
        chosen = budget or ("cpu" if "cpu" in self.budgets else "base")
        if chosen != "base" and chosen not in self.budgets:
            raise SpecError(f"{self.name} has no budget {chosen!r}; known: {', '.join(['base', *self.budgets])}")
        size = self.budgets.get(chosen, Budget())
        usual = self._asked([])
        edition = usual._edition(chosen, size, {}, seeds, trials)
        names, added = own_arms(arms)
        more = Study(**{**dict(self), "plan": beside(self.name, self.plan, added)}) if added else self
        mark, settings, chosen_arms = name, leaves(set or {}), more._asked(names) if names else usual
        differs = bool(settings) or chosen_arms is not usual
        changed = chosen_arms._edition(chosen, size, settings, seeds, trials) if differs else edition
        if changed.study != edition.study:  # values that are there already make no other edition
            mark = name or "-".join(filter(None, (label, digest(changed.definition, 4))))
            edition = changed.model_copy(update={"own_paths": tuple(settings), "some_arms": chosen_arms is not usual})
        edition.study.plan.require_one_length()
        return edition.named(mark)

    def _edition(
        self, budget: str, size: Budget, settings: dict[str, Any], seeds: int | None, trials: int | None
    ) -> Edition:
        """Returns the study with a budget's values and the user's own, and with its counts."""
        gaps = (*self.gaps, size.gap) if size.gap else self.gaps
        sized = self._asked_at(size)._with(size, settings)
        budgeted = sized.counted(seeds=size.seeds, trials=size.trials, stop=size.stop, gaps=gaps, minutes=self.minutes)
        return Edition(budget=budget, study=budgeted.counted(seeds=seeds, trials=trials))

    def _asked(self, arms: list[str]) -> Study:
        """Returns the study with the arms that the user names; with its usual ones for none, with all for `all`."""
        if not self.usual:
            return self.only(arms)
        if arms == ["all"]:
            return Study(**{**dict(self), "usual": (), "minutes": {}})
        return self.only(arms) if arms else Study(**{**dict(self.only([*self.usual])), "minutes": self.minutes})

    def only(self, arms: list[str]) -> Study:
        """Returns the study with these arms and its baseline alone, without what it says of others.

        Itself for no names.

        Raises: SpecError for an unknown arm, and for a search, which has none.
        """
        if not arms:
            return self
        if not isinstance(self.plan, Ablation):
            raise SpecError(f"arms are those of an ablation, and {self.name} is a search")
        plan = self.plan.only(arms)
        known = {*plan.arms}
        budgets = {
            name: size.model_copy(
                update={"arms": {arm: settings for arm, settings in size.arms.items() if arm in plan.parts}}
            )
            for name, size in self.budgets.items()
        }
        left = Study(**{**dict(self), "plan": plan, "budgets": budgets, "claims": (), "published": (), "usual": ()})
        claims = tuple(claim for claim in self.claims if {*claim.names} <= {*left.names()})
        published = tuple(entry for entry in self.published if entry.who in known)
        return Study(**{**dict(left), "claims": claims, "published": published, "minutes": {}})

    def time_words(self, budget: str) -> str:
        """Returns what a budget takes, in words: `28 min`, `estimated 30 min`, `2.7 GPU-hours`; nothing if unknown."""
        if budget in self.minutes:
            return "estimated " * (budget in self.not_run) + rough_time(self.minutes[budget])
        return f"{self.gpu_hours[budget]:g} GPU-hours" if budget in self.gpu_hours else ""

    def counted(
        self, *, seeds: int | None = None, trials: int | None = None, stop: bool = True, **fields: Any
    ) -> Study:
        """Returns the study with other counts, where they are given, and other fields.

        `stop`: False stops no trial early.

        What its budgets take (`minutes`) is unknown with other counts. `trials`: of a search, or of each arm's tuning.
        Raises: SpecError for the trials of an ablation without tuning.
        """
        plan = self.plan.counted(trials, self.name, stop=stop)
        seeds = self.seeds if seeds is None else seeds
        same = (seeds, plan) == (self.seeds, self.plan)
        if same and not fields:
            return self  # to build a study builds every arm
        minutes = self.minutes if same else {}
        return Study(**{**dict(self), "seeds": seeds, "plan": plan, "minutes": minutes, **fields})

    def _asked_at(self, size: Budget) -> Study:
        """Returns the study without what this size leaves out: random points, claims about them and about chance."""
        if size.rival and size.chance:
            return self  # to build a study builds every arm
        plan = self.plan if size.rival else Search(**{**dict(self.plan), "rival": False})
        claims = [claim for claim in self.claims if size.rival or "random" not in claim.names]
        claims = [claim for claim in claims if size.chance or not isinstance(claim, AtChance)]
        return Study(**{**dict(self), "plan": plan, "claims": tuple(claims)})

    def _with(self, size: Budget, settings: dict[str, Any]) -> Study:
        base, plan = self.base.variant(size.values) if size.values else self.base, self.plan
        plan = plan.resized(size.arms) if size.arms else plan
        fits = size.fit and has_patch(settings, base.model)
        any_side = {"model.patch_size": 1} if fits else {}  # a patch that fits the user's images
        if settings:
            base = base.variant(any_side | settings | ({} if size.fit else kept_size(settings, base)))
        if size.fit:
            base = base.variant(size.fit.values(base, settings))
        plan.check_own_paths(self.name, settings)
        plan = plan.pinned(settings, self.name)
        return Study(**{**dict(self), "base": base, "plan": plan, "score": Score(f"val/{base.data.reported}")})


class Edition(Spec):
    """A study as it runs, under an id: base resolved, counts settled.

    `own_paths`: those that the user's values set. `some_arms`: True if the user named the arms that run.
    """

    budget: str = Field(pattern=rf"^{NAME}$", max_length=LONGEST, description=WORDS)
    study: Study
    mark: str = Field(default="", pattern=r"^(~[\w-]+)?$", description="'~WORD', or empty")
    own_paths: tuple[str, ...] = Field(default=(), strict=False)
    some_arms: bool = False

    @property
    def id(self) -> str:
        """NAME@BUDGET, with ~WORD for a name that the user gave, and ~xxxx for own values without one."""
        return f"{self.study.name}@{self.budget}{self.mark}"

    @property
    def stated_time(self) -> str:
        """What the budget takes on 2 cores, in words; nothing if the study says nothing, or values were changed.

        If sizes follow from the images, it holds for any images.
        """
        size = self.study.budgets.get(self.budget)
        fits = size is not None and size.fit is not None and all(map(is_of_data, self.own_paths))
        known = (fits or not self.mark) and self.budget in self.study.minutes
        return self.study.time_words(self.budget) if known else ""

    @property
    def definition(self) -> dict[str, Any]:
        """What can change a run or choose a trial; under one id it may not change."""
        plan = placeless(self.study.plan.identity())
        # axes make arms, and the arms are in the definition
        for free in ("trials", "baseline", "axes", "without"):
            plan.pop(free, None)
        return {"base": self.study.base.identity(), "plan": plan, "score": self.study.score.plain()}

    @property
    def claims_digest(self) -> str:
        """What tells these claims from others: they may change, but not unseen."""
        return digest([claim.plain() for claim in self.study.claims])

    def named(self, name: str) -> Edition:
        """Returns the same definition under the id of a name, NAME@BUDGET~name; without one for an empty name.

        Raises: SpecError for a name that cannot be one of a folder.
        """
        if not isinstance(name, str) or not re.fullmatch(r"[\w-]{0,60}", name):
            must = "a version's name must be at most 60 letters, digits, '-' and '_'"
            raise SpecError(f"{must}, got {shortened(str(name))!r}")
        return self.model_copy(update={"mark": f"~{name}" if name else ""})

    def trial(
        self,
        number: int,
        values: dict[str, Any],
        name: str = "",
        role: Role = "trial",
        tunes: tuple[str, int] | None = None,
    ) -> Trial:
        """Returns a trial of this study: its values put on the base recipe.

        The same object for the same trial, as recipes.
        """
        recipe, name = self.study.recipe(values | self._length(role)), name or short(values)
        known = self._trials.get((role, number, name))
        if known is None or known.recipe is not recipe:
            known = Trial(number=number, name=name, values=values, recipe=recipe, role=role, tunes=tunes)
            self._trials[role, number, name] = known
        return known

    def _length(self, role: Role) -> dict[str, Any]:
        """Returns the values that end a tuning trial at the shortest length, where it is to end there."""
        plan, optimizer = self.study.plan, self.study.base.optimizer
        tune = plan.tune if role == "tuning" else None
        if tune is None or tune.length == "longest":
            return {}
        return {"optimizer.epochs": optimizer.every_length[0], "optimizer.lengths": ()}

    @cached_property
    def _trials(self) -> dict[tuple[Role, int, str], Trial]:
        return {}

    def arms(self) -> list[Trial]:
        """Returns the trials of an ablation, in order; none of a search."""
        return [self.trial(number, values, name) for number, (name, values) in enumerate(self.study.plan.arms.items())]

    @property
    def recipes(self) -> list[Recipe]:
        """The recipes of all arms; of a search, its base."""
        return [arm.recipe for arm in self.arms()] or [self.study.base]

    def tuning_trial(self, arm: str, number: int, point: dict[str, Any]) -> Trial:
        """Returns the trial of a point that may tune an arm."""
        plan = self.study.plan
        assert plan.tune is not None
        values, tunes = plan.tune.put_on(plan.arms[arm], point), (arm, [*plan.arms].index(arm))
        return self.trial(number, values, f"{arm}: {short(point)}", role="tuning", tunes=tunes)
