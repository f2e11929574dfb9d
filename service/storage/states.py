"""The state of one run, as its facts add up to it, the answer of one trial, and how far the tuning of arms is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from search_spaces.roles import POINTS
from search_spaces.study import Ablation, Edition, Search, Study, Trial, Tuning
from service.storage.facts import (
    Confirms,
    Ended,
    Fact,
    FailedWith,
    Measured,
    Planned,
    Started,
    StoppedAt,
    Tuned,
)

RunStatus = Literal["missing", "running", "stopped", "failed", "completed", "diverged"]
TrialStatus = Literal["open", "completed", "stopped", "diverged", "incomplete"]
TRIES = 2
"""How often a failing run is tried before it is left to the next command."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """What a run measured in one epoch, and when. Units: `time` in seconds since 1970."""

    values: dict[str, float]
    time: float


@dataclass(slots=True)
class RunState:
    """The state of one run in one study, by the code that counts. `lost`: how often its answer was lost."""

    status: RunStatus = "missing"
    curve: dict[int, Epoch] = field(default_factory=dict)
    attempts: int = 0
    failures: int = 0
    lost: int = 0
    reason: str = ""
    cutoff: float | None = None
    reused: bool = False
    begun: float | None = None
    last: float | None = None
    placement: dict[str, Any] = field(default_factory=dict)

    @property
    def epoch(self) -> int:
        """The last epoch that was measured."""
        return max(self.curve, default=0)

    @property
    def values(self) -> dict[int, dict[str, float]]:
        """The values of each epoch that was measured, in order."""
        return {epoch: self.curve[epoch].values for epoch in sorted(self.curve)}

    @property
    def answered(self) -> bool:
        """True if nothing is left to do for this run."""
        return self.status in ("completed", "diverged", "stopped")

    @property
    def left_out(self) -> bool:
        """True if its point was out of the race before the run began."""
        return self.status == "stopped" and not self.curve

    @property
    def was_run(self) -> bool:
        """True if the run was started, or its answer was found among the outcomes."""
        return self.status != "missing" and not self.left_out

    def value(self, metric: str) -> float | None:
        """Returns a metric at the last epoch measured."""
        return self.curve[self.epoch].values.get(metric) if self.curve else None


@dataclass(frozen=True)
class TrialAnswer:
    """The result of a trial over its seeds.

    `values`: the last score of each answered seed; a diverged seed is at chance. `raced`: whether a point was stopped
    after whole seeds, because its mean could not become one of the best; else it was stopped at a rung.
    """

    status: TrialStatus
    values: dict[int, float]
    asked: int
    epoch: int = 0
    cutoff: float | None = None
    reason: str = ""
    raced: bool = False

    @property
    def mean(self) -> float | None:
        """The mean over the answered seeds."""
        return fmean(self.values.values()) if self.values else None


def first_left_out(states: Iterable[RunState]) -> RunState | None:
    """Returns the run that the race left out, of a trial's runs in order; None if one before it has lost its answer."""
    state = next((state for state in states if state.left_out or not state.answered), None)
    return state if state and state.left_out else None


