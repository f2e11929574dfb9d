"""The plan of an ablation: named arms against a baseline, given one by one or as all combinations of axes.

An axis is a choice with named values, such as `encoding` or `read-out`. With axes the baseline is a value of one of
them, and every arm is compared with the arm that has this value and the same values on the other axes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import product
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from search_spaces.plans.search import Halving
from search_spaces.plans.tuning import Tuning
from search_spaces.space import Space
from search_spaces.words import MOST_LETTERS, is_name, listed, quoted, shortened, without_sources
from trainables.own import Values
from trainables.recipe import Recipe
from trainables.recipe.looked_up import looked_up
from trainables.sentence import did_you_mean, look_alikes
from trainables.spec import Spec, SpecError, digest, require

Axes = dict[str, dict[str, Values]]
Combination = dict[str, str]
"""A value of each axis, or of some, by name."""
BETWEEN = ", "
"""What stands between the values in the name of an arm."""


class Ablation(Spec):
    """Arms against a baseline; every arm runs every seed, unless they race.

    `arms` are given, or made of `axes`: an arm for each combination, named by its values in the order of the axes.
    `baseline`: an arm; with axes, a value of one axis. `without`: combinations to leave out; an arm is left out where
    it has all values of an entry, which need not name every axis. `tune`: each arm is tuned first, by the same search.
    `race`: an arm that is clearly below the best one gets no further seed (`service/planning/stopping.py`).
    """

    kind: Literal["ablation"] = Field(default="ablation", init=False)
    arms: dict[str, Values] = Field(default_factory=dict, description="{arm: {path: value}}")
    baseline: str = Field(default="", description="the name of an arm, or of a value of one axis")
    axes: Axes = Field(default_factory=dict, kw_only=True, description="{axis: {value: {path: value}}}")
    without: tuple[Annotated[Combination, Field(min_length=1)], ...] = Field(
        default=(), strict=False, kw_only=True, description="a list of {axis: value}"
    )
    tune: Tuning | None = Field(default=None, kw_only=True)
    race: bool = Field(default=False, kw_only=True, description="true or false")

    noun: ClassVar[str] = "arm"
    trials: ClassVar[int] = 0
    first: ClassVar[tuple[dict[str, Any], ...]] = ()
    stop: ClassVar[Halving | None] = None
    rival: ClassVar[bool] = False
    sampler: ClassVar[str] = ""
    space: ClassVar[Space | None] = None
    """What only a search has, an ablation has as nothing."""

    @property
    def chooses(self) -> bool:
        """Whether validation scores choose what is tested."""
        return self.tune is not None or self.race

    @property
    def size(self) -> int:
        """The number of trials that the plan asks for, without those that tune arms."""
        return len(self.arms)

    def names(self) -> list[str]:
        """Returns what claims and published numbers may name: the arms."""
        return [*self.arms]

    def paths(self) -> list[str]:
        """Returns the paths in which the trials differ."""
        paths = [path for values in self.arms.values() for path in without_sources(values)]
        return list(dict.fromkeys([*paths, *(self.tune.paths if self.tune else [])]))

    def whole(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the values of an arm, which are whole already."""
        return values

    def counted(self, trials: int | None, study: str, *, stop: bool) -> Ablation:
        """Returns the ablation with another number of trials that tune each arm, if one is given.

        Raises: SpecError if no arm is tuned.
        """
        if trials is None:
            return self
        if self.tune is None:
            arms = f"{study} is an ablation of {len(self.arms)} arms"
            raise SpecError(f"{arms}; trials are for searches, and for arms that are tuned")
        return self.tuned_by(Tuning(**{**dict(self.tune), "trials": trials}))

    def pinned(self, settings: Mapping[str, Any], study: str) -> Ablation:
        """Returns the ablation whose tuning leaves a user's own values as they are."""
        return self.tuned_by(self.tune.pinned(settings, study)) if self.tune and settings else self

    def check_own_paths(self, study: str, paths: Iterable[str]) -> None:
        """Refuses paths of the user's own that change no arm, or make an arm other than its name says."""
        for path in paths:
            if all(overrides(arm, path) for arm in self.arms.values()):
                raise SpecError(f"{path} is set by every arm of {study}; give another path")
            _require_same_arms(study, self.arms, path)

    def require_one_length(self) -> None:
        """Refuses nothing: arms are compared at their own lengths."""

    def all_over(self, base: Recipe) -> list[tuple[str, dict[str, Any]]]:
        """Returns the arms, by name."""
        return [*self.arms.items()]

    @model_validator(mode="before")
    @classmethod
    def _combined(cls, value: Any) -> Any:
        """Makes the arms of the axes, where no arms are given. What is no axis is left to the fields' own checks."""
        if isinstance(value, Mapping) and value.get("axes") and not value.get("arms") and _are_axes(value["axes"]):
            return {**value, "arms": _arms(value["axes"], _entries(value.get("without")))}
        return value

    @model_validator(mode="after")
    def _is_whole(self) -> Ablation:
        require(bool(self.arms), "arms", "given, or made of axes, one arm or more", "none")
        for name in self.arms:
            require(
                is_name(name), "arms", f"named in one line of 1 to {MOST_LETTERS} printable letters", shortened(name)
            )
        for names in look_alikes(self.arms):
            raise SpecError(f"arms must have names that differ to the eye, got {names}")
        if not self.axes:
            require(not self.without, "without", "left out where there are no axes", list(self.without))
            require(self.baseline in self.arms, "baseline", f"one of the arms {', '.join(self.arms)}", self.baseline)
            return self
        for name in (*self.axes, *(value for values in self.axes.values() for value in values)):
            require(bool(name.strip()) and "," not in name, "axes", "named in words without commas", name)
        same = self.arms == _arms(self.axes, self.without)
        require(same, "arms", "left out beside axes, which make them", ", ".join(self.arms))
        self._check_without()
        with_it = [axis for axis, values in self.axes.items() if self.baseline in values]
        every = ", ".join(value for values in self.axes.values() for value in values)
        got = f"{self.baseline} of {listed(with_it)}" if with_it else self.baseline
        require(len(with_it) == 1, "baseline", f"a value of one axis (the axes have {every})", got)
        compared = any(self.compared_with(arm) for arm in self.arms)
        require(compared, "without", f"such that an arm can be compared with one of {self.baseline}", "none")
        return self

    def _check_without(self) -> None:
        whole = [dict(zip(self.axes, names, strict=True)) for names in product(*self.axes.values())]
        for entry in self.without:
            possible = any(entry.items() <= names.items() for names in whole)
            require(possible, "without", f"of values of the axes {', '.join(self.axes)}", entry)

    def tuned_by(self, tune: Tuning) -> Ablation:
        """Returns the same arms, tuned in another way."""
        return Ablation(**{**dict(self), "tune": tune})

    @property
    def parts(self) -> list[str]:
        """What a budget may give other values: the arms; with axes, the values of all axes. By name."""
        return [name for named in self.axes.values() for name in named] if self.axes else [*self.arms]

    def resized(self, values: Mapping[str, Values]) -> Ablation:
        """Returns the same arms, some with other values instead of their own. `values`: by the name of a part."""
        if not self.axes:
            return Ablation(**{**dict(self), "arms": {**self.arms, **values}})
        axes = {
            axis: {name: values.get(name, part) for name, part in named.items()} for axis, named in self.axes.items()
        }
        return Ablation(**{**dict(self), "axes": axes, "arms": {}})

    def looked_up(self, kind: str) -> Ablation:
        """Returns the same arms with what is read from the images that they name, so that they stay what they are.

        `kind`: that of the base's data.
        """
        axes = {
            axis: {name: looked_up(part, kind) for name, part in named.items()} for axis, named in self.axes.items()
        }
        if axes:
            return self if axes == self.axes else Ablation(**{**dict(self), "axes": axes, "arms": {}})
        arms = {name: looked_up(part, kind) for name, part in self.arms.items()}
        return self if arms == self.arms else Ablation(**{**dict(self), "arms": arms})

    def only(self, names: Iterable[str]) -> Ablation:
        """Returns the arms of these names, and those that they are compared with.

        Of axes, the values of the baseline's axis.

        Raises: SpecError for a name that is none of them.
        """
        named = self.named
        for name in names:
            if name not in named:
                raise SpecError(f"arms must be some of {', '.join(named)}, got {name!r}{did_you_mean(name, [*named])}")
        kept = {name: values for name, values in named.items() if name in {*names, self.baseline}}
        if not self.axes:
            return Ablation(**{**dict(self), "arms": kept})
        axis = self.baseline_axis
        without = tuple(entry for entry in self.without if entry.get(axis, self.baseline) in kept)
        return Ablation(**{**dict(self), "axes": {**self.axes, axis: kept}, "arms": {}, "without": without})

    @property
    def named(self) -> dict[str, Values]:
        """What is compared with the baseline, and itself, by name: the arms; with axes, the values of its axis."""
        return self.axes[self.baseline_axis] if self.axes else self.arms

    def joined(self, added: Mapping[str, Values], without: tuple[Combination, ...] = ()) -> Ablation:
        """Returns these arms and others behind them. `added`: as `named` has it; `without`: what it leaves out."""
        named = {**self.named, **added}
        if not self.axes:
            return Ablation(**{**dict(self), "arms": named})
        axes = {**self.axes, self.baseline_axis: named}
        return Ablation(**{**dict(self), "axes": axes, "arms": {}, "without": (*self.without, *without)})

    def following(self, before: Ablation, *, keep: bool) -> Ablation:
        """Returns these arms in the order of those of before, with new ones behind them.

        `keep`: those of before that these lack stay, too.
        """
        plan = self
        if keep and (self.baseline_axis, [*self.axes]) == (before.baseline_axis, [*before.axes]):
            kept = {name: values for name, values in before.named.items() if name not in self.named}
            plan = self.joined(kept, tuple(entry for entry in before.without if entry not in self.without))
        order = dict.fromkeys([*(name for name in before.arms if name in plan.arms), *plan.arms])
        return Ablation(**{**dict(plan), "arms": {name: plan.arms[name] for name in order}})

    @property
    def baseline_axis(self) -> str:
        """The axis that has the baseline; "" where the arms are given one by one."""
        return next((axis for axis, values in self.axes.items() if self.baseline in values), "")

    @property
    def other_axes(self) -> list[str]:
        """The axes within whose values arms are compared: all but that of the baseline."""
        return [axis for axis in self.axes if axis != self.baseline_axis]

    def combination(self, arm: str) -> Combination:
        """Returns the value that an arm has on each axis; nothing if there are no axes."""
        return dict(zip(self.axes, arm.split(BETWEEN), strict=True)) if self.axes else {}

    def compared_with(self, arm: str) -> str | None:
        """Returns the arm that an arm is compared with.

        None for a baseline itself, or where its partner was left out.
        """
        names = {**self.combination(arm), self.baseline_axis: self.baseline} if self.axes else {}
        partner = BETWEEN.join(names.values()) if names else self.baseline
        return partner if partner in self.arms and partner != arm else None

    def partners(self, arms: Collection[str]) -> dict[str, str]:
        """Returns, by arm, the arm that it is compared with; of some arms, those whose partner is among them."""
        partners = {arm: self.compared_with(arm) for arm in arms}
        return {arm: partner for arm, partner in partners.items() if partner and partner in arms}

    def is_baseline(self, arm: str) -> bool:
        """Returns whether an arm is one that others are compared with."""
        return self.combination(arm)[self.baseline_axis] == self.baseline if self.axes else arm == self.baseline

    @property
    def baseline_words(self) -> str:
        """What an arm is compared with, in a sentence."""
        if len(self.axes) < 2:
            return quoted(self.baseline)
        return f"{quoted(self.baseline)} with the same {listed(self.other_axes)}"

    def grouped(self) -> list[str]:
        """Returns the arms, those with equal values of the other axes beside each other, in the order of the study."""
        order = [tuple(self.axes[axis]) for axis in self.other_axes]

        def place(arm: str) -> list[int]:
            names = self.combination(arm)
            return [values.index(names[axis]) for axis, values in zip(self.other_axes, order, strict=True)]

        return sorted(self.arms, key=place)


