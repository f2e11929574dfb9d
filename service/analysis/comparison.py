"""Two studies compared trial by trial: how their definitions differ, and whether their scores can be compared at all.

Trials are matched by the name of the arm, or as the best and the first point of a search, else by equal recipes. A
difference is B minus A on the test set.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from search_spaces.study import Ablation, Edition, Search, Trial
from search_spaces.words import listed, plural, quoted, setting_words, space_words, value_words
from service.analysis.multiple_testing import Difference, difference, on_curve, together
from service.analysis.statistics import FEWEST, Estimate, Interval, Scores, drawn, estimate, over_draws
from service.analysis.trial_result import out_of_race
from service.storage.outcomes import Answered
from trainables.data.images import ImagesSpec
from trainables.recipe import Recipe
from trainables.recipe.revisions import code_of
from trainables.spec import Spec, digest

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


@dataclass(frozen=True)
class Contender:
    """One trial of a side. `key` is the text by which it is matched with a trial of the other side.

    `answers` has the answers (the stored outcomes of its runs) that count, by seed.
    """

    key: str
    name: str
    trial: Trial
    test: Scores
    answers: Mapping[int, Answered]


@dataclass(frozen=True)
class Side:
    """One of the two studies that are compared.

    `label` is its name on a page; `remarks` are sentences about it that a reader must know. `looks` is how many times
    verdicts on its study could be seen (`History.looks`). `seeds` is how many seeds are asked for, and `trials` how
    many trials, if it is a search.
    """

    label: str
    edition: Edition
    contenders: tuple[Contender, ...]
    remarks: tuple[str, ...] = ()
    looks: int = 1
    seeds: int = 0
    trials: int = 0


def side(result: StudyResult) -> Side:
    """Returns one side, with the trials that the study's report shows: every arm, or a search's confirmed points.

    An arm is matched by its name, a point by all digits of its values, and a named point, such as the best one, by this
    name. If the best and the first point of a search are one trial, it stands twice.
    """
    id, history = result.edition.id, result.history
    is_search, rows = not result.edition.study.plan.arms, result.compared

    contenders = []
    for row in rows:
        answers = {seed: run.answered for seed, run in row.runs.items() if run.answered is not None}
        names = [name for name, named in result.named.items() if named is row] if is_search else []
        by_itself = f"point {digest(row.trial.values)}" if is_search else f"arm {row.name}"
        contenders += [Contender(name, f"{name}: {row.name}", row.trial, row.test, answers) for name in names]
        if not names:
            contenders.append(Contender(by_itself, row.name, row.trial, row.test, answers))

    remarks = []
    if result.departure:
        remarks.append(f"{id}: {result.departure.why}")
    if out := out_of_race(rows):
        remarks.append(f"{id}: out of the race: {out}")
    if missing := [row.name for row in rows if not (row.test.complete or row.answer.raced)]:
        remarks.append(f"{id} lacks seeds of {', '.join(map(quoted, missing))}")
    if is_search and not result.confirmed:
        remarks.append(f"{id} has no confirmed point yet: points are not looked at on the test set before")
    if result.stale:
        remarks.append(f"{id}: {plural(result.stale, 'answer')} of other code not counted")
    counts = history.looks, history.seeds, history.trials_asked
    return Side(id, result.edition, tuple(contenders), tuple(remarks), *counts)


SURROUNDINGS = ("torch", "timm", "device", "host_cpu", "workers", "compile", "fused", "deterministic",
                "matmul_fp32_precision")  # fmt: skip
"""The entries of a run's environment that can change its numbers; a comparison names those that differ."""
TRAIN_ONLY = ("train_size", "samples_per_class")
"""Fields of real images that do not change which images are tested."""

Pairs = Sequence[tuple[Contender, Contender]]


@dataclass(frozen=True)
class Change:
    """One thing that differs between two sides: `what` names it, `a` and `b` say what each side has there."""

    what: str
    a: str
    b: str


