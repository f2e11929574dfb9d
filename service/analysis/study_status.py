"""The state of studies, read from their journals alone, and the results of a study, read from its record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import search_spaces
import service
import trainables
from search_spaces.library import record_file
from search_spaces.record import ANOTHER, BEFORE, Record, Scored, read
from search_spaces.study import Ablation, Edition, Search, Study
from search_spaces.words import setting_words
from service.analysis.findings import CATALOG, Finding, finding
from service.analysis.format import Lines, spread
from service.analysis.trial_result import TrialSummary, summarize
from service.planning.forecast import Forecast, Left
from service.planning.schedule import Done, next_action
from service.storage import editions
from service.storage.history import History
from service.storage.home import Home
from service.storage.leases import Holder
from trainables.kept import keep, kept, seen
from trainables.spec import LocusError, SpecError, digest


@dataclass(frozen=True, repr=False)
class StudyStatus:
    """The state of one study: counts of runs, the best trial, a summary of each trial.

    `done` is how many runs have ended, and `asked` how many the study will have in all, as the live table and the plan
    count them. `stale` is how many answers (stored outcomes of runs) do not count, because other code trained them.
    `trouble` says why its files cannot be read. `host` is the machine of its driver, the process that runs the study,
    if that is another machine. `left` is the time that the missing runs take; it is None unless a driver runs and two
    runs were measured. `seeds` is how many seeds are asked for.
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
        """Returns the status from the values that `asdict` made of it and that were kept as JSON."""
        return cls(**{**plain, "rows": [TrialSummary(**row) for row in plain["rows"]]})

    @property
    def trials(self) -> str:
        """How many trials have ended, and how many there will be: `3/12`."""
        return f"{self.trials_ended}/{self.trials_asked}"

    @property
    def where(self) -> str:
        """The words ` on HOST` if another machine runs the study; empty if this one does."""
        return f" on {self.host}" if self.host else ""

    def __repr__(self) -> str:
        if self.trouble:
            return str(finding("status.unreadable", id=self.id, state=self.state, trouble=self.trouble))
        counts = {"done": self.done, "asked": self.asked, "trials": self.trials, "stale": self.stale or None}
        return str(finding("status.line", id=self.id, state=self.state + self.where, best=self.best or None, **counts))

    def plain(self) -> dict[str, Any]:
        """Returns the status as plain values, for --json; `best` lists the labels of the best trials."""
        rows = [asdict(row) | {"best": row.best} for row in self.rows]
        return asdict(self) | {"best": [row.label for row in self.rows if row.best], "rows": rows}


def one_status(home: Home, id: str) -> StudyStatus:
    """Returns the status of the study with this id. Cost: reads two files, where they are new."""
    (status,) = _statuses(home, [id])
    return status


def all_status(home: Home) -> Lines[StudyStatus]:
    """Returns the status of every study of a home (the folder that holds studies), the one changed last at the end."""
    return Lines(_statuses(home, home.ids(), all_of_them=True), none=f"no study was run in {home.root} yet")


def _statuses(home: Home, ids: Sequence[str], *, all_of_them: bool = False) -> list[StudyStatus]:
    """Returns the status of each study. If no driver runs a study, its status is cached until its files or code change.

    A status is not cached if a user's own class is in use: the files that it reads decide, too, which answers count.
    If `all_of_them` is True, a study whose files cannot be read has a status that says so, and hides no other study.
    """
    name = f"status-{digest(str(home.root))}.json"
    packages = (Path(str(package.__file__)).parent for package in (service, search_spaces, trainables))
    mark = seen(*packages, CATALOG)
    earlier: dict[str, Any] = kept(name, mark) or {}
    fresh: dict[str, Any] = {}
    statuses = []
    for id in ids:
        try:
            folder = home.study(id)
            driver, files = folder.driver, seen(folder.study, folder.journal)
            if driver is None and id in earlier and earlier[id]["files"] == files:
                statuses.append(StudyStatus.read(earlier[id]["status"]))
                continue
            edition = editions.stored(home, id)
            status = _status(home, edition, driver)
        except (LocusError, ValueError, OSError) as error:
            if not all_of_them:
                raise
            trouble = " ".join(str(error).split())
            statuses.append(StudyStatus(id, "", "unreadable", 0, 0, 0, 0, 0, "", None, [], trouble=trouble))
            continue
        if driver is None and not editions.has_own(edition):
            fresh[id] = {"files": files, "status": asdict(status)}
        statuses.append(status)
    if fresh:
        keep(name, mark, {id: earlier[id] for id in home.ids() if id in earlier} | fresh)
    return statuses


def _status(home: Home, edition: Edition, driver: Holder | None) -> StudyStatus:
    """Returns the status of one study from its journal. `driver` is the process that runs it; None if there is none."""
    history = History.open(home, edition)
    alive = driver is not None
    summaries = summarize(history, alive=alive)
    complete = isinstance(next_action(history, set()), Done)
    trials, plan = history.of("trial"), edition.study.plan
    states = [history.state(run) for trial in history.trials for run in history.asked(trial)]
    left = Forecast(history)(together(history))
    best = [summary for summary in summaries if summary.best]
    cell: object = ""
    if best:
        row, ties = best[0], len(best) - 1 or None
        cell = finding("status.best", label=row.label, name=row.name, score=row.score, ties=ties)
    return StudyStatus(
        id=edition.id,
        question=edition.study.question,
        state="running" if alive else "unfinished" if not complete else "failed" if history.failed else "done",
        done=left.done,
        running=sum(state.status == "running" for state in states) if alive else 0,
        asked=left.total,
        trials_ended=sum(history.answer(trial).status != "open" for trial in trials),
        seeds=history.seeds,
        trials_asked=len(plan.arms) or max(history.trial_count, len(trials)),
        best=str(cell),
        last=history.last,
        rows=summaries,
        stale=history.stale,
        host=driver.host.name if driver and driver.is_elsewhere() else "",
        left=left.seconds if alive else None,
    )


