"""Two sides compared trial by trial: what differs in their definitions, and whether scores can be compared at all.

Trials are matched by the name of the arm, or as the best and the first point of a search, else by equal recipes. A
difference is B minus A on the test set.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.study import Ablation, Edition, Search, Trial
from search_spaces.words import listed, plural, quoted, setting_words, space_words, value_words
from service.analysis.multiple_testing import Difference, together
from service.analysis.statistics import (
    FEWEST,
    Estimate,
    Interval,
    Scores,
    difference,
    drawn,
    estimate,
    on_curve,
    over_draws,
)
from service.analysis.trial_result import TrialResult, out_of_race
from service.storage.outcomes import Answered
from trainables.data.images import ImagesSpec
from trainables.recipe import Recipe
from trainables.spec import Spec, digest

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


@dataclass(frozen=True)
class Contender:
    """One trial to be compared. `place`: what it is matched by; `answers`: those that count, by seed."""

    place: str
    name: str
    trial: Trial
    test: Scores
    answers: Mapping[int, Answered]


@dataclass(frozen=True)
class Side:
    """One of the two sides. `label`: what a page calls it; `remarks`: what a reader must know of it.

    `looks`: how many times verdicts on its study could be seen (`History.looks`); `seeds`, `trials`: how many are asked
    for, `trials` of a search.
    """

    label: str
    edition: Edition
    contenders: tuple[Contender, ...]
    remarks: tuple[str, ...] = ()
    looks: int = 1
    seeds: int = 0
    trials: int = 0


def side(result: StudyResult) -> Side:
    """Returns a study as its report shows it: every arm, or the confirmed points of a search."""
    ablation = isinstance(result.edition.study.plan, Ablation)
    rows = result.of("trial") if ablation else result.confirmed
    contenders = [_of_row(row, place) for row in rows for place in _places(result, row)]
    remarks = tuple(_remarks(result, rows))
    history = result.history
    some = history.looks, history.seeds, history.trials_asked
    return Side(result.edition.id, result.edition, tuple(contenders), remarks, *some)


def _of_row(row: TrialResult, place: str) -> Contender:
    answers = {seed: run.answered for seed, run in row.runs.items() if run.answered is not None}
    name = row.name if place.startswith(("arm", "point")) else f"{place}: {row.name}"
    return Contender(place, name, row.trial, row.test, answers)


def _places(result: StudyResult, row: TrialResult) -> list[str]:
    """Returns what a row is matched by.

    The best and the first point of a search may be one trial, which then stands twice.
    """
    if isinstance(result.edition.study.plan, Ablation):
        return [arm_place(row.trial)]
    names = [name for name, named in result.named.items() if named is row]
    return names or [point_place(row.trial)]


def arm_place(trial: Trial) -> str:
    """Returns what an arm is matched by: its name."""
    return f"arm {trial.name}"


def point_place(trial: Trial) -> str:
    """Returns what a point of a search is matched by: all digits of its values."""
    return f"point {digest(trial.values)}"


def _remarks(result: StudyResult, rows: Sequence[TrialResult]) -> list[str]:
    id, remarks = result.edition.id, []
    if result.departure:
        remarks.append(f"{id}: {result.departure.why}")
    if out := out_of_race(rows):
        remarks.append(f"{id}: out of the race: {out}")
    if missing := [row.name for row in rows if not (row.test.complete or row.answer.raced)]:
        remarks.append(f"{id} lacks seeds of {', '.join(map(quoted, missing))}")
    if not isinstance(result.edition.study.plan, Ablation) and not result.confirmed:
        remarks.append(f"{id} has no confirmed point yet: points are not looked at on the test set before")
    if result.stale:
        remarks.append(f"{id}: {plural(result.stale, 'answer')} of other code not counted")
    return remarks


SURROUNDINGS = ("torch", "timm", "device", "host_cpu", "workers", "compile", "fused", "deterministic",
                "matmul_fp32_precision")  # fmt: skip
"""What of an environment can move numbers and is named where it differs."""
TRAIN_ONLY = ("train_size", "samples_per_class")
"""Fields of real images that do not change which images are tested."""
NOTHING = "none"

Pairs = Sequence[tuple[Contender, Contender]]


@dataclass(frozen=True)
class Change:
    """One thing that differs: what it is, and how each side has it."""

    what: str
    a: str
    b: str


def changes(one: Side, other: Side, pairs: Pairs) -> list[Change]:
    """Returns what differs between two sides: recipe and data, arms or space, score, counts.

    Then code and environment.
    """
    a, b = one.edition, other.edition
    changed = [*_nodes(a.study.base, b.study.base), *_plans(a, b)]
    changed += _unlike("score", a.study.score.metric, b.study.score.metric)
    changed += _unlike("budget", a.budget, b.budget)
    if one.trials and other.trials:  # of two searches
        changed += _unlike("trials", str(one.trials), str(other.trials))
    changed += _unlike("seeds", str(one.seeds), str(other.seeds))
    return [*changed, *_code(pairs), *_surroundings(pairs)]


def _unlike(what: str, a: str, b: str) -> list[Change]:
    return [Change(what, a, b)] if a != b else []


def _nodes(a: Any, b: Any, path: str = "") -> Iterator[Change]:
    """Yields every value in which two recipes differ; a node of two kinds as a whole."""
    alike = isinstance(a, Spec) and isinstance(b, Spec) and getattr(a, "kind", None) == getattr(b, "kind", None)
    if not alike:
        if a != b:
            yield Change(path, value_words(a), value_words(b))
        return
    for name in dict.fromkeys([*a.fields(), *b.fields()]):
        if name != "source":  # the text of a user's own file is code
            yield from _nodes(getattr(a, name, None), getattr(b, name, None), f"{path}.{name}" if path else name)


def _plans(a: Edition, b: Edition) -> Iterator[Change]:
    plan, other = a.study.plan, b.study.plan
    if isinstance(plan, Ablation) and isinstance(other, Ablation):
        yield from _arms(plan, other)
    elif isinstance(plan, Search) and isinstance(other, Search):
        yield from _searches(plan, other)
    else:
        yield Change("plan", plan.kind, other.kind)


def _arms(a: Ablation, b: Ablation) -> Iterator[Change]:
    for name in [*a.arms, *(name for name in b.arms if name not in a.arms)]:
        settings = [_set(plan.arms[name]) if name in plan.arms else "no such arm" for plan in (a, b)]
        yield from _unlike(f"arm {name}", *settings)
    yield from _unlike("baseline", a.baseline, b.baseline)
    yield from _unlike("tuning", *(_tuning(plan) for plan in (a, b)))
    yield from _unlike("race", *("yes" if plan.race else "no" for plan in (a, b)))


def _tuning(plan: Ablation) -> str:
    if not plan.tune:
        return NOTHING
    space = space_words(plan.tune.space)
    rest = {name: value for name, value in plan.tune.identity().items() if name != "space"}
    return "; ".join(setting_words(space | rest))


def _set(values: Mapping[str, Any]) -> str:
    return ", ".join(setting_words(values)) or "the base"


def _searches(a: Search, b: Search) -> Iterator[Change]:
    spaces = [space_words(plan.space) for plan in (a, b)]
    for path in dict.fromkeys([*spaces[0], *spaces[1]]):
        yield from _unlike(f"space {path}", *(space.get(path, "not searched") for space in spaces))
    yield from _unlike("sampler", a.sampler, b.sampler)
    yield from _unlike("random rival", *("yes" if plan.rival else "no" for plan in (a, b)))
    yield from _unlike("stop", *("never" if plan.stop is None else str(plan.stop.factor) for plan in (a, b)))
    first = ["; ".join(_set(point) for point in plan.first) or NOTHING for plan in (a, b)]
    yield from _unlike("tried first", *first)


def _code(pairs: Pairs) -> Iterator[Change]:
    """Yields the files whose code differs between the two answers of a seed, each once."""
    changed: dict[str, Change] = {}
    for a, b in pairs:
        same = a.trial.recipe == b.trial.recipe
        for files in _each_code(a):
            for other in _each_code(b):
                for name in {*files, *other} if same else files.keys() & other.keys():
                    if files.get(name) != other.get(name):
                        changed[name] = Change(
                            f"code of {name}", files.get(name, "none")[:7], other.get(name, "none")[:7]
                        )
    yield from (changed[name] for name in sorted(changed))


def _each_code(contender: Contender) -> list[dict[str, str]]:
    return list({answer.code.digest: answer.code.files for answer in contender.answers.values()}.values())


def _surroundings(pairs: Pairs) -> Iterator[Change]:
    for name in SURROUNDINGS:
        values = [_values(name, (pair[place] for pair in pairs)) for place in (0, 1)]
        if all(values):
            yield from _unlike(name, *values)


def _values(name: str, contenders: Iterable[Contender]) -> str:
    """Returns the values that an environment's entry has in the answers, the most frequent first."""
    counts = Counter(
        str(value)
        for contender in contenders
        for answered in contender.answers.values()
        if (value := answered.environment.get(name)) not in (None, "")
    )
    return ", ".join(value for value, _ in counts.most_common())