def changes(a: Side, b: Side, pairs: Pairs) -> list[Change]:
    """Returns the differences of two sides in recipe and data, arms or space, score, counts, code and environment."""
    study, other = a.edition.study, b.edition.study
    changed = [*_nodes(study.base, other.base), *_plans(study.plan, other.plan)]
    changed += _unlike("score", study.score.metric, other.score.metric)
    changed += _unlike("budget", a.edition.budget, b.edition.budget)
    if a.trials and b.trials:  # of two searches
        changed += _unlike("trials", str(a.trials), str(b.trials))
    changed += _unlike("seeds", str(a.seeds), str(b.seeds))
    return [*changed, *_own_files(pairs), *_surroundings(pairs)]


def _unlike(name: str, a: str, b: str) -> list[Change]:
    """Returns a list with one change if the two texts differ, else an empty list."""
    return [Change(name, a, b)] if a != b else []


def _nodes(a: Any, b: Any, path: str = "") -> Iterator[Change]:
    """Yields every field in which two recipes differ; nodes of two different kinds are one change."""
    alike = isinstance(a, Spec) and isinstance(b, Spec) and getattr(a, "kind", None) == getattr(b, "kind", None)
    if not alike:
        if a != b:
            yield Change(path, value_words(a), value_words(b))
        return
    for name in dict.fromkeys([*a.fields(), *b.fields()]):
        if name != "source":  # the text of a user's own file is code
            yield from _nodes(getattr(a, name, None), getattr(b, name, None), f"{path}.{name}" if path else name)


def _plans(a: Ablation | Search, b: Ablation | Search) -> Iterator[Change]:
    """Yields the differences of two plans: in the arms, or in what a search does; or only that the kinds differ."""

    def settings(values: Mapping[str, Any]) -> str:
        return ", ".join(setting_words(values)) or "the base"

    match a, b:
        case Ablation(), Ablation():
            for name in dict.fromkeys([*a.arms, *b.arms]):
                arms = [settings(plan.arms[name]) if name in plan.arms else "no such arm" for plan in (a, b)]
                yield from _unlike(f"arm {name}", *arms)
            yield from _unlike("baseline", a.baseline, b.baseline)
            tunings = []
            for tune in (a.tune, b.tune):
                rest = {name: value for name, value in tune.identity().items() if name != "space"} if tune else {}
                tunings.append("; ".join(setting_words(space_words(tune.space) | rest)) if tune else "none")
            yield from _unlike("tuning", *tunings)
            yield from _unlike("race", *("yes" if plan.race else "no" for plan in (a, b)))
        case Search(), Search():
            spaces = [space_words(plan.space) for plan in (a, b)]
            for path in dict.fromkeys([*spaces[0], *spaces[1]]):
                yield from _unlike(f"space {path}", *(space.get(path, "not searched") for space in spaces))
            yield from _unlike("sampler", a.sampler, b.sampler)
            yield from _unlike("random rival", *("yes" if plan.rival else "no" for plan in (a, b)))
            yield from _unlike("stop", *("never" if plan.stop is None else str(plan.stop.factor) for plan in (a, b)))
            yield from _unlike("tried first", *("; ".join(map(settings, plan.first)) or "none" for plan in (a, b)))
        case _:
            yield Change("plan", a.kind, b.kind)


def _own_files(pairs: Pairs) -> Iterator[Change]:
    """Yields each own file that both trials of a pair use and that differs. Of revisions only today's count."""
    changed = {}
    for pair in pairs:
        one, other = (code_of(each.trial.recipe).revisions for each in pair)
        for name in one.keys() & other.keys():
            if one[name] != other[name]:
                changed[name] = Change(f"code of {name}", str(one[name])[:7], str(other[name])[:7])
    yield from (changed[name] for name in sorted(changed))


def _surroundings(pairs: Pairs) -> Iterator[Change]:
    """Yields the entries in which the environments of two sides differ, with their values, the most frequent first."""
    for name in SURROUNDINGS:
        values = []
        for side_of in (0, 1):
            answers = [answered for pair in pairs for answered in pair[side_of].answers.values()]
            entries = [value for answered in answers if (value := answered.environment.get(name)) not in (None, "")]
            values.append(", ".join(value for value, _ in Counter(map(str, entries)).most_common()))
        if all(values):
            yield from _unlike(name, *values)


def other_scale(a: Recipe, b: Recipe) -> str:
    """Returns a clause that says why the scores of two recipes cannot be compared; empty if metric and chance agree."""
    if a.data.scale == b.data.scale:
        return ""
    scale, other = (recipe.data.scale.replace(", ", " with chance ") for recipe in (a, b))
    return f"{scale} in A, {other} in B"


