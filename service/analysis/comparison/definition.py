"""What differs between the two sides of a comparison, and whether their scores can be compared at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from search_spaces.study import Ablation, Edition, Search, Trial
from search_spaces.words import listed, plural, quoted, setting_words, value_words
from service.analysis.statistics import Scores
from service.storage.outcomes import Answered
from trainables.data.images import ImagesSpec
from trainables.recipe import Recipe
from trainables.spec import Spec, digest

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


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

    `looks`: how many times verdicts on its study could be seen (`History.looks`).
    """

    label: str
    edition: Edition
    contenders: tuple[Contender, ...]
    remarks: tuple[str, ...] = ()
    looks: int = 1


def side(result: StudyResult) -> Side:
    """A study as its report shows it: every arm, or the confirmed points of a search."""
    ablation = isinstance(result.edition.study.plan, Ablation)
    rows = result.of("trial") if ablation else result.confirmed
    found = [_of_row(row, place) for row in rows for place in _places(result, row)]
    remarks = tuple(_remarks(result, rows))
    return Side(result.edition.id, result.edition, tuple(found), remarks, result.history.looks)


def _of_row(row: TrialResult, place: str) -> Contender:
    answers = {seed: run.answered for seed, run in row.runs.items() if run.answered is not None}
    name = row.name if place.startswith(("arm", "point")) else f"{place}: {row.name}"
    return Contender(place, name, row.trial, row.test, answers)


def _places(result: StudyResult, row: TrialResult) -> list[str]:
    """What a row is matched by. The best and the first point of a search may be one trial, which then stands twice."""
    if isinstance(result.edition.study.plan, Ablation):
        return [arm_place(row.trial)]
    names = [name for name, named in result.named.items() if named is row]
    return names or [point_place(row.trial)]


def arm_place(trial: Trial) -> str:
    """Arms are matched by their names."""
    return f"arm {trial.name}"


def point_place(trial: Trial) -> str:
    """Points of searches are matched by all digits of their values."""
    return f"point {digest(trial.values)}"


def _remarks(result: StudyResult, rows: Iterable[TrialResult]) -> list[str]:
    id, remarks = result.edition.id, []
    if result.departure:
        remarks.append(f"{id}: {result.departure.why}")
    if missing := [row.name for row in rows if not row.test.complete]:
        remarks.append(f"{id} lacks seeds of {', '.join(map(quoted, missing))}")
    if not isinstance(result.edition.study.plan, Ablation) and not result.confirmed:
        remarks.append(f"{id} has no confirmed point yet: points are not looked at on the test set before")
    if result.stale:
        remarks.append(f"{id}: {plural(result.stale, 'answer')} of other code not counted (--adopt counts them)")
    return remarks


SURROUNDINGS = ("torch", "timm", "device", "host_cpu", "workers", "compile", "matmul_fp32_precision")
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


def changes(a: Edition, b: Edition, pairs: Pairs) -> list[Change]:
    """What differs between two editions: recipe and data, arms or space, score, counts; then code and environment."""
    found = [*_nodes(a.study.base, b.study.base), *_plans(a, b)]
    found += _unlike("score", a.study.score.metric, b.study.score.metric)
    found += _unlike("budget", a.budget, b.budget)
    found += _unlike("seeds", str(a.study.seeds), str(b.study.seeds))
    return [*found, *_code(pairs), *_surroundings(pairs)]


def _unlike(what: str, a: str, b: str) -> list[Change]:
    return [Change(what, a, b)] if a != b else []


def _nodes(a: Any, b: Any, path: str = "") -> Iterator[Change]:
    """Every value in which two recipes differ; a node of two kinds as a whole."""
    alike = isinstance(a, Spec) and isinstance(b, Spec) and getattr(a, "kind", None) == getattr(b, "kind", None)
    if not alike:
        if a != b:
            yield Change(path, value_words(a), value_words(b))
        return
    for name in dict.fromkeys([*a.fields(), *b.fields()]):
        if name != "source":  # the text of a user's own file is code
            yield from _nodes(getattr(a, name, None), getattr(b, name, None), f"{path}.{name}" if path else name)