def other_scale(a: Recipe, b: Recipe) -> str:
    """Returns why two scores have nothing in common, in a clause; empty if they have the same metric and chance."""
    if a.data.scale == b.data.scale:
        return ""
    scale, other = (recipe.data.scale.replace(", ", " with chance ") for recipe in (a, b))
    return f"{scale} in A, {other} in B"


def other_images(a: Recipe, b: Recipe) -> str:
    """Lists what differs in the images and may explain a difference of the test scores; empty if they are alike."""
    differing = [change.what.removeprefix(".") for change in _nodes(a.data, b.data, "data")]
    harmless = ["data.normalize"]
    if isinstance(a.data, ImagesSpec) and isinstance(b.data, ImagesSpec):
        harmless += [f"data.{name}" for name in TRAIN_ONLY]
    paths = [path for path in differing if not path.startswith(tuple(harmless))]
    known = a.data.fingerprint == b.data.fingerprint or bool(paths)
    return listed(["the data set" if path == "data" else path for path in paths]) if known else "the files of the data"


def unpaired(who: Scores, than: Scores) -> Estimate | None:
    """Returns the mean of `who` minus that of `than`, whose seeds have nothing in common; None if either has no seed.

    Source: Welch 1947, The generalization of `Student's' problem when several different population variances are
    involved. Differs: the degrees of freedom are rounded down to a whole number, which widens the interval; the floor
    of `estimate` holds for each of the two; `over_draws`.
    """
    sides = who, than
    if not all(side.values for side in sides):
        return None
    ends = (who.scale.low - than.scale.high, who.scale.high - than.scale.low)
    twin = None
    if all(side.scale.curve for side in sides):
        twin = _welch([_mean(side, on_curve(side, [*side.values])) for side in sides])
    gap = _welch([_mean(side, [*side.values.values()]) for side in sides], ends, twin)
    return over_draws(
        gap, *(drawn([side], [sign], [*side.values]) for side, sign in zip(sides, (1.0, -1.0), strict=True))
    )