def other_images(a: Recipe, b: Recipe) -> str:
    """Returns, in words, the differences of the images that may explain unlike test scores; empty if there is none."""
    differing = [change.what.removeprefix(".") for change in _nodes(a.data, b.data, "data")]
    harmless = ["data.normalize"]
    if isinstance(a.data, ImagesSpec) and isinstance(b.data, ImagesSpec):
        harmless += [f"data.{name}" for name in TRAIN_ONLY]
    paths = [path for path in differing if not path.startswith(tuple(harmless))]
    if not paths and a.data.fingerprint != b.data.fingerprint:
        return "the files of the data"
    return listed(["the data set" if path == "data" else path for path in paths])


def unpaired(who: Scores, than: Scores) -> Estimate | None:
    """Returns the mean of `who` minus the mean of `than`, which share no seed; None if one of them has no score.

    Source: Welch 1947, The generalization of `Student's' problem when several different population variances are
    involved. Differs: the degrees of freedom are rounded down to a whole number, which widens the interval; the floor
    of `estimate` holds for each of the two; `over_draws`.
    """
    if not (who.values and than.values):
        return None

    def mean(side: Scores, values: Sequence[float]) -> Estimate:
        return estimate(values, side.scale.rounding, overlap=side.scale.overlap)

    sides, twin = (who, than), None
    ends = (who.scale.low - than.scale.high, who.scale.high - than.scale.low)
    if all(side.scale.curve for side in sides):
        twin = _welch([mean(side, on_curve(side, [*side.values])) for side in sides])
    gap = _welch([mean(side, [*side.values.values()]) for side in sides], ends, twin)
    draws = [drawn([side], [sign], [*side.values]) for side, sign in zip(sides, (1.0, -1.0), strict=True)]
    return over_draws(gap, *draws)


