"""What MLflow should show of a study: rows at three levels, folded from its history; and what it has of a row.

Pure, without MLflow: a `Row` describes one MLflow run, and `store` sends what differs from what is there. The study is
the parent of its trials, a trial of its runs. A trial is a search's point, an arm, a confirmation (`c7`), a parent
(`p1`), or one that tunes an arm (`t2.7`).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from search_spaces.study import Trial
from search_spaces.words import listed, quoted
from service.analysis.best import Best, find_best, one_of
from service.analysis.format import TRIAL_COLORS, raced_words, stopped_words
from service.analysis.scores import validation_scores
from service.planning.forecast import planned_runs
from service.storage.history import History
from service.storage.states import RunState
from service.tracking.row_contents import (
    NO_CONCLUSION,
    Conclusion,
    Point,
    TrialWords,
    is_point,
    mean_curve,
    rank_tag,
    run_note,
    score_words,
    seed_curve,
    study_note,
    test_scores,
    title,
    trial_note,
)
from trainables.recipe import Run
from trainables.spec import digest

MlflowStatus = Literal["RUNNING", "FINISHED", "FAILED", "KILLED"]
RunId = tuple[str, str, int | None]
"""How a row is known within its study: level, number label, seed."""
STUDY: RunId = ("study", "", None)
LEVELS = ("study", "trial", "run")
KEY, CODE, CURVE = "locus.key", "locus.code", "locus.curve"
"""The tags of a run's key, of the code that gave a row's numbers (of a study: the codes of all its runs), and of a
mean curve."""
METRICS = ("val/", "test/", "train/", "best/", "progress/")
"""How metrics begin that are the journal's alone."""


@dataclass(frozen=True)
class Row:
    """What one MLflow run should look like.

    `fixed`: tags that identify the numbers of its points; points cannot be deleted, so where they differ the MLflow run
    is replaced. `only_changes`: a value that equals the last one is not sent. Units: times in seconds since 1970.
    """

    id: RunId
    name: str
    status: MlflowStatus
    params: dict[str, str]
    tags: dict[str, str]
    points: list[Point]
    begun: float
    last: float
    parent: RunId | None = STUDY
    fixed: tuple[str, ...] = ()
    only_changes: bool = False


def begun(history: History, runs: dict[int, Run]) -> dict[int, Run]:
    """Returns the runs that were started, or whose answer was found among the outcomes."""
    return {seed: run for seed, run in runs.items() if history.state(run).was_run}


def study_row(
    history: History, runs: Iterable[Run], ended: MlflowStatus, conclusion: Conclusion = NO_CONCLUSION
) -> Row:
    """Returns the study's own row: how much of it is done, and the best trial's numbers, against the seconds gone."""
    edition, last, runs = history.edition, history.last or 0.0, list(runs)
    began = min((state.begun for state in history.states.values() if state.begun), default=last)
    answered = {run.key for run in runs if history.state(run).answered and history.state(run).was_run}
    values: dict[str, float] = {
        "progress/runs": len(answered),
        "progress/asked": max(planned_runs(history), len(answered)),
        "progress/trials": sum(history.answer(trial).status != "open" for trial in history.of("trial")),
    }
    best = find_best(history)
    tags = _tags(history, "study") | {
        "locus.seeds": str(history.seeds),
        "locus.trials": str(history.trial_count or len(history.of("trial"))),
        "locus.family": edition.study.family,
        CODE: ",".join(sorted({history.code(run) for run in runs})) or "none",
        "mlflow.note.content": study_note(history, best, conclusion),
    }
    tags |= {"locus.headline": conclusion.headline} if conclusion.headline else {}
    tags |= {"locus.claims": "; ".join(conclusion.claims)} if conclusion.claims else {}
    if best.trials:
        names = [title(edition, trial) for trial in best.trials]
        tags["locus.best"] = f"tie: {listed([*map(quoted, names)])}" if best.tied else names[0]
        values |= _best_values(history, best)
    return Row(
        STUDY, edition.id, ended, {"budget": edition.budget}, tags, [Point(round(last - began), last, values)],
        began, last, parent=None, only_changes=True,
    )  # fmt: skip


def _best_values(history: History, best: Best) -> dict[str, float]:
    """Returns the last means of the best trial, as Python names it.

    Without test scores before the confirmation, for search points are not tested.
    """
    trial = one_of(best.trials, lambda tied: test_scores(history, tied))
    if trial is None or not (curve := mean_curve(history, trial)):
        return {}
    last = curve[-1].without_tests() if is_point(history.edition, trial) else curve[-1]
    return {f"best/{name}": value for name, value in last.values.items()}


