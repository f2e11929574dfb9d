"""What MLflow should show of a study: rows at three levels, folded from its history.

Pure, without MLflow: a `Row` describes one MLflow run, and `store` writes it. The study is the parent of its trials, a
trial of its runs. A trial is a search's point, an arm, a confirmation (`c7`), a parent (`p1`), or one that tunes an arm
(`t2.7`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Literal

from search_spaces.words import listed, quoted
from service.analysis.best import Best, find_best, one_of
from service.analysis.format import TRIAL_COLORS, raced_words, stopped_words
from service.analysis.scores import validation_scores
from service.planning.forecast import planned_runs
from service.storage.facts import RunState
from service.storage.history import History
from service.tracking.row_contents import (
    NO_CONCLUSION,
    Conclusion,
    Point,
    TrialWords,
    means,
    rank_tag,
    score_words,
    seed_curve,
    study_note,
    test_scores,
    title,
)
from trainables.recipe import Run

MlflowStatus = Literal["RUNNING", "FINISHED", "FAILED", "SCHEDULED"]
"""MLflow's words. `SCHEDULED`: the study was stopped, and the same command goes on with it."""
RunId = tuple[str, str, int | None]
"""How a row is known within its study: level, number label, seed."""
STUDY: RunId = ("study", "", None)
KEY, CODE, AGAIN = "locus.key", "locus.code", "locus.trained_again"
"""The tags of a run's key, of the code that gave a row's numbers, and of how often an answer was lost."""
IDENTITY = (KEY, CODE, AGAIN)
"""MLflow deletes no point: a row that differs from MLflow's run in one of these tags is written as a new run."""


@dataclass(frozen=True)
class Row:
    """What one MLflow run should look like. Units: times in seconds since 1970.

    `points` of a run are its epochs, each written once. `values`: the last numbers of a study or a trial, of which
    those that changed are written at the point's step.
    """

    id: RunId
    name: str
    status: MlflowStatus
    params: dict[str, str]
    tags: dict[str, str]
    begun: float
    last: float
    points: tuple[Point, ...] = ()
    values: Point | None = None
    parent: RunId | None = STUDY


def begun(history: History, runs: dict[int, Run]) -> dict[int, Run]:
    """Returns the runs that were started, or whose answer was found among the outcomes."""
    return {seed: run for seed, run in runs.items() if history.state(run).was_run}


def study_row(
    history: History, ended: MlflowStatus, conclusion: Conclusion = NO_CONCLUSION, best: Best | None = None
) -> Row:
    """Returns the study's own row: how much of it is done, and the best trial's numbers."""
    edition, last, best = history.edition, history.last or 0.0, best or find_best(history)
    runs = [run for trial in history.trials for run in history.runs(trial).values()]
    began = min((state.begun for state in history.states.values() if state.begun), default=last)
    answered = {run.key for run in runs if history.state(run).answered and history.state(run).was_run}
    values: dict[str, float] = {
        "progress/runs": len(answered),
        "progress/asked": max(planned_runs(history), len(answered)),
        "progress/trials": sum(history.answer(trial).status != "open" for trial in history.of("trial")),
    }
    tags = _tags(history, "study") | {
        "locus.seeds": str(history.seeds),
        "locus.trials": str(history.trial_count or len(history.of("trial"))),
        "locus.family": edition.study.family,
        "locus.outcome": OUTCOMES[ended],
        "locus.headline": conclusion.headline,
        "locus.claims": "; ".join(conclusion.claims),
        "locus.best": "",
        "mlflow.note.content": study_note(history, best, conclusion),
    }
    if best.trials:
        names = [title(edition, trial) for trial in best.trials]
        tags["locus.best"] = f"tie: {listed([*map(quoted, names)])}" if best.tied else names[0]
        winner = one_of(best.trials, lambda tied: test_scores(history, tied))
        values |= {f"best/{name}": value for name, value in means(history, winner).items()} if winner else {}
    step = round(last - began)
    return Row(
        STUDY, edition.id, ended, {"budget": edition.budget}, tags, began, last, values=Point(step, last, values),
        parent=None,
    )  # fmt: skip


