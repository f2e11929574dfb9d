"""How far the tuning of an ablation's arms is, and which values each arm has by it."""

from __future__ import annotations

from search_spaces.study import Ablation, Edition, Trial, Tuning


class ArmTunings:
    """The trials that tune each arm, and `chosen`: the number of the one whose values an arm has.

    An arm is in `chosen` from the moment on in which its values are fixed; None: every trial diverged, so the arm has
    the values that the study gives it.
    """

    def __init__(self, edition: Edition) -> None:
        self.edition = edition
        self.chosen: dict[str, int | None] = {}
        self._trials: dict[str, list[Trial]] = {}

    def add(self, trial: Trial) -> None:
        """Adds a trial that tunes an arm."""
        assert trial.tunes is not None
        self._trials.setdefault(trial.tunes[0], []).append(trial)

    def trials(self, arm: str) -> list[Trial]:
        """The trials that tune an arm, by number."""
        return sorted(self._trials.get(arm, ()), key=lambda trial: trial.number)

    def is_settled(self, trial: Trial) -> bool:
        """Whether a trial tunes an arm whose values are fixed: nothing of it is trained any more."""
        return trial.tunes is not None and trial.tunes[0] in self.chosen

    def chosen_trial(self, arm: str) -> Trial | None:
        """The trial whose values an arm has; None before the choice, and where every trial diverged."""
        number = self.chosen.get(arm)
        if number is None:
            return None
        (found,) = (trial for trial in self.trials(arm) if trial.number == number)
        return found

    def arm(self, number: int, name: str) -> Trial:
        """An arm with its values: those of the study, with what its tuning chose."""
        plan, found = self.edition.study.plan, self.chosen_trial(name)
        assert isinstance(plan, Ablation)
        return self.edition.trial(number, plan.arms[name] if found is None else found.values, name)

    def known_arms(self) -> list[Trial]:
        """The arms whose values are fixed, in order: all of them where no arm is tuned."""
        plan = self.edition.study.plan
        names = [*plan.arms] if isinstance(plan, Ablation) else []
        tuned = tuning_of(self.edition) is not None
        return [self.arm(number, name) for number, name in enumerate(names) if not tuned or name in self.chosen]

    def untuned_arms(self) -> list[str]:
        """The arms whose values depend on a tuning that has not ended."""
        plan = self.edition.study.plan
        if not isinstance(plan, Ablation) or plan.tune is None:
            return []
        return [name for name in plan.arms if name not in self.chosen]


def tuning_of(edition: Edition) -> Tuning | None:
    """How the arms of an edition are tuned; None if they are not, and for a search."""
    plan = edition.study.plan
    return plan.tune if isinstance(plan, Ablation) else None
