"""The further tables of a report, as text: a search's points, what went wrong, what was trained, and on what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from search_spaces.space import Above, Choice, Domain, Real, Subset
from search_spaces.study import Ablation
from search_spaces.words import plural, setting_words, value_words
from service.analysis.best import ranked
from service.analysis.format import metric_words, spread
from service.reporting.provenance import circumstances, codes, configuration
from service.reporting.results_table import seeds
from service.reporting.table import Table
from trainables.own import is_own

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult
    from service.analysis.trial_result import TrialResult


def points(result: StudyResult) -> Table | None:
    """Every point of a search on validation, best first, then by how far it came."""
    if isinstance(result.edition.study.plan, Ablation) or not result.of("trial"):
        return None
    places = {trial.label: place for place, trial in enumerate(ranked(result.history))}
    rows = sorted(result.of("trial"), key=lambda row: places[row.trial.label])
    head = ("#", "point", "seeds", "epochs", metric_words(result.edition.study.score.metric), "state")
    body = [
        (row.trial.label, row.name, seeds(row), str(row.answer.epoch), _validation(row), row.answer.status)
        for row in rows
    ]
    fold = f"All {plural(len(rows), 'point')}, on validation"
    return Table(head, body, words=frozenset({1, 5}), folded=fold)


def _validation(row: TrialResult) -> str:
    return spread(row.validation.mean, row.validation.std)


def unfinished(result: StudyResult) -> Table | None:
    """Runs that were stopped, diverged, or failed, and why."""
    ends = ("failed", "diverged", "stopped")
    runs = [(row, run) for row in result.rows for run in row.runs.values() if run.state.status in ends]
    runs.sort(key=lambda pair: ends.index(pair[1].state.status))
    body = [(row.trial.label, row.name, str(run.run.seed), run.state.status, run.reason) for row, run in runs]
    return Table(("#", "trial", "seed", "end", "why"), body, words=frozenset({1, 3, 4})) if body else None


def varied(result: StudyResult) -> Table:
    """What the study changes: each arm's values, or each searched path with what it may be."""
    plan = result.edition.study.plan
    if isinstance(plan, Ablation):
        rows = [(name, "; ".join(setting_words(values)) or "base") for name, values in plan.arms.items()]
        return Table(("arm", "sets"), rows, words=frozenset({0, 1}))
    rows = [(path, _domain(domain)) for path, domain in plan.space.every()]
    return Table(("searched", "may be"), rows, words=frozenset({0, 1}))


def _domain(domain: Domain) -> str:
    match domain:
        case Above(other=other, factor=factor):
            return f"{value_words(factor.low)} to {value_words(factor.high)} times {other}"
        case Choice(options=options):
            return f"one of {value_words(options)}"
        case Subset(of=of):
            return f"any of {value_words(of)}"
        case _:
            scale = ", on a log scale" if isinstance(domain, Real) and domain.log else ""
            return f"{value_words(domain.low)} to {value_words(domain.high)}{scale}"


def recipe(result: StudyResult) -> tuple[Table, Table]:
    """What all trials share: where it differs from the defaults, and all of it."""
    changed = result.edition.study.paths()
    nodes = tuple(path.removesuffix("kind") for path in changed if path.endswith(".kind"))
    shared = configuration(result.edition.study.base)
    settings = [one for one in shared if one.path not in changed and not one.path.startswith(nodes)]
    own = [(one.path, one.value, one.default) for one in settings if one.default is not None]
    every = [(one.path, one.value) for one in settings]
    words = frozenset({0, 1, 2})
    return (
        Table(("setting", "here", "default"), [(path, value, usual or "") for path, value, usual in own], words=words),
        Table(
            ("setting", "value"),
            every,
            words=words,
            folded=f"All that the trials share, {plural(len(every), 'setting')}",
        ),
    )


def surroundings(result: StudyResult) -> Table:
    """Machines and versions, with the number of runs where they are mixed; the code."""
    rows = [(name, _mixture(counts)) for name, counts in circumstances(result).items()]
    trained = codes(result).items()
    rows += [("code", "; ".join(code if len(trained) == 1 else f"{code} ({_few(names)})" for code, names in trained))]
    mixed = frozenset(place for place, (_, value) in enumerate(rows) if value.startswith("mixed"))
    return Table(("", ""), rows, words=frozenset({0, 1}), strong=mixed)


def _mixture(counts: dict[str, int]) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return "mixed: " + ", ".join(f"{value} ({plural(count, 'run')})" for value, count in counts.items())


def _few(names: Iterable[str]) -> str:
    first, *others = names
    return f"{first} and {len(others)} more" if len(others) > 1 else ", ".join([first, *others])


def own_sources(result: StudyResult) -> list[tuple[str, str]]:
    """The files of the user's own specs with their text, each once."""
    return list(dict.fromkeys(_sources(result.edition.study.plain())))


def _sources(node: Any) -> Iterator[tuple[str, str]]:
    if isinstance(node, dict):
        for path, kind in node.items():
            text = node.get(path.removesuffix("kind") + "source")
            if path.rpartition(".")[2] == "kind" and is_own(kind) and isinstance(text, str):
                yield kind.partition(":")[0], text
    for item in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from _sources(item)
