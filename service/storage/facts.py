"""Defines the facts of a journal, and computes the state of a run, a trial or a tuning from them.

A fact, a line of the journal, is one event of a study. It says when and by which driver (the process that runs the
study) it was written.

A journal may come from a stranger, in a copied home, an archive or a storage. Its keys and codes become names of files
and folders, and its counts become loops. So each of them has a form and a bound, and a line with other values is no
fact. A checksum ends each line, so that a changed byte is noticed.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from statistics import fmean
from typing import Annotated, Any, Literal, Self

from pydantic import Field, TypeAdapter

from search_spaces.roles import MOST_SEEDS, MOST_TRIALS, POINTS, Role
from search_spaces.study import Edition, Study, Trial
from trainables.spec import Spec

FORM = 6
"""The form of journals that this code reads and writes. It rises when a kind of fact is added or changed."""
KEY = "[0-9a-f]{16}"
RunKey = Annotated[str, Field(pattern=f"^{KEY}$", description="16 hex digits")]
"""The key of a run, the digest that `Run.key` returns."""
Code = Annotated[str, Field(pattern="^[0-9a-f]{12}$", description="12 hex digits")]
"""The digest of the code that trains a run."""
Count = Annotated[int, Field(ge=0, le=1_000_000, description="a number from 0 to 1,000,000")]
"""The number of an epoch, a place in a list, a seed or an attempt."""


class Stamped(Spec):
    """The two values that the journal adds to each fact: `time`, when it was written, and `by`, the number of the
    driver that wrote it. Units: `time` in seconds since 1970.
    """

    time: float = Field(default=0.0, ge=0, le=1e11, kw_only=True)
    by: int = Field(default=0, ge=0, lt=2**53, kw_only=True)

    def bare(self) -> Self:
        return self.model_copy(update={"time": 0.0, "by": 0})


class Opened(Stamped):
    """A driver has opened the journal; this is the first fact that each driver writes.

    `form` is the form of the journal, `version` the version of locus. `claims` is the digest of the study's claims at
    that time, so that a page can say whether the claims were written before the runs.
    """

    fact: Literal["opened"] = Field(default="opened", init=False)
    host: str
    pid: int
    version: str
    form: int = FORM
    claims: str = Field(default="", max_length=16)


class Planned(Stamped):
    """A trial was added to the study. `tunes` is the name of the arm that the trial tunes, or empty."""

    fact: Literal["planned"] = Field(default="planned", init=False)
    role: Role
    number: Count
    name: str
    values: dict[str, Any]
    """The values of the point or arm; for a parent (a run that other runs need), the `key` of its first run."""
    tunes: str = ""


class Started(Stamped):
    """A run was assigned to a worker."""

    fact: Literal["started"] = Field(default="started", init=False)
    run: RunKey
    code: Code
    attempt: Count
    seed: Count
    label: str
    placement: dict[str, Any] = Field(default_factory=dict)


class Measured(Stamped):
    """A run has measured numbers in an epoch. A resumed run reports some epochs again; the first fact counts."""

    fact: Literal["measured"] = Field(default="measured", init=False)
    run: RunKey
    code: Code
    epoch: Count
    values: dict[str, float]


class StoppedAt(Stamped):
    """The study stopped a run at a rung, because its score was below `cutoff`.

    `epoch` is 0 for a run that never began, because its trial could not become one of the best.
    """

    fact: Literal["stopped"] = Field(default="stopped", init=False)
    run: RunKey
    code: Code
    epoch: Count
    cutoff: float


class FailedWith(Stamped):
    """A run failed, without an answer. `counts` is false if its node was lost: this failure is not counted.

    `final` is true if a second attempt cannot help.
    """

    fact: Literal["failed"] = Field(default="failed", init=False)
    run: RunKey
    code: Code
    reason: str
    counts: bool = True
    final: bool = False


class Ended(Stamped):
    """A run has its answer, the outcome of its training. `reused` is true if the answer was stored already."""

    fact: Literal["ended"] = Field(default="ended", init=False)
    run: RunKey
    code: Code
    outcome: Literal["completed", "diverged"]
    epoch: Count
    reused: bool = False


class Counts(Stamped):
    """The command asks for so many seeds of each trial, and, in a search, so many trials.

    `looks` is set where a repair cut the journal: how many times verdicts could be seen before.
    """

    fact: Literal["counts"] = Field(default="counts", init=False)
    seeds: int = Field(ge=1, le=MOST_SEEDS)
    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    looks: int = Field(default=0, ge=0)


class Confirms(Stamped):
    """The search has chosen trials to train again as a confirmation, the best first, by their numbers.

    `rivals` are the numbers of the trials chosen among random points.
    """

    fact: Literal["confirms"] = Field(default="confirms", init=False)
    numbers: tuple[Count, ...] = Field(strict=False)
    rivals: tuple[Count, ...] = Field(default=(), strict=False)


class Exhausted(Stamped):
    """The search has used up the `trials` points of the space. `rival` is true for the search of random points."""

    fact: Literal["exhausted"] = Field(default="exhausted", init=False)
    trials: Count
    rival: bool = False


class Tuned(Stamped):
    """The tuning of an arm has ended: it takes the values of the trial `number`.

    `number` is None if every trial diverged; the arm then keeps the values that the study gives it.
    """

    fact: Literal["tuned"] = Field(default="tuned", init=False)
    arm: str
    number: Count | None


class ArmCost(Spec):
    """The times that an arm took for training and for prediction, one for each turn. Units: seconds per image."""

    train_s: tuple[float, ...] = Field(strict=False)
    predict_s: tuple[float, ...] = Field(strict=False)


class Costed(Stamped):
    """The costs of arms were measured side by side, on a machine with `cores` processor cores.

    `load` is the average load of that machine in the minute before.
    """

    fact: Literal["costed"] = Field(default="costed", init=False)
    arms: dict[str, ArmCost]
    load: float
    cores: Count

    @property
    def busy(self) -> str:
        """A text about the machine's load, to be added to a sentence; it is empty if half of the cores were free."""
        return f" (a load of {self.load:.1f} on {self.cores} cores)" if self.load > self.cores / 2 else ""