def _mean(side: Scores, values: Sequence[float]) -> Estimate:
    return estimate(values, side.scale.rounding, overlap=side.scale.overlap)


def _welch(means: Sequence[Estimate], ends: Interval = (-math.inf, math.inf), twin: Estimate | None = None) -> Estimate:
    """Returns the difference of two means, with its error and degrees of freedom.

    Without them where a mean has no error.
    """
    who, than = means
    n, mean = min(who.n, than.n), who.mean - than.mean
    if who.error is None or than.error is None:
        return Estimate(n, mean, low=ends[0], high=ends[1])
    both = math.hypot(who.error, than.error)
    parts = who.error**4 / (who.n - 1) + than.error**4 / (than.n - 1)
    df = max(1, math.floor(both**4 / parts * (1 + 1e-12))) if parts else who.n + than.n - 2
    return Estimate(n, mean, None, both, *ends, df, twin)


How = Literal["paired", "unpaired", "same runs", "no scores", "other scale"]


@dataclass(frozen=True)
class Match:
    """A trial of each side. `how`: how they are compared; `estimate`: B minus A; `seeds`: of each pair."""

    a: Contender
    b: Contender
    how: How
    estimate: Estimate | None = None
    seeds: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name that both share, or both names."""
        return self.a.name if self.a.name == self.b.name else f"{self.a.name} / {self.b.name}"

    @property
    def all_shared(self) -> bool:
        """Whether both have the very same runs, and neither has one more."""
        return self.how == "same runs" and len(self.seeds) == max(self.a.test.n, self.b.test.n)

    @property
    def how_words(self) -> str:
        """How they are compared, in a cell: `5 pairs`, `unpaired`, `same runs`.

        `3 same runs` where one of the two has more runs.
        """
        if self.how == "same runs" and not self.all_shared:
            return plural(len(self.seeds), "same run")
        if self.how != "paired":
            return self.how
        return plural(len(self.seeds), "pair")


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two studies set against each other."""

    a: Side
    b: Side

    @cached_property
    def matches(self) -> list[Match]:
        """The trials that both sides have, in the order of A."""
        return [_match(a, b) for a, b in _matched(self.a, self.b)]

    @cached_property
    def only(self) -> tuple[list[str], list[str]]:
        """The names of the trials that A has alone, and of those that B has alone."""
        taken = {id(contender) for match in self.matches for contender in (match.a, match.b)}
        a, b = ([row.name for row in side.contenders if id(row) not in taken] for side in (self.a, self.b))
        return a, b

    @property
    def look(self) -> int:
        """The look of the tests: that of the side that was looked at more often."""
        return max(self.a.looks, self.b.looks)

    @cached_property
    def differences(self) -> dict[int, Difference]:
        """B minus A, by the place of the match; all that can be tested are adjusted together (Holm)."""
        known = {
            str(place): (match.b.test, match.a.test, match.estimate)
            for place, match in enumerate(self.matches)
            if match.estimate is not None
        }
        tested = {place: gap for place, gap in known.items() if self.matches[int(place)].how != "same runs"}
        same = {place: Difference(*gap, None) for place, gap in known.items() if place not in tested}
        return {int(place): gap for place, gap in (together(tested, self.look) | same).items()}

    @cached_property
    def tests(self) -> int:
        """How many differences were tested together."""
        return sum(gap.adjusted is not None for gap in self.differences.values())

    @cached_property
    def changes(self) -> list[Change]:
        """What differs between the two sides."""
        pairs = [(match.a, match.b) for match in self.matches]
        return changes(self.a, self.b, pairs)

    @property
    def metrics(self) -> tuple[str, str]:
        """The metrics of the scores of A and of B."""
        return self.a.edition.study.score.test, self.b.edition.study.score.test

    @cached_property
    def warnings(self) -> list[str]:
        """Why the scores may not be comparable, and what each side lacks."""
        reasons: dict[str, list[str]] = {}
        for match in self.matches:
            recipes = match.a.trial.recipe, match.b.trial.recipe
            if scale := other_scale(*recipes):
                reasons.setdefault(f"scores are not comparable, so no difference is shown: {scale}", []).append(
                    match.name
                )
            elif images := other_images(*recipes):
                reasons.setdefault(f"the test images may differ, so scores may not be comparable: {images}", []).append(
                    match.name
                )
        named = [why if len(names) == len(self.matches) else f"{why} ({listed([*map(quoted, names)])})"
                 for why, names in reasons.items()]  # fmt: skip
        if any(match.how == "unpaired" for match in self.matches):
            named.append("without common seeds a difference is not paired (Welch's test), and so less sure")
        if not self.matches:
            named.append("no trial of A and B has the same name or the same recipe: nothing can be compared")
        return [*named, *dict.fromkeys([*self.a.remarks, *self.b.remarks])]

    def plain(self) -> dict[str, Any]:
        """Returns plain values, for --json."""
        return {
            "a": self.a.label,
            "b": self.b.label,
            "metric": self.metrics[0],
            "metric_b": self.metrics[1],
            "changes": [vars(change) for change in self.changes],
            "warnings": self.warnings,
            "trials": [self._row(place, match) for place, match in enumerate(self.matches)],
            "only_a": self.only[0],
            "only_b": self.only[1],
        }

    def _row(self, place: int, match: Match) -> dict[str, Any]:
        gap = self.differences.get(place)
        low, high = (gap.interval if gap else None) or (None, None)
        return {
            "name": match.name,
            **_scores("a", match.a.test),
            **_scores("b", match.b.test),
            "how": match.how,
            "seeds": list(match.seeds),
            "difference": gap.mean if gap else None,
            "low": low,
            "high": high,
            "p": gap.estimate.p() if gap and gap.adjusted else None,
            "p_holm": gap.p if gap else None,
        }