def _plans(a: Edition, b: Edition) -> Iterator[Change]:
    one, other = a.study.plan, b.study.plan
    if isinstance(one, Ablation) and isinstance(other, Ablation):
        yield from _arms(one, other)
    elif isinstance(one, Search) and isinstance(other, Search):
        yield from _searches(one, other)
    else:
        yield Change("plan", one.kind, other.kind)


def _arms(one: Ablation, other: Ablation) -> Iterator[Change]:
    for name in [*one.arms, *(name for name in other.arms if name not in one.arms)]:
        said = [_set(plan.arms[name]) if name in plan.arms else "no such arm" for plan in (one, other)]
        yield from _unlike(f"arm {name}", *said)
    yield from _unlike("baseline", one.baseline, other.baseline)
    yield from _unlike("tuning", *(_tuning(plan) for plan in (one, other)))


def _tuning(plan: Ablation) -> str:
    return ", ".join(setting_words(plan.tune.identity())) if plan.tune else NOTHING


def _set(values: Mapping[str, Any]) -> str:
    return ", ".join(setting_words(values)) or "the base"


def _searches(one: Search, other: Search) -> Iterator[Change]:
    spaces = [{path: ", ".join(setting_words(domain.plain())) for path, domain in plan.space.every()}
              for plan in (one, other)]  # fmt: skip
    for path in dict.fromkeys([*spaces[0], *spaces[1]]):
        yield from _unlike(f"space {path}", *(space.get(path, "not searched") for space in spaces))
    yield from _unlike("sampler", one.sampler, other.sampler)
    yield from _unlike("trials", str(one.trials), str(other.trials))
    yield from _unlike("stop", *("never" if plan.stop is None else str(plan.stop.factor) for plan in (one, other)))
    first = ["; ".join(_set(point) for point in plan.first) or NOTHING for plan in (one, other)]
    yield from _unlike("tried first", *first)


def _code(pairs: Pairs) -> Iterator[Change]:
    """The files whose code differs between the two answers of a seed, each once."""
    found: dict[str, Change] = {}
    for a, b in pairs:
        same = a.trial.recipe == b.trial.recipe
        for one in _each_code(a):
            for other in _each_code(b):
                for name in {*one, *other} if same else one.keys() & other.keys():
                    if one.get(name) != other.get(name):
                        found[name] = Change(f"code of {name}", one.get(name, "none")[:7], other.get(name, "none")[:7])
    yield from (found[name] for name in sorted(found))


def _each_code(contender: Contender) -> list[dict[str, str]]:
    return list({one.code.digest: one.code.files for one in contender.answers.values()}.values())


def _surroundings(pairs: Pairs) -> Iterator[Change]:
    for name in SURROUNDINGS:
        said = [_values(name, (pair[place] for pair in pairs)) for place in (0, 1)]
        if all(said):
            yield from _unlike(name, *said)


def _values(name: str, contenders: Iterable[Contender]) -> str:
    """What the answers have of an environment's value, the most frequent first."""
    found = Counter(
        str(value)
        for contender in contenders
        for answered in contender.answers.values()
        if (value := answered.environment.get(name)) not in (None, "")
    )
    return ", ".join(value for value, _ in found.most_common())


def other_scale(a: Recipe, b: Recipe) -> str:
    """Why two scores have nothing in common, in a clause; empty if they have the same metric and chance."""
    if a.data.scale == b.data.scale:
        return ""
    one, other = (recipe.data.scale.replace(", ", " with chance ") for recipe in (a, b))
    return f"{one} in A, {other} in B"


def other_images(a: Recipe, b: Recipe) -> str:
    """In what the images differ, so that a difference may come from other test images; empty if they are alike."""
    differing = [change.what.removeprefix(".") for change in _nodes(a.data, b.data, "data")]
    harmless = ["data.normalize"]
    if isinstance(a.data, ImagesSpec) and isinstance(b.data, ImagesSpec):
        harmless += [f"data.{name}" for name in TRAIN_ONLY]
    paths = [path for path in differing if not path.startswith(tuple(harmless))]
    known = a.data.fingerprint == b.data.fingerprint or bool(paths)
    return listed(["the data set" if path == "data" else path for path in paths]) if known else "the files of the data"