Fact = Annotated[
    Opened | Planned | Started | Measured | StoppedAt | FailedWith | Ended | Counts | Confirms | Exhausted | Tuned |
    Costed,
    Field(discriminator="fact"),
]  # fmt: skip
FACT: TypeAdapter[Fact] = TypeAdapter(Fact)
"""The adapter that reads a fact from the JSON of a line."""
SUM = re.compile(rb'(.*),"sum":"([0-9a-f]{8})"\}\s*', re.DOTALL)
"""The pattern of a line: it ends with the CRC-32 of the bytes before, in hex digits."""


def line_of(plain: Mapping[str, Any]) -> bytes:
    """Returns the line of the journal, with its checksum, for a fact's values of JSON types."""
    content = json.dumps(plain, separators=(",", ":")).encode().removesuffix(b"}")
    return b'%s,"sum":"%08x"}\n' % (content, zlib.crc32(content))


def content_of(line: bytes) -> bytes | None:
    """Returns the JSON of a line without its checksum; None if it has none. Raises: ValueError if it is wrong."""
    match = SUM.fullmatch(line)
    if match is None:
        return None
    if zlib.crc32(match[1]) != int(match[2], 16):
        raise ValueError("the line differs from its checksum")
    return match[1] + b"}"


RunStatus = Literal["missing", "running", "stopped", "failed", "completed", "diverged"]
TrialStatus = Literal["open", "completed", "stopped", "diverged", "incomplete"]
TRIES = 2
"""The number of failures after which a command does not try a run again; the next command does."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The values that a run measured in one epoch. Units: `time`, when it wrote them, in seconds since 1970."""

    values: dict[str, float]
    time: float


@dataclass(slots=True)
class RunState:
    """The state of one run in one study, trained by one version of the code.

    `lost` is the number of times that the run's answer (its stored outcome) was lost, `cutoff` the score below which
    the study stopped it. `begun` is the time when its latest attempt started, `last` the time of its latest fact.
    Units: `begun` and `last` in seconds since 1970.
    """

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
        """The number of the last epoch that was measured; 0 if none was."""
        return max(self.curve, default=0)

    @property
    def values(self) -> dict[int, dict[str, float]]:
        """The values of each epoch that was measured, in the order of the epochs."""
        return {epoch: self.curve[epoch].values for epoch in sorted(self.curve)}

    @property
    def answered(self) -> bool:
        return self.status in ("completed", "diverged", "stopped")

    @property
    def left_out(self) -> bool:
        """True if the run never began, because its trial could not become one of the best."""
        return self.status == "stopped" and not self.curve

    @property
    def was_run(self) -> bool:
        """True if the run was started, or its answer was stored already."""
        return self.status != "missing" and not self.left_out

    def value(self, metric: str) -> float | None:
        """Returns the value of a metric at the last measured epoch, and None if there is none."""
        return self.curve[self.epoch].values.get(metric) if self.curve else None