def trial_row(
    history: History, words: TrialWords, runs: dict[int, Run], best: Best, ended: MlflowStatus = "RUNNING"
) -> Row:
    """Returns a trial with its mean curve and its scores, once its asked seeds have ended.

    `best`: the best trials of the study; `ended`: how the study ended, RUNNING before.
    """
    trial = words.trial
    here = begun(history, runs)
    states = [history.state(run) for run in here.values()]
    answer = history.answer(trial)
    whole = answer.status != "open" or ended == "FINISHED"
    reason = next(filter(None, map(_reason, states)), "")
    if answer.raced:
        reason = raced_words(len(answer.values), answer.asked, answer.cutoff or 0.0)
    tags = _tags(history, "trial", words) | {
        "locus.outcome": answer.status if whole else _unfinished(ended),
        "locus.seeds": str(answer.asked),
        CODE: history.code(next(iter(here.values()))),
        "locus.rank": rank_tag(history, trial),
        "mlflow.note.content": trial_note(words, answer.asked, reason),
    }
    points = mean_curve(history, trial) if whole else []
    if is_point(history.edition, trial):  # the test set is looked at for the answer, not for the search
        points = [point.without_tests() for point in points]
    if points:
        tags[CURVE] = digest([[point.step, point.time, point.values] for point in points])
    marks = {"locus.reason": reason, "locus.best": _mark(trial, best)}
    if whole:
        marks["locus.score"] = score_words(validation_scores(history, trial))
        marks["locus.test"] = score_words(test_scores(history, trial))
    return Row(
        ("trial", trial.label, None),
        words.title,
        "FINISHED" if whole else _halted(ended),
        words.params,
        tags | {name: words for name, words in marks.items() if words},
        points,
        min(state.begun or state.last or 0.0 for state in states),
        max(state.last or 0.0 for state in states),
        fixed=(CURVE,) if points else (CODE,),  # until it has all its seeds it keeps the curve of fewer
    )


def _mark(trial: Trial, best: Best) -> str:
    if trial.label not in {winner.label for winner in best.trials}:
        return ""
    return "best (tie)" if best.tied else "best"


def run_row(history: History, words: TrialWords, run: Run, ended: MlflowStatus = "RUNNING") -> Row:
    """Returns one training, with its curve as it came."""
    trial, name, state = words.trial, words.title, history.state(run)
    flying = state.status == "running"
    tags = _tags(history, "run", words) | {
        "locus.seed": str(run.seed),
        KEY: run.key,
        CODE: history.code(run),
        "locus.outcome": _unfinished(ended) if flying else state.status,
    }
    reason = _reason(state)
    tags |= {"locus.reused": "true"} if state.reused else {}
    tags |= {"locus.reason": reason} if reason else {}
    again = {"locus.trained_again": str(state.lost)} if state.lost else {}
    tags["mlflow.note.content"] = run_note(history, words, run, reason)
    short = name if name == trial.name else name.split(" ", 1)[0]
    return Row(
        ("run", trial.label, run.seed),
        f"{short} seed {run.seed}",
        _halted(ended) if flying else "FAILED" if state.status == "failed" else "FINISHED",
        words.params | {"seed": str(run.seed)},
        tags | again,
        seed_curve(state),
        state.begun or min((fact.time for fact in state.curve.values()), default=state.last or 0.0),
        state.last or 0.0,
        parent=("trial", trial.label, None),
        fixed=(KEY, CODE, *again),  # the clock's numbers of another training differ
    )


def rows(history: History, ended: MlflowStatus) -> Iterator[Row]:
    """Yields every row of a study, parents first."""
    of = [(trial, history.runs(trial)) for trial in history.trials]
    yield study_row(history, (run for _, runs in of for run in runs.values()), ended)
    best = find_best(history)
    for trial, runs in of:
        if here := begun(history, runs):
            words = TrialWords(history.edition, trial)
            yield trial_row(history, words, runs, best, ended)
            yield from (run_row(history, words, run, ended) for run in here.values())


def _halted(ended: MlflowStatus) -> MlflowStatus:
    return "RUNNING" if ended == "RUNNING" else "KILLED"


def _unfinished(ended: MlflowStatus) -> str:
    return "running" if ended == "RUNNING" else "interrupted"


def _reason(state: RunState) -> str:
    match state.status:
        case "failed":
            return state.reason
        case "stopped":
            return stopped_words(state.epoch, state.cutoff or 0.0)
        case "diverged":
            return f"diverged after epoch {state.epoch}; counts as chance"
        case _:
            return ""


def _tags(history: History, level: str, words: TrialWords | None = None) -> dict[str, str]:
    tags = {"locus.study": history.edition.id, "locus.level": level}
    if words is not None:
        trial = words.trial
        tags |= {
            "locus.number": trial.label,
            "locus.role": words.role,
            "mlflow.runColor": TRIAL_COLORS[(trial.tunes[1] if trial.tunes else trial.number) % len(TRIAL_COLORS)],
        }
    return tags


