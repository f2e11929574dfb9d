"""A line for each event of a study, where the output is no terminal."""

from __future__ import annotations

from search_spaces.roles import LETTERS
from search_spaces.study import Trial
from search_spaces.words import quoted
from service.analysis.format import left_out_words, stopped_words
from service.storage.history import History
from service.storage.journal import Confirms, Ended, Fact, FailedWith, Measured, Planned, Started, StoppedAt, Tuned


class EventLines:
    """Facts in words: a call returns a fact's line, or None for a fact that nobody waits for."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._owners: dict[str, tuple[Trial, int]] = {}
        self._known = 0, 0

    def __call__(self, fact: Fact) -> str | None:
        """A fact's line."""
        if isinstance(fact, Measured | StoppedAt | FailedWith | Ended) and self._owner(fact.run) is None:
            return f"{fact.run} {fact.fact}, a run of other data or values than the study has now"
        match fact:
            case Planned(role="trial" | "rival" as role, number=number, name=name):
                return f"#{LETTERS[role]}{number} {name} planned"
            case Planned(role="tuning"):
                trial = self.history.of("tuning")[-1]
                return f"#{trial.label} {trial.name} planned"
            case Tuned(arm=arm):
                chosen = self.history.tuning.chosen_trial(arm)
                if chosen is None:
                    return f"{quoted(arm)} keeps its own values, as every trial of its tuning diverged"
                return f"tuned: #{chosen.label} {chosen.name}"
            case Confirms(numbers=numbers, rivals=rivals):
                labels = [f"#{number}" for number in numbers] + [f"#r{number}" for number in rivals]
                return f"confirming {', '.join(labels)} on fresh seeds"
            case Started(label=label, seed=seed, attempt=attempt):
                return f"#{label} seed {seed} started" + (f", attempt {attempt}" if attempt > 1 else "")
            case Measured(epoch=epoch, values=values):
                trial, seed = self._owners[fact.run]
                metric, epochs = trial.score.metric, trial.recipe.optimizer.epochs
                value = f" {metric} {values[metric]:.4f}" if metric in values else ""
                return f"#{trial.label} seed {seed} epoch {epoch}/{epochs}{value}"
            case StoppedAt(epoch=0, cutoff=cutoff):
                trial, seed = self._owners[fact.run]
                return f"#{trial.label} seed {seed} {left_out_words(cutoff)}"
            case StoppedAt(epoch=epoch, cutoff=cutoff):
                trial, seed = self._owners[fact.run]
                return f"#{trial.label} seed {seed} {stopped_words(epoch, cutoff)}"
            case FailedWith(reason=reason):
                trial, seed = self._owners[fact.run]
                return f"#{trial.label} seed {seed} failed: {reason}"
            case Ended(outcome=outcome, reused=reused):
                trial, seed = self._owners[fact.run]
                return f"#{trial.label} seed {seed} {outcome}" + (", reused" if reused else "")
            case _:
                return None

    def _owner(self, key: str) -> tuple[Trial, int] | None:
        """The trial and the seed of a run; None where the study has no such run (its data may have changed since)."""
        known = len(self.history.trials), self.history.generation
        if key not in self._owners and known != self._known:
            self._known = known
            for trial in self.history.trials:
                for seed, run in self.history.runs(trial).items():
                    self._owners.setdefault(run.key, (trial, seed))
        return self._owners.get(key)