def add_fact(state: RunState, fact: Started | Measured | StoppedAt | FailedWith | Ended) -> None:
    """Adds one fact to the state of its run."""
    match fact:
        case Started(attempt=attempt, placement=placement):
            state.status, state.attempts, state.placement = "running", attempt, placement
            state.begun = fact.time
        case Measured():
            state.curve.setdefault(fact.epoch, Epoch(fact.values, fact.time))
        case StoppedAt(cutoff=cutoff):
            state.status, state.cutoff = "stopped", cutoff
        case FailedWith(reason=reason):
            if state.answered:  # its answer is lost: what is measured from now on counts
                state.curve, state.lost = {}, state.lost + 1
            state.status, state.reason = "failed", reason
            state.failures += TRIES if fact.final else 1 if fact.counts else 0
        case Ended(outcome=outcome, reused=reused):
            state.status, state.reused = outcome, reused


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
        """Returns the trials that tune an arm, by number."""
        return sorted(self._trials.get(arm, ()), key=lambda trial: trial.number)

    def is_settled(self, trial: Trial) -> bool:
        """Returns whether a trial tunes an arm whose values are fixed: nothing of it is trained any more."""
        return trial.tunes is not None and trial.tunes[0] in self.chosen

    def chosen_trial(self, arm: str) -> Trial | None:
        """Returns the trial whose values an arm has; None before the choice, and where every trial diverged."""
        number = self.chosen.get(arm)
        if number is None:
            return None
        return next(trial for trial in self.trials(arm) if trial.number == number)

    def arm(self, number: int, name: str) -> Trial:
        """Returns an arm with its values: those of the study, with what its tuning chose."""
        plan, chosen = self.edition.study.plan, self.chosen_trial(name)
        assert isinstance(plan, Ablation)
        return self.edition.trial(number, plan.arms[name] if chosen is None else chosen.values, name)

    def known_arms(self) -> list[Trial]:
        """Returns the arms whose values are fixed, in order: all of them where no arm is tuned."""
        plan, untuned = self.edition.study.plan, self.untuned_arms()
        names = [*plan.arms] if isinstance(plan, Ablation) else []
        return [self.arm(number, name) for number, name in enumerate(names) if name not in untuned]

    def untuned_arms(self) -> list[str]:
        """Returns the arms whose values depend on a tuning that has not ended."""
        plan = self.edition.study.plan
        arms = plan.arms if isinstance(plan, Ablation) and plan.tune else {}
        return [name for name in arms if name not in self.chosen]


def tuning_of(edition: Edition) -> Tuning | None:
    """Returns how the arms of an edition are tuned; None if they are not, and for a search."""
    plan = edition.study.plan
    return plan.tune if isinstance(plan, Ablation) else None


def arms_ahead(edition: Edition, trials: list[Trial]) -> set[str]:
    """Returns the arms of which no trial is planned."""
    plan = edition.study.plan
    if not isinstance(plan, Ablation):
        return set()
    return {*plan.arms} - {trial.tunes[0] if trial.tunes else trial.name for trial in trials}


def shows_verdict(study: Study, tested: list[Trial]) -> bool:
    """Returns whether a test could be seen: of a confirmed point, of the trials of a claim, of two arms, or of an arm
    and its published number.
    """
    if isinstance(study.plan, Search):
        return bool(tested)
    names = {trial.name for trial in tested}
    equal = any(number.within is not None and number.who in names for number in study.published)
    return len(names) > 1 or equal or any({*claim.names} <= names for claim in study.claims)


def misfit(fact: Fact, edition: Edition, tuning: ArmTunings, of: Callable[[str], list[Trial]]) -> str:
    """Returns why a fact is none of an edition; empty if it may be one. `of`: returns the planned trials of a role."""
    if not isinstance(fact, Planned | Tuned | Confirms):
        return ""
    arms = [*edition.study.plan.arms] if isinstance(edition.study.plan, Ablation) else []
    tuned = arms if tuning_of(edition) else []
    match fact:
        case Planned(role="tuning", tunes=arm) | Tuned(arm=arm) if arm not in tuned:
            return f"the study tunes no arm {arm!r}"
        case Tuned(arm=arm, number=int(number)) if all(trial.number != number for trial in tuning.trials(arm)):
            return f"no trial {number} tunes {arm!r}"
        case Planned(role="confirmation" | "rival" | "rival_confirmation" as role) if arms:
            return f"the study has no {role.replace('_', ' ')}"
        case Planned(role="trial", number=number, name=name) if arms and arms[number : number + 1] != [name]:
            return f"the study has no arm {name!r} at place {number}"
        case Confirms(numbers=numbers, rivals=rivals):
            planned = {role: {trial.number for trial in of(role)} for role in POINTS}
            unknown = {*numbers} - planned["trial"] | {*rivals} - planned["rival"]
            return f"no trial has the number {min(unknown)}" if unknown else ""
    return ""
