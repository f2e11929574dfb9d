"""The state of studies, from their journals alone, and what came out of a study, from its record."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import search_spaces
import service
import trainables
from search_spaces.library import record_file
from search_spaces.record import ANOTHER, BEFORE, Judged, Record, Row, Scored, read
from search_spaces.study import Ablation, Edition, Search, Study
from search_spaces.words import clock, plural, quoted, rough_time, setting_words
from service.analysis.format import Lines, between, fixed, metric_words, p_text, percent, spread
from service.analysis.trial_result import TrialSummary, summarize
from service.planning.forecast import Forecast, Left
from service.planning.schedule import Done, next_action
from service.storage import editions
from service.storage.history import History
from service.storage.home import Home
from service.storage.leases import Holder
from trainables.kept import keep, kept, seen
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import LocusError, SpecError, digest


@dataclass(frozen=True, repr=False)
class StudyStatus:
    """One study: counts of runs, the best trial, a summary of each trial.

    `done`, `asked`: runs that have ended, and all that the study will have, as the live table and the plan count them.

    `stale`: how many answers do not count, because another code trained them. `trouble`: why its files cannot be read.
    `host`: where its driver runs, if that is another machine. `left`: how long the rest takes, while a driver runs and
    two runs were measured. `seeds`: how many are asked for.
    Units: `last`, the time of the last fact, in seconds since 1970; `left`, in seconds.
    """

    id: str
    question: str
    state: str
    done: int
    running: int
    asked: int
    trials_ended: int
    trials_asked: int
    best: str
    last: float | None
    rows: list[TrialSummary]
    stale: int = 0
    trouble: str = ""
    host: str = ""
    left: float | None = None
    seeds: int = 0

    @classmethod
    def read(cls, plain: Mapping[str, Any]) -> Self:
        """Returns the status whose `asdict` travelled as JSON."""
        return cls(**{**plain, "rows": [TrialSummary(**row) for row in plain["rows"]]})

    @property
    def trials(self) -> str:
        """How many trials have ended, of how many: `3/12`."""
        return f"{self.trials_ended}/{self.trials_asked}"

    @property
    def where(self) -> str:
        """On which other machine the study is run, with a blank before it; empty if that is this one."""
        return f" on {self.host}" if self.host else ""

    def __repr__(self) -> str:
        if self.trouble:
            return f"{self.id}: {self.state}, {self.trouble}"
        state = f"{self.state}{self.where}"
        best = f"; best so far {self.best}" if self.best else ""
        stale = f"; {self.stale} of other code" if self.stale else ""
        return f"{self.id}: {state}, {self.done} of {self.asked} runs, {self.trials} trials{best}{stale}"

    def plain(self) -> dict[str, Any]:
        """Returns plain values, for --json; `best` lists the labels of the best trials."""
        rows = [asdict(row) | {"best": row.best} for row in self.rows]
        return asdict(self) | {"best": [row.label for row in self.rows if row.best], "rows": rows}


def one_status(home: Home, id: str) -> StudyStatus:
    """Returns the status of one study. Cost: reads two files, where they are new."""
    with _Shelf(home) as shelf:
        return shelf.status(id)


class _Shelf:
    """Statuses of the studies of a home. Those that no driver runs are kept until their files or this code change.

    Those with a class of somebody's own are not kept: the files that it reads decide, too, which answers count.
    """

    def __init__(self, home: Home) -> None:
        self._home, self._codes = home, CodeDigests()
        self._name = f"status-{digest(str(home.root))}.json"
        self._mark = seen(*(Path(str(package.__file__)).parent for package in (service, search_spaces, trainables)))
        self._known: dict[str, Any] = kept(self._name, self._mark) or {}
        self._fresh: dict[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._fresh:
            there = {*self._home.ids()}
            known = {id: entry for id, entry in self._known.items() if id in there}
            keep(self._name, self._mark, known | self._fresh)

    def status(self, id: str) -> StudyStatus:
        """Returns the status of one study."""
        folder = self._home.study(id)
        driver, files = folder.driver, seen(folder.study, folder.journal)
        if driver is None and id in self._known and self._known[id]["files"] == files:
            return StudyStatus.read(self._known[id]["status"])
        edition = editions.stored(self._home, id)
        status = _folded(self._home, edition, driver, self._codes)
        if driver is None and not editions.has_own(edition):
            self._fresh[id] = {"files": files, "status": asdict(status)}
        return status


def _folded(home: Home, edition: Edition, driver: Holder | None, codes: CodeDigests) -> StudyStatus:
    """Returns the status of a study, from its facts."""
    history = History.open(home, edition, codes)
    alive = driver is not None
    summaries = summarize(history, alive=alive)
    complete = isinstance(next_action(history, set()), Done)
    trials, plan = history.of("trial"), edition.study.plan
    ended = sum(history.answer(trial).status != "open" for trial in trials)
    states = [history.state(run) for trial in history.trials for run in history.asked(trial)]
    running = sum(state.status == "running" for state in states) if alive else 0
    left = Forecast(history)(together(history))
    return StudyStatus(
        id=edition.id,
        question=edition.study.question,
        state="running" if alive else "unfinished" if not complete else "failed" if history.failed else "done",
        done=left.done,
        running=running,
        asked=left.total,
        trials_ended=ended,
        seeds=history.seeds,
        trials_asked=len(plan.arms) if isinstance(plan, Ablation) else max(history.trial_count, len(trials)),
        best=_best(summaries),
        last=history.last,
        rows=summaries,
        stale=history.stale,
        host=driver.host.name if driver and driver.is_elsewhere() else "",
        left=left.seconds if alive else None,
    )


def together(history: History) -> int:
    """Returns how many runs train together, as the last start of a run tells; 1 before the first."""
    last = max(history.states.values(), key=lambda state: state.begun or 0.0, default=None)
    return max(1, int(last.placement.get("max_concurrent") or 1)) if last else 1


def left_words(left: Left, plan: Ablation | Search, gone: str = "") -> str:
    """Returns `3 of at most 20 runs, about 02:10 left`, as a search, a tuning or a race may train fewer.

    `gone`: what stands behind the runs.
    """
    fewer = isinstance(plan, Search) or plan.race or plan.tune is not None
    amount = f"{left.done} of {'at most ' if fewer and left.done < left.total else ''}{left.total} runs{gone}"
    if left.seconds is None:
        return f"{amount}, time left unknown"
    return f"{amount}, about {clock(left.seconds)} left" if left.seconds else amount


def _best(trials: list[TrialSummary]) -> str:
    """Returns the best trial in a cell; of several that tie the first, with the number of others."""
    best = [trial for trial in trials if trial.best]
    others = f" (tie with {plural(len(best) - 1, 'other')})" if len(best) > 1 else ""
    return f"#{best[0].label} {best[0].name}  {best[0].score}{others}" if best else ""


def all_status(home: Home) -> Lines[StudyStatus]:
    """Returns the status of every study of a home, the one touched last at the end."""
    with _Shelf(home) as shelf:
        return Lines((_readable(shelf, id) for id in home.ids()), none=f"no study was run in {home.root} yet")


def _readable(shelf: _Shelf, id: str) -> StudyStatus:
    """Returns the status of one study, or that its files cannot be read: the other studies are shown all the same."""
    try:
        return shelf.status(id)
    except (LocusError, ValueError, OSError) as error:
        why = " ".join(str(error).split())
        return StudyStatus(id, "", "unreadable", 0, 0, 0, 0, 0, best="", last=None, rows=[], trouble=why)


def recorded(edition: Edition, name: str, codes: CodeDigests) -> list[str]:
    """Returns what came out of an edition, a paragraph an entry; nothing if nothing is known.

    `name`: of a named study, or of the file that holds it. Raises: SpecError for a file that holds no such record.
    """
    mark = edition.mark if edition.own_paths else ""
    record = read(record_file(name, f"{edition.study.name}@{edition.budget}{mark}"))
    if record is not None:
        return paragraphs(record, record.since(edition, codes))
    text = "" if edition.own_paths else edition.study.found.get(edition.budget)
    return [f"{BEFORE}: {text}"] if text else []


def _records(study: Study, name: str) -> dict[str, Record | None]:
    """Returns the records of a study, by what follows `@` in their ids; None for words of an earlier time.

    A record of a budget that the study no longer has is left out.
    """
    files = record_file(name, f"{study.name}@*")
    found = [record for record in map(read, sorted(files.parent.glob(files.name))) if record]
    records: dict[str, Record | None] = {}
    for size in ("base", *study.budgets):
        own = {record.id.partition("@")[2]: record for record in found if record.budget == size}
        records |= dict.fromkeys([size] if size in study.found else []) | own
    return records


def at_budgets(study: Study, name: str) -> dict[str, list[str]]:
    """Returns what came out of a study, as `recorded` says it, by budget; `cpu~pets` for a person's own values."""
    codes = CodeDigests()
    return {
        size: paragraphs(record, _since(record, study, codes)) if record else [f"{BEFORE}: {study.found[size]}"]
        for size, record in _records(study, name).items()
    }


