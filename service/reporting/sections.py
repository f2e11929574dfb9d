"""The tables of a report, as text: what was measured, beside what was published; what went wrong; what was trained."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from search_spaces.space import Above, Choice, Domain, Real, Subset
from search_spaces.study import Ablation
from service.analysis.format import between, fixed, measure_name, p_text, plural, signed
from service.reporting.provenance import circumstances, codes, configuration, plain
from trainables.recipe.cost import estimate_cost

if TYPE_CHECKING:
    from service.analysis.statistics import Scores
    from service.analysis.study_result import Findings
    from service.analysis.trial_result import TrialResult


@dataclass(frozen=True)
class Table:
    """Rows of text under a head. `words`: columns that hold words, all others hold numbers; `strong`: rows to mark."""

    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    words: frozenset[int] = frozenset({0})
    strong: frozenset[int] = frozenset()
    note: str = ""
    wide: bool = False
    """Whether it may leave the text's column."""
    folded: str = ""
    """Where the table is long: the line that unfolds it."""


def measured(result: Findings) -> Table | None:
    """Arms, or confirmed points, on the test set, beside what was published."""
    ablation = isinstance(result.edition.study.plan, Ablation)
    rows = result.of("trial") if ablation else result.confirmed
    if not any(row.test.values for row in rows):
        return None
    gaps = bool(result.differences)
    published = any(_published(result, row) for row in rows)
    metric = measure_name(result.edition.study.score.test)
    sizes = _sizes(rows)
    head = ["arm" if ablation else "point", *sizes, "seeds", metric, "95 % interval"]
    head += ["published"] * published + ["to baseline", "95 % interval", "p (Holm)"] * gaps + ["validation"]
    body = []
    for place, row in enumerate(rows):
        counts = [counts[place] for counts in sizes.values()]
        said = [_name(result, row), *counts, _seeds(row), _spread(row.test), between(row.test.interval)]
        said += (
            [_published(result, row)] * published + (_gap(result, row) if gaps else []) + [fixed(row.validation.mean)]
        )
        body.append(tuple(said))
    strong = frozenset(place for place, row in enumerate(rows) if row is result.best)
    return Table(tuple(head), body, strong=strong, note=_note(gaps, published), wide=True)


def _sizes(rows: Sequence[TrialResult]) -> dict[str, list[str]]:
    """How many parameters each row's model has, and how many learn, where rows differ in that."""
    weights = [estimate_cost(row.recipe) for row in rows]
    counts = {"parameters": [weight.parameters for weight in weights]}
    learnt = [weight.learnt for weight in weights]
    if learnt != counts["parameters"]:
        counts["learnt"] = learnt
    return {name: [f"{count:,}" for count in some] for name, some in counts.items() if len({*some}) > 1}


def _note(gaps: bool, published: bool) -> str:
    said = "Mean ± standard deviation over seeds; Student's t-intervals. A diverged seed counts at chance."
    said += " Differences are paired by seed; p is two-sided." if gaps else ""
    return said + (" Published numbers as printed, on the paper's own data." if published else "")


def _name(result: Findings, row: TrialResult) -> str:
    plan = result.edition.study.plan
    if isinstance(plan, Ablation):
        return f"{row.name} (baseline)" if row.name == plan.baseline else row.name
    own = " (tried first)" if result.named.get("first") is row else ""
    return f"#{row.trial.number} {row.name}{own}"


def _seeds(row: TrialResult) -> str:
    fallen = len(row.test.diverged)
    count = f"{row.validation.n}" if row.validation.complete else f"{row.validation.n}/{row.validation.asked}"
    return f"{count}, {fallen} diverged" if fallen else count


def _spread(scores: Scores) -> str:
    return fixed(scores.mean) + (f" ± {fixed(scores.std)}" if scores.std is not None else "")


def _published(result: Findings, row: TrialResult) -> str:
    said = [known for known in result.edition.study.published if result.named.get(known.who) is row]
    return ", ".join(fixed(known.value) + (f" ± {fixed(known.spread)}" if known.spread else "") for known in said)


def _gap(result: Findings, row: TrialResult) -> list[str]:
    if row.name not in result.differences:
        return ["", "", ""]
    gap, p = result.differences[row.name]
    return [signed(gap.mean), between(gap.interval()), p_text(p).removeprefix("= ")]


def points(result: Findings) -> Table | None:
    """Every point of a search on validation, best first, then by how far it came."""
    if isinstance(result.edition.study.plan, Ablation) or not result.of("trial"):
        return None
    order = {"completed": 0, "incomplete": 1, "open": 2, "stopped": 3, "diverged": 4}
    rows = sorted(result.of("trial"), key=lambda row: (order[row.answer.status], -(row.validation.mean or 0.0)))
    head = ("#", "point", "seeds", "epochs", measure_name(result.edition.study.score.metric), "state")
    body = [
        (row.trial.label, row.name, _seeds(row), str(row.answer.epoch), _spread(row.validation), row.answer.status)
        for row in rows
    ]
    fold = f"All {plural(len(rows), 'point')}, on validation"
    return Table(head, body, words=frozenset({1, 5}), folded=fold)


def unfinished(result: Findings) -> Table | None:
    """Runs that were stopped, diverged, or failed, and why."""
    ends = ("failed", "diverged", "stopped")
    runs = [(row, run) for row in result.rows for run in row.runs.values() if run.state.status in ends]
    runs.sort(key=lambda pair: ends.index(pair[1].state.status))
    body = [(row.trial.label, row.name, str(run.run.seed), run.state.status, run.reason) for row, run in runs]
    return Table(("#", "trial", "seed", "end", "why"), body, words=frozenset({1, 3, 4})) if body else None


def varied(result: Findings) -> Table:
    """What the study changes: each arm's values, or each searched path with what it may be."""
    plan = result.edition.study.plan
    if isinstance(plan, Ablation):
        rows = [(name, "; ".join(map(_sets, values.items())) or "base") for name, values in plan.arms.items()]
        return Table(("arm", "sets"), rows, words=frozenset({0, 1}))
    rows = [(path, _domain(domain)) for path, domain in plan.space.every()]
    return Table(("searched", "may be"), rows, words=frozenset({0, 1}))


def _sets(put: tuple[str, Any]) -> str:
    path, value = put
    return f"{path} = {json.dumps(value) if isinstance(value, dict) else plain(value)}"


def _domain(domain: Domain) -> str:
    match domain:
        case Above(other=other, factor=factor):
            return f"{plain(factor.low)} to {plain(factor.high)} times {other}"
        case Choice(options=options):
            return f"one of {plain(options)}"
        case Subset(of=of):
            return f"any of {plain(of)}"
        case _:
            scale = ", on a log scale" if isinstance(domain, Real) and domain.log else ""
            return f"{plain(domain.low)} to {plain(domain.high)}{scale}"


def recipe(result: Findings) -> tuple[Table, Table]:
    """What all trials share: where it differs from the defaults, and all of it."""
    changed = result.edition.study.paths()
    nodes = tuple(path.removesuffix("kind") for path in changed if path.endswith(".kind"))
    shared = configuration(result.edition.study.base)
    settings = [said for said in shared if said.path not in changed and not said.path.startswith(nodes)]
    own = [(said.path, said.value, said.default) for said in settings if said.default is not None]
    every = [(said.path, said.value) for said in settings]
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


def surroundings(result: Findings) -> Table:
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