def _scores(name: str, scores: Scores) -> dict[str, Any]:
    return {
        f"{name}_n": scores.n,
        f"{name}_mean": scores.mean,
        f"{name}_std": scores.std,
        f"{name}_failed": len(scores.failed),
        f"{name}_diverged": len(scores.diverged),
    }


def _matched(a: Side, b: Side) -> Iterator[tuple[Contender, Contender]]:
    """Yields pairs by place, in the order of A; what is left is paired by equal recipes."""
    places = {contender.place: contender for contender in b.contenders}
    by_place = {id(contender): places[contender.place] for contender in a.contenders if contender.place in places}
    taken = {id(other) for other in by_place.values()}
    for contender in a.contenders:
        other = by_place.get(id(contender))
        if other is None:
            rest = (row for row in b.contenders if id(row) not in taken and row.trial.recipe == contender.trial.recipe)
            other = next(rest, None)
        if other is not None:
            taken.add(id(other))
            yield contender, other


def _match(a: Contender, b: Contender) -> Match:
    if other_scale(a.trial.recipe, b.trial.recipe):
        return Match(a, b, "other scale")
    shared = sorted(a.test.values.keys() & b.test.values.keys())
    if not a.test.values or not b.test.values:
        return Match(a, b, "no scores")
    own = [seed for seed in shared if not _same_answer(a, b, seed)]
    if shared and not own:
        return Match(a, b, "same runs", difference(b.test, a.test), tuple(shared))
    few = min(a.test.n, b.test.n) < FEWEST or len(own) < len(shared)  # what both share says nothing, in no test
    if len(own) >= FEWEST or (own and few):
        return Match(a, b, "paired", difference(b.test, a.test, own), tuple(own))
    return Match(a, b, "unpaired", unpaired(b.test, a.test))


def _same_answer(a: Contender, b: Contender, seed: int) -> bool:
    """Returns whether both sides have the very same answer at a seed: then its difference is 0 and says nothing."""
    answer, other = a.answers.get(seed), b.answers.get(seed)
    return answer is not None and other is not None and (answer.run.key, answer.name) == (other.run.key, other.name)