def trial_row(history: History, words: TrialWords, best: Best, ended: MlflowStatus = "RUNNING") -> Row:
    """Returns a trial with the means over its seeds, once its asked seeds have ended.

    `best`: the best trials of the study; `ended`: how the study ended, RUNNING before.
    """
    trial, answer = words.trial, history.answer(words.trial)
    runs = begun(history, history.runs(trial))
    states = [history.state(run) for run in runs.values()]
    whole = answer.status != "open" or ended == "FINISHED"
    reason = next(filter(None, map(_reason, states)), "")
    if answer.raced:
        reason = raced_words(len(answer.values), answer.asked, answer.cutoff or 0.0)
    is_best = trial.label in {winner.label for winner in best.trials}
    tags = _tags(history, "trial", words) | {
        "locus.outcome": answer.status if whole else OUTCOMES[ended],
        "locus.seeds": str(answer.asked),
        CODE: history.code(next(iter(runs.values()))),
        "locus.rank": rank_tag(history, trial),
        "locus.reason": reason,
        "locus.best": ("best (tie)" if best.tied else "best") if is_best else "",
        "locus.score": score_words(validation_scores(history, trial)) if whole else "",
        "locus.test": score_words(test_scores(history, trial)) if whole else "",
    }
    last = max(state.last or 0.0 for state in states)
    return Row(
        ("trial", trial.label, None), words.title, "FINISHED" if whole else ended, words.params, tags,
        min(state.begun or state.last or 0.0 for state in states), last,
        values=Point(len(answer.values), last, means(history, trial)) if whole else None,
    )  # fmt: skip


def run_row(history: History, words: TrialWords, run: Run, ended: MlflowStatus = "RUNNING") -> Row:
    """Returns one training, with its curve as it came."""
    trial, name, state = words.trial, words.title, history.state(run)
    status: MlflowStatus = "FAILED" if state.status == "failed" else "FINISHED"
    tags = _tags(history, "run", words) | {
        "locus.seed": str(run.seed),
        KEY: run.key,
        CODE: history.code(run),
        "locus.outcome": OUTCOMES[ended] if state.status == "running" else state.status,
        "locus.reused": "true" if state.reused else "",
        "locus.reason": _reason(state),
        AGAIN: str(state.lost or ""),
    }
    short = name if name == trial.name else name.split(" ", 1)[0]
    return Row(
        ("run", trial.label, run.seed),
        f"{short} seed {run.seed}",
        ended if state.status == "running" else status,
        words.params | {"seed": str(run.seed)},
        tags,
        state.begun or min((fact.time for fact in state.curve.values()), default=state.last or 0.0),
        state.last or 0.0,
        tuple(seed_curve(state)),
        parent=("trial", trial.label, None),
    )


def rows(
    history: History,
    ended: MlflowStatus,
    best: Best | None = None,
    words: dict[str, TrialWords] | None = None,
    is_news: Callable[[Run], bool] = lambda run: True,
    marks: Collection[str] = (),
) -> Iterator[Row]:
    """Yields the rows of runs with news, and their parents before them; without `is_news` every row of a study.

    `best`: the best trials, where they are known already; `words`: of trials by label, kept from call to call;
    `marks`: labels of trials that are news, too.
    """
    best, words = best or find_best(history), {} if words is None else words
    yield study_row(history, ended, best=best)
    for trial in history.trials:
        runs = begun(history, history.runs(trial))
        news = [run for run in runs.values() if is_news(run)]
        if news or (runs and trial.label in marks):
            of_trial = words.setdefault(trial.label, TrialWords(history.edition, trial))
            yield trial_row(history, of_trial, best, ended)
            yield from (run_row(history, of_trial, run, ended) for run in news)


OUTCOMES: dict[MlflowStatus, str] = {
    "RUNNING": "running", "FINISHED": "completed", "FAILED": "failed", "SCHEDULED": "stopped, continues",
}  # fmt: skip
"""What is said of what did not end by itself, by how the study ended."""


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