@dataclass(frozen=True)
class TrialAnswer:
    """The result of a trial over its seeds.

    `values` holds the last score of each seed that has an answer; a diverged seed counts as chance. `asked` is how many
    seeds the study asks for. `raced` is true if the trial was stopped between two seeds, because its mean could not
    become one of the best, and false if at a rung.
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
        return fmean(self.values.values()) if self.values else None


def first_left_out(states: Iterable[RunState]) -> RunState | None:
    """Returns a trial's first run that the study left out; None without one, or if a run before has no answer."""
    state = next((state for state in states if state.left_out or not state.answered), None)
    return state if state and state.left_out else None


def add_fact(state: RunState, fact: Started | Measured | StoppedAt | FailedWith | Ended) -> None:
    """Changes the state of a run by one fact about it."""
    match fact:
        case Measured():  # most of them
            state.curve.setdefault(fact.epoch, Epoch(fact.values, fact.time))
        case Started(attempt=attempt, placement=placement):
            state.status, state.attempts, state.placement = "running", attempt, placement
            state.begun = fact.time
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
    """The trials that tune each arm. `chosen` holds, for each arm, the number of the trial whose values it takes.

    An arm is in `chosen` once its tuning has ended. Its number is None if every trial diverged; the arm then has the
    values that the study gives it.
    """

    def __init__(self, edition: Edition) -> None:
        self.edition = edition
        self.chosen: dict[str, int | None] = {}
        self._trials: dict[str, list[Trial]] = {}

    def add(self, trial: Trial) -> None:
        assert trial.tunes is not None
        self._trials.setdefault(trial.tunes[0], []).append(trial)

    def trials(self, arm: str) -> list[Trial]:
        """Returns the trials that tune an arm, sorted by number."""
        return sorted(self._trials.get(arm, ()), key=lambda trial: trial.number)

    def is_settled(self, trial: Trial) -> bool:
        """Returns whether a trial belongs to a tuning that has ended: no run of it is trained any more."""
        return trial.tunes is not None and trial.tunes[0] in self.chosen

    def chosen_trial(self, arm: str) -> Trial | None:
        """Returns the trial whose values an arm takes; None before it is chosen, and if every trial diverged."""
        number = self.chosen.get(arm)
        if number is None:
            return None
        return next(trial for trial in self.trials(arm) if trial.number == number)

    def arm(self, number: int, name: str) -> Trial:
        """Returns the trial of an arm, with the values that its tuning chose, or else those of the study."""
        plan, chosen = self.edition.study.plan, self.chosen_trial(name)
        return self.edition.trial(number, plan.arms[name] if chosen is None else chosen.values, name)

    def known_arms(self) -> list[Trial]:
        """Returns the arms whose tuning has ended, in the order of the study; all arms if the study tunes none."""
        arms, untuned = self.edition.study.plan.arms, self.untuned_arms()
        return [self.arm(number, name) for number, name in enumerate(arms) if name not in untuned]

    def untuned_arms(self) -> list[str]:
        """Returns the names of the arms whose tuning has not ended."""
        plan = self.edition.study.plan
        return [name for name in plan.arms if plan.tune and name not in self.chosen]


def arms_ahead(edition: Edition, trials: list[Trial]) -> set[str]:
    """Returns the names of the arms that none of these trials belongs to."""
    if not (arms := edition.study.plan.arms):  # a search may have many trials
        return set()
    return {*arms} - {trial.tunes[0] if trial.tunes else trial.name for trial in trials}


def shows_verdict(study: Study, tested: list[Trial]) -> bool:
    """Returns whether these trials, which have enough answers, suffice for one statistical test.

    A test needs a confirmed point, two arms, all trials of a claim, or an arm with a published number.
    """
    if not study.plan.arms:
        return bool(tested)
    names = {trial.name for trial in tested}
    equal = any(number.within is not None and number.who in names for number in study.published)
    return len(names) > 1 or equal or any({*claim.names} <= names for claim in study.claims)


def misfit(fact: Fact, edition: Edition, tuning: ArmTunings, of: Callable[[str], list[Trial]]) -> str:
    """Returns why a fact cannot belong to an edition; an empty text if it can.

    `of` returns the trials of a role that are planned already.
    """
    arms = [*edition.study.plan.arms]
    tuned = arms if edition.study.plan.tune else []
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
