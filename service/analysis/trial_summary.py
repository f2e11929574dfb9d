"""A study's trials in a line each: the live table, `status` and `--json` all show these."""

from __future__ import annotations

from dataclasses import dataclass, replace
from statistics import stdev

from search_spaces.roles import COMPARED
from search_spaces.study import Trial
from search_spaces.words import without_sources
from service.analysis.best import find_best
from service.analysis.format import raced_words, stopped_words
from service.storage.history import History
from service.storage.states import RunState, TrialAnswer


@dataclass(frozen=True)
class TrialSummary:
    """One trial in words and numbers.

    `values`: its varied paths; `state`: its state, with the reason; `mark`: "best", "best (tie)" or nothing.
    """

    label: str
    name: str
    values: dict[str, object]
    done: int
    asked: int
    epoch: int
    epochs: int
    mean: float | None
    std: float | None
    state: str
    mark: str = ""

    @property
    def best(self) -> bool:
        """True for the best trial, and for each of several that tie."""
        return bool(self.mark)

    @property
    def score(self) -> str:
        """The mean with its spread: 0.9961 +- 0.0012."""
        if self.mean is None:
            return ""
        return f"{self.mean:.4f}" + (f" +- {self.std:.4f}" if self.std is not None else "")


class Summaries:
    """Summaries of the trials of a study that grows: those of settled trials are made once."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._settled: dict[str, TrialSummary] = {}
        self._invalidations = history.invalidations

    def __call__(self, *, alive: bool = True) -> list[TrialSummary]:
        """One summary a trial, in order. `alive`: a driver runs, so an unfinished run is running, not interrupted."""
        history = self.history
        if self._invalidations != history.invalidations:
            self._invalidations = history.invalidations
            self._settled.clear()
        best = find_best(history)
        mark = "best (tie)" if best.tied else "best"
        winners = {trial.label for trial in best.trials}
        waiting = history.waiting()
        rows = [self._settled.get(trial.label) or _summary(history, trial, alive) for trial in history.trials]
        for trial, row in zip(history.trials, rows, strict=True):
            if trial.role in COMPARED and row.label not in waiting:
                self._settled[row.label] = row
        return [replace(row, mark=mark) if row.label in winners else row for row in rows]


def summarize(history: History, *, alive: bool = True) -> list[TrialSummary]:
    """As `Summaries`, once."""
    return Summaries(history)(alive=alive)


def _summary(history: History, trial: Trial, alive: bool) -> TrialSummary:
    answer = history.answer(trial)
    states = [history.state(run) for run in history.runs(trial).values()]
    done = sum(state.answered and not state.left_out for state in states)
    running = [state for state in states if state.status == "running"]
    metric = trial.score.metric
    values = list(answer.values.values()) or [value for state in running if (value := state.value(metric)) is not None]
    return TrialSummary(
        label=trial.label,
        name=trial.name,
        values=without_sources(trial.values) if trial.role != "parent" else {},
        done=done,
        asked=len(states),
        epoch=max((state.epoch for state in running), default=answer.epoch),
        epochs=trial.recipe.optimizer.epochs,
        mean=sum(values) / len(values) if values else None,
        std=stdev(values) if len(values) > 1 else None,
        state=_state(answer, bool(running), alive) + _diverged(answer, states) + _tuned(history, trial),
    )


def _diverged(answer: TrialAnswer, states: list[RunState]) -> str:
    """How many seeds of a trial diverged, where its state does not say so; each counts as chance."""
    count = sum(state.status == "diverged" for state in states)
    return f", {count} of {len(states)} diverged" if count and answer.status != "diverged" else ""


def _tuned(history: History, trial: Trial) -> str:
    """Which trial gave an arm its values, where arms are tuned."""
    chosen = history.tuning.chosen_trial(trial.name) if trial.role == "trial" else None
    return f", tuned as {chosen.label}" if chosen else ""


def _state(answer: TrialAnswer, running: bool, alive: bool) -> str:
    match answer.status:
        case "completed":
            return "done"
        case "stopped" if answer.raced:
            return raced_words(len(answer.values), answer.asked, answer.cutoff or 0.0)
        case "stopped":
            return stopped_words(answer.epoch, answer.cutoff or 0.0)
        case "diverged":
            return f"diverged at {answer.epoch}"
        case "incomplete":
            return f"failed: {answer.reason}" if answer.reason else "not counted: of other code"
    if running:
        return "running" if alive else "interrupted"
    return "waiting" if alive else "unfinished"