def _since(record: Record, study: Study, codes: CodeDigests) -> list[str]:
    """Returns how the study differs today from what was recorded, in words."""
    try:
        return record.since(record.edition(study), codes)
    except SpecError:  # the study does not take these values any more
        return [ANOTHER]


def standings(study: Study, name: str) -> dict[str, str]:
    """Returns how old the results are, by budget, in a few words; `not run` for those that nobody has run."""
    codes, words = CodeDigests(), dict.fromkeys((*study.not_run, *study.gpu_hours), "not run")
    for size, record in _records(study, name).items():
        budget, _, mark = size.partition("~")
        told = BEFORE if record is None else _dated(record, _since(record, study, codes))
        words[budget] = f"{words.get(budget, 'not run')}; {mark}: {told}" if mark else told
    return words


def paragraphs(record: Record, since: list[str] | None = None) -> list[str]:
    """Returns a record in words, a paragraph an entry. `since`: in what today differs."""
    versions = ", ".join(f"{name} {version}" for name, version in record.versions.items())
    where = f"{plural(record.seeds, 'seed')}, {rough_time(record.minutes)} on {record.machine}"
    scores = f"{metric_words(record.metric)}, mean ± standard deviation over seeds ({percent(record.level)} interval)"
    return [
        f"{_dated(record, since or [])}: {where} ({versions})",
        record.headline,
        *([f"{scores}:", *map(_row, record.rows)] if 0 < len(record.rows) <= MOST_ROWS else []),
        *([f"{len(record.rows)} arms, whose scores are in the record"] if len(record.rows) > MOST_ROWS else []),
        *_verdicts(record),
    ]


