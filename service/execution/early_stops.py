"""Which runs of a search end at a rung: each first seed's measurement is compared with those of its rivals.

One seed decides there, so nothing is stopped once the seeds of a trial have split in two groups: it may be that a good
trial's first seed is one that does not learn.
"""

from __future__ import annotations

from search_spaces.roles import POINTS, Role
from search_spaces.study import Edition, Search, Trial
from service.analysis.trial_scores import validation_scores
from service.planning.search.early_stopping import EarlyStopper
from service.storage.history import SETTLED, History
from trainables.recipe import Run
from trainables.recipe.outcome import Measurement


class EarlyStops:
    """The early stopping of one study. `cutoff` must get every measurement of the journal, in order."""

    def __init__(self, edition: Edition, history: History) -> None:
        plan = edition.study.plan
        self.metric, self.history = edition.study.score.metric, history
        self._firsts: dict[str, tuple[Trial, Run]] = {}
        self._seen: set[tuple[str, int]] = set()
        stops = isinstance(plan, Search) and plan.stop is not None
        self._stoppers = {role: EarlyStopper(edition) for role in POINTS} if stops else {}
        self._split: set[Role] = set()
        self._looked_at: set[str] = set()

    def cutoff(self, key: str, code: str, measured: Measurement) -> float | None:
        """The score that a run would have needed to go on, where it ends now; None where it goes on."""
        found = self._first(key) if self._stoppers else None
        value = measured.values.get(self.metric)
        if found is None or code != self.history.code(found[1]) or value is None:
            return None
        if (key, measured.epoch) in self._seen:  # trained again, because its answer was lost
            return None
        self._seen.add((key, measured.epoch))
        trial, run = found
        cutoff = self._stoppers[trial.role].report(trial.number, measured.epoch, value)
        if measured.epoch >= run.recipe.optimizer.epochs or self.history.state(run).answered:
            return None
        return None if cutoff is None or self._seeds_split(trial.role) else cutoff

    def _seeds_split(self, role: Role) -> bool:
        """Whether the seeds of a point that has ended lie in two groups. Each point is looked at once."""
        for trial in [] if role in self._split else self.history.of(role):
            answer = self.history.answer(trial)
            if trial.label not in self._looked_at and answer.status in SETTLED:
                self._looked_at.add(trial.label)
                if validation_scores(self.history, trial, answer).split:
                    self._split.add(role)
        return role in self._split

    def _first(self, key: str) -> tuple[Trial, Run] | None:
        """The trial and the run, where a key is that of the first seed of a point."""
        points = [trial for trial in self.history.trials if trial.role in POINTS]
        for trial in points[len(self._firsts) :]:
            first = self.history.first_run(trial)
            self._firsts.setdefault(first.key, (trial, first))
        return self._firsts.get(key)