def _welch(means: Sequence[Estimate], ends: Interval = (-math.inf, math.inf), twin: Estimate | None = None) -> Estimate:
    """Returns the first mean minus the second; without error and degrees of freedom if one mean has no error."""
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
    """A trial of A and the trial of B that it is compared with.

    `how` says how they are compared; `estimate` is B minus A; `seeds` has the seed of each pair of runs.
    """

    a: Contender
    b: Contender
    how: How
    estimate: Estimate | None = None
    seeds: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name that both trials share, or both names."""
        return self.a.name if self.a.name == self.b.name else f"{self.a.name} / {self.b.name}"

    @property
    def all_shared(self) -> bool:
        """Whether both trials have the very same runs, and neither trial has one more."""
        return self.how == "same runs" and len(self.seeds) == max(self.a.test.n, self.b.test.n)

    @property
    def how_words(self) -> str:
        """How the two trials are compared, for a cell of a table: `5 pairs`, `unpaired`, `same runs`.

        It is `3 same runs` if one of the two trials has more runs.
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
        """The pairs of trials that both sides have, in the order of A."""
        return [_match(a, b) for a, b in _matched(self.a, self.b)]

    @cached_property
    def only(self) -> tuple[list[str], list[str]]:
        """The names of the trials that A has alone, and of those that B has alone."""
        taken = {id(contender) for match in self.matches for contender in (match.a, match.b)}
        a, b = ([row.name for row in side.contenders if id(row) not in taken] for side in (self.a, self.b))
        return a, b

    @cached_property
    def differences(self) -> dict[int, Difference]:
        """The test score of B minus that of A, by number of the match; all tests are adjusted together (Holm)."""
        tested, same = {}, {}
        for number, match in enumerate(self.matches):
            if match.estimate is not None and match.how == "same runs":
                same[number] = Difference(match.b.test, match.a.test, match.estimate, None)
            elif match.estimate is not None:
                tested[str(number)] = match.b.test, match.a.test, match.estimate
        gaps = together(tested, max(self.a.looks, self.b.looks))
        return {int(number): gap for number, gap in gaps.items()} | same

    @cached_property
    def tests(self) -> int:
        """How many differences were tested together."""
        return sum(gap.adjusted is not None for gap in self.differences.values())

    @cached_property
    def changes(self) -> list[Change]:
        """The differences between the definitions of the two sides."""
        pairs = [(match.a, match.b) for match in self.matches]
        return changes(self.a, self.b, pairs)

    @property
    def metrics(self) -> tuple[str, str]:
        """The metrics of the scores of A and of B."""
        return self.a.edition.study.score.test, self.b.edition.study.score.test

    @cached_property
    def warnings(self) -> list[str]:
        """Sentences that say why the scores may not be comparable, and what each side lacks."""
        by_reason: dict[str, list[str]] = {}
        for match in self.matches:
            recipes, reason = (match.a.trial.recipe, match.b.trial.recipe), ""
            if scale := other_scale(*recipes):
                reason = f"scores are not comparable, so no difference is shown: {scale}"
            elif images := other_images(*recipes):
                reason = f"the test images may differ, so scores may not be comparable: {images}"
            if reason:
                by_reason.setdefault(reason, []).append(match.name)
        named = [reason if len(names) == len(self.matches) else f"{reason} ({listed([*map(quoted, names)])})"
                 for reason, names in by_reason.items()]  # fmt: skip
        if any(match.how == "unpaired" for match in self.matches):
            named.append("without common seeds a difference is not paired (Welch's test), and so less sure")
        if not self.matches:
            named.append("no trial of A and B has the same name or the same recipe: nothing can be compared")
        return [*named, *dict.fromkeys([*self.a.remarks, *self.b.remarks])]

    def plain(self) -> dict[str, Any]:
        """Returns the comparison as plain values, for --json."""
        trials = []
        for number, match in enumerate(self.matches):
            row: dict[str, Any] = {"name": match.name}
            for name, scores in (("a", match.a.test), ("b", match.b.test)):
                row |= {f"{name}_n": scores.n, f"{name}_mean": scores.mean, f"{name}_std": scores.std}
                row |= {f"{name}_failed": len(scores.failed), f"{name}_diverged": len(scores.diverged)}
            gap = self.differences.get(number)
            low, high = (gap.interval if gap else None) or (None, None)
            row |= {"how": match.how, "seeds": list(match.seeds), "difference": gap.mean if gap else None}
            row |= {"low": low, "high": high, "p": gap.estimate.p() if gap and gap.adjusted else None}
            trials.append(row | {"p_holm": gap.p if gap else None})
        return {
            "a": self.a.label,
            "b": self.b.label,
            "metric": self.metrics[0],
            "metric_b": self.metrics[1],
            "changes": [vars(change) for change in self.changes],
            "warnings": self.warnings,
            "trials": trials,
            "only_a": self.only[0],
            "only_b": self.only[1],
        }


def _matched(a: Side, b: Side) -> Iterator[tuple[Contender, Contender]]:
    """Yields pairs of trials with equal keys, in the order of A; the other trials are paired by equal recipes."""
    by_key = {contender.key: contender for contender in b.contenders}
    taken = {id(by_key[contender.key]) for contender in a.contenders if contender.key in by_key}
    for contender in a.contenders:
        other = by_key.get(contender.key)
        if other is None:
            rest = (row for row in b.contenders if id(row) not in taken and row.trial.recipe == contender.trial.recipe)
            other = next(rest, None)
        if other is not None:
            taken.add(id(other))
            yield contender, other


def _match(a: Contender, b: Contender) -> Match:
    """Returns how two trials are compared, with the difference of their test scores."""
    if other_scale(a.trial.recipe, b.trial.recipe):
        return Match(a, b, "other scale")
    if not a.test.values or not b.test.values:
        return Match(a, b, "no scores")
    shared = sorted(a.test.values.keys() & b.test.values.keys())
    paired = []
    for seed in shared:
        answers = [side.answers.get(seed) for side in (a, b)]
        names = [answer and (answer.run.key, answer.name) for answer in answers]
        if None in names or names[0] != names[1]:  # the difference of the very same answer is 0 and says nothing
            paired.append(seed)
    if shared and not paired:
        return Match(a, b, "same runs", difference(b.test, a.test), tuple(shared))
    few = min(a.test.n, b.test.n) < FEWEST or len(paired) < len(shared)  # what both share says nothing, in no test
    if len(paired) >= FEWEST or (paired and few):
        return Match(a, b, "paired", difference(b.test, a.test, paired), tuple(paired))
    return Match(a, b, "unpaired", unpaired(b.test, a.test))
