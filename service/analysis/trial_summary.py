"""A study's trials in a line each: the live table, `status` and `--json` all show these."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import stdev

from search_spaces.study import Trial
from search_spaces.words import without_sources
from service.analysis.best import find_best
from service.storage.history import History, RunState, TrialAnswer


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


def summarize(history: History, *, alive: bool = True) -> list[TrialSummary]:
    """One summary a trial, in order. `alive`: a driver runs, so an unfinished run is running, not interrupted."""
    best = find_best(history)
    mark = "best (tie)" if best.tied else "best"
    winners = {trial.label for trial in best.trials}
    return [_summary(history, trial, mark if trial.label in winners else "", alive) for trial in history.trials]


def _summary(history: History, trial: Trial, mark: str, alive: bool) -> TrialSummary:
    answer = history.answer(trial)
    states = [history.state(run) for run in history.runs(trial).values()]
    done = sum(state.answered for state in states)
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
        state=_state(answer, bool(running), alive) + _diverged(answer, states),
        mark=mark,
    )


def _diverged(answer: TrialAnswer, states: list[RunState]) -> str:
    """How many seeds of a trial diverged, where its state does not say so; each counts as chance."""
    count = sum(state.status == "diverged" for state in states)
    return f", {count} of {len(states)} diverged" if count and answer.status != "diverged" else ""


def _state(answer: TrialAnswer, running: bool, alive: bool) -> str:
    match answer.status:
        case "completed":
            return "done"
        case "stopped":
            return f"stopped at {answer.epoch} (cut-off {answer.cutoff:.3g})"
        case "diverged":
            return f"diverged at {answer.epoch}"
        case "incomplete":
            return f"failed: {answer.reason}"
    if running:
        return "running" if alive else "interrupted"
    return "waiting" if alive else "unfinished"