def leave_one_out(parts: Mapping[str, Mapping[str, Any]], everything: str = "all") -> dict[str, dict[str, Any]]:
    """Returns the arms that show what each part does: all parts, and an arm for each part without it.

    `parts`: by the name of a part, the values that switch it off on a base recipe that has every part.
    `everything`: the name of the arm with all parts, which is the baseline.
    """
    arms: dict[str, dict[str, Any]] = {everything: {}}
    if not isinstance(parts, Mapping):
        raise SpecError(f"parts must be {{part: {{path: value}}}}, what switches each off, got {parts!r}")
    for name, off in parts.items():
        if not off or not isinstance(off, Mapping):
            raise SpecError(f"parts.{name} must be the values that switch it off, got {repr(off) if off else 'none'}")
        arms[f"without {name}"] = dict(off)
    return arms


def require_different(recipes: Mapping[str, Any]) -> None:
    """Refuses arms that are one recipe: their difference would be 0 whatever is true.

    A value of the user's own can make them so: if an arm leaves a path alone, `--set` of that path changes what the
    arm is. `recipes`: the identity of each arm's recipe.
    """
    seen: dict[str, str] = {}
    for name, recipe in recipes.items():
        other = seen.setdefault(digest(recipe), name)
        if other != name:
            raise SpecError(
                f"arms must be different recipes, got {other!r} and {name!r} alike (of axes, `without` leaves one out)"
            )


