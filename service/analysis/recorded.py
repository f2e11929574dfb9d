"""What came out of a study, in words: from its record, else from the words in `Study.found`."""

from __future__ import annotations

from search_spaces.library import record_file
from search_spaces.record import BEFORE, Judged, Record, Row, Scored, read
from search_spaces.study import Edition, Study
from search_spaces.words import plural, quoted, rough_time, setting_words
from service.analysis.format import between, fixed, metric_words, p_text, percent, spread
from trainables.recipe.code_digest import CodeDigests


def recorded(edition: Edition, name: str, codes: CodeDigests) -> list[str]:
    """What came out of an edition, a paragraph an entry; nothing if nothing is known, or values are the user's own.

    `name`: of a named study, or of the file that holds it. Raises: SpecError for a file that holds no such record.
    """
    if edition.own_paths:
        return []
    found = read(record_file(name, edition.study.name, edition.budget))
    if found is not None:
        return paragraphs(found, found.since(edition, codes))
    text = edition.study.found.get(edition.budget)
    return [f"{BEFORE}: {text}"] if text else []


def known(study: Study, name: str) -> list[str]:
    """The budgets of a study at which something came out. To build every edition would take long."""
    sizes = ("base", *study.budgets)
    return [size for size in sizes if size in study.found or record_file(name, study.name, size).is_file()]


def at_budgets(study: Study, name: str) -> dict[str, list[str]]:
    """What came out of a study, by budget, as `recorded` says it."""
    codes = CodeDigests()
    return {size: recorded(study.at(size), name, codes) for size in known(study, name)}


def standings(study: Study, name: str) -> dict[str, str]:
    """By budget, how old the results are, in a few words; `not run` for those that nobody has run."""
    codes, found = CodeDigests(), dict.fromkeys((*study.not_run, *study.gpu_hours), "not run")
    for size in known(study, name):
        record = read(record_file(name, study.name, size))
        found[size] = BEFORE if record is None else _dated(record, record.since(study.at(size), codes))
    return found


def paragraphs(found: Record, since: list[str] | None = None) -> list[str]:
    """A record in words, a paragraph an entry. `since`: in what today differs."""
    versions = ", ".join(f"{name} {version}" for name, version in found.versions.items())
    where = f"{plural(found.seeds, 'seed')}, {rough_time(found.minutes)} on {found.machine}"
    scores = f"{metric_words(found.metric)}, mean ± standard deviation over seeds ({percent(found.level)} interval)"
    return [
        f"{_dated(found, since or [])}: {where} ({versions})",
        found.headline,
        *([f"{scores}:"] if found.rows else []),
        *(_row(row) for row in found.rows),
        *([f"mean ranks over tasks: {_ranks(found)}"] if found.ranks else []),
        *_verdicts(found),
    ]


def _dated(found: Record, since: list[str]) -> str:
    return ", ".join([f"results of {found.date}", *since])


def _ranks(found: Record) -> str:
    return ", ".join(f"{name} {rank:.2f}" for name, rank in found.ranks.items())


def _row(row: Row) -> str:
    chosen = ", ".join(setting_words(row.values))
    parts = [
        f"{quoted(row.name)}{f' ({chosen})' if chosen else ''}: {_scored(row.test)}",
        *(f"at {side} px {_scored(one)}" for side, one in row.test_sizes.items()),
        f"{row.diverged} of {plural(row.asked, 'seed')} diverged" if row.diverged else "",
    ]
    return "; ".join(part for part in parts if part)


def _scored(one: Scored) -> str:
    interval = f" ({between(one.interval)})" if one.interval else ""
    return f"{spread(one.mean, one.std)}{interval}, {one.learnt} of {plural(one.n, 'seed')} learn"


def _verdicts(found: Record) -> list[str]:
    if found.gap and found.verdicts:
        return [f"NOT JUDGED at {found.budget}: {plural(len(found.verdicts), 'claim')}; {found.gap}"]
    return [_verdict(one) for one in found.verdicts]


def _verdict(one: Judged) -> str:
    if one.measured is None:
        return f"{one.label}: {one.claim}"
    numbers = [fixed(one.measured)]
    if one.confidence is not None and one.interval is not None:
        numbers.append(f"{percent(one.confidence)} interval {between(one.interval)}")
    numbers += [f"p {p_text(one.p)}"] if one.p is not None else []
    return f"{one.label}: {one.claim} ({'; '.join(numbers)})"