MOST_ROWS = 24
"""How many arms of a record are told of one by one."""


def _dated(record: Record, since: list[str]) -> str:
    return ", ".join([f"results of {record.date}", *since])


def _row(row: Row) -> str:
    chosen = ", ".join(setting_words(row.values))
    parts = [
        f"{quoted(row.name)}{f' ({chosen})' if chosen else ''}: {_scored(row.test)}",
        *(f"at {side} px {_scored(scored)}" for side, scored in row.test_sizes.items()),
        f"{row.diverged} of {plural(row.asked, 'seed')} diverged" if row.diverged else "",
    ]
    return "; ".join(part for part in parts if part)


def _scored(scored: Scored) -> str:
    interval = f" ({between(scored.interval)})" if scored.interval else ""
    return f"{spread(scored.mean, scored.std)}{interval}, {scored.failed} of {plural(scored.n, 'seed')} failed"


def _verdicts(record: Record) -> list[str]:
    verdicts = [_verdict(judged) for judged in record.verdicts]
    if not (record.gap and verdicts):
        return verdicts
    where, count = "with own values" if record.own else f"at {record.budget}", plural(len(verdicts), "claim")
    untested = any(judged.word == "NOT JUDGED" for judged in record.verdicts)
    not_judged = f"NOT JUDGED {where}: {count}; {record.gap}"
    return [not_judged] if untested else [f"{not_judged}; here each test finds:", *verdicts]


def _verdict(judged: Judged) -> str:
    if judged.measured is None:
        return f"{judged.word}: {judged.claim}"
    numbers = [fixed(judged.measured)]
    if judged.interval is not None:
        numbers.append(f"95 % interval {between(judged.interval)}")
    numbers += [f"p {p_text(judged.p)}"] if judged.p is not None else []
    return f"{judged.word}: {judged.claim} ({'; '.join(numbers)})"