def overrides(arm: Mapping[str, Any], path: str) -> bool:
    """Returns whether an arm sets a path, a node that holds it, or that node's kind, which resets the node."""
    return any(path == key or path.startswith(f"{key.removesuffix('.kind')}.") for key in arm)


def _require_same_arms(study: str, arms: Mapping[str, Mapping[str, Any]], path: str) -> None:
    """Refuses a path that makes some arms other than their names say.

    An arm is known by the kind of its encoding, model or data, and by the values of its encoding. If others leave
    such a path alone, the base's value is what they are.
    """
    node = path.removesuffix(".kind")
    if node not in ("encoding", "model", "data") and not node.startswith("encoding."):
        return
    with_kind = [name for name, arm in arms.items() if {node, f"{node}.kind"} & {*arm}]
    left = [name for name, arm in arms.items() if not overrides(arm, path)]
    if with_kind and left:
        raise SpecError(
            f"{path} is what arms of {study} differ in: {quoted(with_kind[0])} sets it, and {quoted(left[0])} would no "
            "longer be what its name says; write arms of your own"
        )


def _are_axes(given: Any) -> bool:
    """Returns whether a value has the form of axes."""
    return isinstance(given, Mapping) and all(
        isinstance(values, Mapping) and all(isinstance(value, Mapping) for value in values.values())
        for values in given.values()
    )


def _entries(given: Any) -> list[Mapping[str, str]]:
    entries = given if isinstance(given, list | tuple) else []
    return [entry for entry in entries if isinstance(entry, Mapping) and entry]


def _arms(
    axes: Mapping[str, Mapping[str, Mapping[str, Any]]], without: Iterable[Mapping[str, str]]
) -> dict[str, dict[str, Any]]:
    """Returns an arm for each combination of values that is not left out. The last axis changes fastest."""
    arms = {}
    for names in product(*axes.values()):
        chosen = dict(zip(axes, names, strict=True))
        if not any(entry.items() <= chosen.items() for entry in without):
            arms[BETWEEN.join(map(str, names))] = dict(_values(axes, chosen))
    return arms


def _values(axes: Mapping[str, Mapping[str, Mapping[str, Any]]], chosen: Combination) -> Iterator[tuple[str, Any]]:
    """Yields the values of one combination. No two axes may set the same: one would silently replace the other."""
    setters: dict[str, str] = {}
    for axis, name in chosen.items():
        for path in axes[axis][name]:
            before = setters.setdefault(path.removesuffix(".kind"), axis)
            require(before == axis, "axes", f"such that one axis sets {path}", f"{before} and {axis}")
        yield from axes[axis][name].items()