def together(history: History) -> int:
    """Returns how many runs train at the same time, as the fact of the last started run says; 1 before the first."""
    last = max(history.states.values(), key=lambda state: state.begun or 0.0, default=None)
    return max(1, int(last.placement.get("max_concurrent") or 1)) if last else 1


def left_words(left: Left, plan: Ablation | Search, gone: str = "") -> str:
    """Returns how much of a study is left: `3 of at most 20 runs, about 02:10 left`.

    It says `at most` for a search, a tuning or a race, which may train fewer. `gone` is a text that follows the runs.
    """
    kind = "left.at most" if plan.chooses and left.done < left.total else "left.runs"
    runs = finding(kind, done=left.done, total=left.total, gone=gone)
    if left.seconds is None:
        return str(finding("left.unknown", runs=runs))
    return str(finding("left.time", runs=runs, seconds=left.seconds) if left.seconds else runs)


def recorded(edition: Edition, name: str) -> list[str]:
    """Returns the recorded results of an edition (a study at one budget) as paragraphs; none if nothing is recorded.

    `name` is that of the study, or of the file that holds it. Raises: SpecError for a file that holds no such record.
    """
    mark = edition.mark if edition.own_paths else ""
    record = read(record_file(name, f"{edition.study.name}@{edition.budget}{mark}"))
    if record is not None:
        return paragraphs(record, record.since(edition))
    text = "" if edition.own_paths else edition.study.found.get(edition.budget)
    return [f"{BEFORE}: {text}"] if text else []


def _records(study: Study, name: str) -> dict[str, tuple[Record | None, list[str]]]:
    """Returns each record of a study and how the study differs from it today, by the text behind `@` in its id.

    For results that the study's file tells in words, the record is None. A record of a budget that the study no longer
    has is left out.
    """
    files = record_file(name, f"{study.name}@*")
    written = [record for record in map(read, sorted(files.parent.glob(files.name))) if record]
    records: dict[str, tuple[Record | None, list[str]]] = {}
    for size in ("base", *study.budgets):
        if size in study.found:
            records[size] = None, []
        for record in written:
            if record.budget == size:
                try:
                    since = record.since(record.edition(study))
                except SpecError:  # the study does not take these values any more
                    since = [ANOTHER]
                records[record.id.partition("@")[2]] = record, since
    return records


def at_budgets(study: Study, name: str) -> dict[str, list[str]]:
    """Returns the results of a study as `recorded` does, by budget, or by `cpu~pets` for a user's own values."""
    return {
        size: paragraphs(record, since) if record else [f"{BEFORE}: {study.found[size]}"]
        for size, (record, since) in _records(study, name).items()
    }


def standings(study: Study, name: str) -> dict[str, str]:
    """Returns, by budget, how old the results of a study are, in a few words; `not run` if nobody has run it."""
    ages = dict.fromkeys((*study.not_run, *study.gpu_hours), "not run")
    for size, (record, since) in _records(study, name).items():
        budget, _, mark = size.partition("~")
        age = str(finding("record.date", date=record.date, since=since or None)) if record else BEFORE
        ages[budget] = f"{ages.get(budget, 'not run')}; {mark}: {age}" if mark else age
    return ages


MOST_ROWS = 24
"""A record with more trials than this is told with their number alone, not trial by trial."""


def paragraphs(record: Record, since: Sequence[str] = ()) -> list[str]:
    """Returns the paragraphs that tell a record. `since` says how the study differs today from the recorded one."""
    parts: list[object] = [
        finding(
            "record.head",
            date=finding("record.date", date=record.date, since=since or None),
            seeds=record.seeds,
            minutes=record.minutes,
            machine=record.machine,
            versions=[f"{name} {version}" for name, version in record.versions.items()],
        ),
        record.headline,
    ]
    if len(record.rows) > MOST_ROWS:
        parts.append(finding("record.many", rows=len(record.rows)))
    elif record.rows:
        parts.append(finding("record.scores", metric=record.metric, level=record.level))
    for row in record.rows if len(record.rows) <= MOST_ROWS else ():
        scores = [_score(row.test)]
        scores += [finding("record.side", side=side, score=_score(other)) for side, other in row.test_sizes.items()]
        scores += [finding("record.length", epochs=length, score=_score(at)) for length, at in row.lengths.items()]
        if row.diverged:
            scores.append(finding("record.diverged", diverged=row.diverged, seeds=row.asked))
        parts.append(finding("record.row", name=row.name, values=setting_words(row.values) or None, scores=scores))

    verdicts = []
    for judged in record.verdicts:
        claim = {"word": judged.word, "claim": judged.claim}
        if judged.measured is None:
            verdicts.append(finding("record.undecided", **claim))
        else:
            tested = {"measured": judged.measured, "interval": judged.interval, "p": judged.p}
            verdicts.append(finding("record.verdict", **claim, **tested))
    if record.gap and verdicts:
        untested = any(judged.word == "NOT JUDGED" for judged in record.verdicts)
        kind = "record.not judged" if untested else "record.tested"
        where = "with own values" if record.own else f"at {record.budget}"
        parts.append(finding(kind, where=where, claims=len(verdicts), gap=record.gap))
        verdicts = [] if untested else verdicts
    return [*map(str, [*parts, *verdicts])]


def _score(scored: Scored) -> Finding:
    """Returns the phrase that tells a recorded score."""
    score = spread(scored.mean, scored.std)
    return finding("record.score", score=score, interval=scored.interval, failed=scored.failed, seeds=scored.n)
