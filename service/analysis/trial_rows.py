"""A study's trials as rows for a terminal: the live table, `status` and `--json` all show these."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import stdev

from search_spaces.study import Trial
from service.storage.history import History, TrialAnswer


@dataclass(frozen=True)
class TrialRow:
    """One trial in words and numbers. `values`: its varied paths; `state`: where it stands, with the reason."""

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
    best: bool

    @property
    def score(self) -> str:
        """The mean with its spread: 0.9961 +- 0.0012."""
        if self.mean is None:
            return ""
        return f"{self.mean:.4f}" + (f" +- {self.std:.4f}" if self.std is not None else "")


def rows(history: History, *, alive: bool = True) -> list[TrialRow]:
    """A row a trial, in order. `alive`: a driver is at work, so what was begun is running and not interrupted."""
    top = history.best(1)
    confirmed = _confirmed_best(history)
    best = confirmed or (top[0] if top else None)
    return [_row(history, trial, trial is best, alive) for trial in history.trials]


def _confirmed_best(history: History) -> Trial | None:
    trials = [trial for trial in history.of("confirmation") if trial.number in history.confirms]
    answers = {trial.number: history.answer(trial) for trial in trials}
    complete = [trial for trial in trials if answers[trial.number].status == "completed"]
    if not complete or any(answer.status == "open" for answer in answers.values()):
        return None
    return max(complete, key=lambda trial: (answers[trial.number].mean or 0.0, -trial.number))


def _row(history: History, trial: Trial, best: bool, alive: bool) -> TrialRow:
    answer = history.answer(trial)
    states = [history.state(run) for run in history.runs(trial).values()]
    done = sum(state.answered for state in states)
    running = [state for state in states if state.status == "running"]
    metric = trial.score.metric
    values = list(answer.values.values()) or [value for state in running if (value := state.value(metric)) is not None]
    return TrialRow(
        label=trial.label,
        name=trial.name,
        values=trial.values if trial.role != "parent" else {},
        done=done,
        asked=len(states),
        epoch=max((state.epoch for state in running), default=answer.epoch),
        epochs=trial.recipe.optimizer.epochs,
        mean=sum(values) / len(values) if values else None,
        std=stdev(values) if len(values) > 1 else None,
        state=_state(answer, bool(running), alive),
        best=best,
    )


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