LARGEST = 1.7976931348623157e308
"""What MLflow keeps of an infinite number."""
Curve = list[tuple[int, float]]
"""The steps and values of a metric."""


@dataclass
class TrackedRun:
    """What MLflow has of one row. `step`: the last one with points. `latest`: every metric's last value."""

    id: str
    status: MlflowStatus
    params: dict[str, str]
    tags: dict[str, str]
    latest: dict[str, float]
    step: int
    experiment: str = ""
    files: str = ""

    @classmethod
    def of(cls, run: Any) -> TrackedRun:
        """Converts MLflow's own entity."""
        step = max((metric.step for metric in run.data._metric_objs), default=-1)
        info, data = run.info, run.data
        where = info.experiment_id, info.artifact_uri
        return cls(info.run_id, info.status, data.params, data.tags, data.metrics, step, *where)

    @property
    def row_id(self) -> RunId | None:
        """The row it shows; None if its tags are not those that locus writes."""
        level, seed = self.tags.get("locus.level"), self.tags.get("locus.seed")
        if level is None or not (seed is None or seed.isdecimal()):
            return None
        return level, self.tags.get("locus.number", ""), None if seed is None else int(seed)

    def news(self, row: Row) -> list[Point]:
        """Returns a row's points with only the values that differ from the last ones sent.

        What the row has no more becomes NaN, for MLflow deletes no metric. Steps rise: MLflow takes the value of the
        greatest step for the last one.
        """
        step, news = self.step, list[Point]()
        for point in row.points:
            wanted = dict.fromkeys(self.surplus(point.values), math.nan) | point.values
            values = {k: v for k, v in wanted.items() if k not in self.latest or not equal(self.latest[k], v)}
            step = max(point.step, step + 1)
            news.append(Point(step, point.time, values))
        return [point for point in news if point.values]

    def surplus(self, wanted: Collection[str]) -> set[str]:
        """Returns the metrics of ours that MLflow has a number of, and that are not wanted."""
        there = {name for name, value in self.latest.items() if name.startswith(METRICS) and not equal(value, math.nan)}
        return there.difference(wanted)

    def differs(self, row: Row, curves: Mapping[str, Curve]) -> tuple[set[str], set[str]]:
        """Returns the metrics that differ from a row: those with a wrong point, and those that lack the last points.

        One that the row has not is wrong, but for the curve of fewer seeds where a trial has none yet.

        `curves`: all points that MLflow has, by metric.
        """
        wanted: dict[str, Curve] = {}
        for point in row.points:
            for name, value in point.values.items():
                wanted.setdefault(name, []).append((point.step, value))
        older = row.only_changes or (not row.points and CURVE in self.tags)
        wrong, lacks = set[str]() if older else self.surplus(wanted), set[str]()
        for name, curve in wanted.items():
            there, last = curves.get(name, []), self.latest.get(name)
            points = zip(there, curve, strict=False)
            begins = len(there) <= len(curve) and all(a[0] == b[0] and equal(a[1], b[1]) for a, b in points)
            if not begins or (there and last is not None and not equal(last, there[-1][1])):
                wrong.add(name)
            elif len(there) < len(curve):
                lacks.add(name)
        return wrong, lacks

    def other_params(self, row: Row) -> set[str]:
        """Returns the params that have another value than a row's."""
        return {name for name, value in self.params.items() if row.params.get(name, value) != value}


def strange(history: History, placed: Collection[RunId], shown: Mapping[RunId, TrackedRun]) -> set[RunId]:
    """Returns the levels of ours that MLflow shows, and that are no rows of a journal, nor were by other code.

    `placed`: the rows by the code that counts.
    """
    trials = {trial.label: trial for trial in history.trials}

    def was_row(label: str, seed: int | None, code: str) -> bool:
        runs = history.runs(trials[label]) if label in trials else {}
        some = [run for at, run in runs.items() if seed in (at, None)]
        return any(code != history.code(run) and (run.key, code) in history.states for run in some)

    others = {place: run for place, run in shown.items() if place[0] in LEVELS and place not in placed}
    return {place for place, run in others.items() if not was_row(*place[1:], run.tags.get(CODE, ""))}


def equal(shown: float, other: float) -> bool:
    """Returns whether MLflow's number is the journal's. In a damaged database it may be a text."""
    kept = math.copysign(LARGEST, other) if math.isinf(other) else other
    return shown in (kept, other) or (isinstance(shown, float) and math.isnan(shown) and math.isnan(other))
