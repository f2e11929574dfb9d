"""What a journal tells: its facts, and the state of a run, a trial and a tuning that they add up to.

A fact says when it was written, and by which driver.

A journal may come from a stranger, in a copied home, an archive or a storage. Its keys and codes become names of files
and folders, and its counts become loops. So each of them has a form and a bound, and a line beyond these is no fact. A
checksum ends each line, so that one byte that changes in it is seen.
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
from search_spaces.study import Ablation, Edition, Search, Study, Trial, Tuning
from trainables.spec import Spec

FORM = 5
"""The form of the journals that this code writes and reads. A new kind of fact or a changed one makes a new form."""
KEY = "[0-9a-f]{16}"
RunKey = Annotated[str, Field(pattern=f"^{KEY}$", description="16 hex digits")]
"""The key of a run, as `Run.key` gives it."""
Code = Annotated[str, Field(pattern="^[0-9a-f]{12}$", description="12 hex digits")]
"""The digest of the code that trains a run."""
Count = Annotated[int, Field(ge=0, le=1_000_000, description="a number from 0 to 1,000,000")]
"""An epoch, a place in a list, an attempt."""


class Stamped(Spec):
    """What the journal adds to each fact. `by`: the number of the driver's session. Units: seconds since 1970."""

    time: float = Field(default=0.0, ge=0, le=1e11, kw_only=True)
    by: int = Field(default=0, ge=0, lt=2**53, kw_only=True)

    def bare(self) -> Self:
        return self.model_copy(update={"time": 0.0, "by": 0})


class Opened(Stamped):
    """A driver has opened the journal, and writes from here on; every session begins with this fact.

    `form`: the form of the journal. `version`: that of locus. `claims`: the digest of the study's claims at that
    time, so that a page can say whether they were written before the runs.
    """

    fact: Literal["opened"] = Field(default="opened", init=False)
    host: str
    pid: int
    version: str
    form: int = FORM
    claims: str = Field(default="", max_length=16)


class Planned(Stamped):
    """A trial was added. `tunes`: the arm that a point may tune."""

    fact: Literal["planned"] = Field(default="planned", init=False)
    role: Role
    number: Count
    name: str
    values: dict[str, Any]
    """The point or arm; of a parent, the `key` of its first run."""
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
    """The numbers of an epoch. The first fact of an epoch counts; a resumed run reports some epochs again."""

    fact: Literal["measured"] = Field(default="measured", init=False)
    run: RunKey
    code: Code
    epoch: Count
    values: dict[str, float]


class StoppedAt(Stamped):
    """The study stopped a run at a rung; at epoch 0, it left the run out, because its point was out of the race."""

    fact: Literal["stopped"] = Field(default="stopped", init=False)
    run: RunKey
    code: Code
    epoch: Count
    cutoff: float


class FailedWith(Stamped):
    """A run failed, not by its recipe. `counts`: not for a lost node; `final`: a second attempt cannot help."""

    fact: Literal["failed"] = Field(default="failed", init=False)
    run: RunKey
    code: Code
    reason: str
    counts: bool = True
    final: bool = False


class Ended(Stamped):
    """A run has its answer: trained here, or found among the outcomes (`reused`)."""

    fact: Literal["ended"] = Field(default="ended", init=False)
    run: RunKey
    code: Code
    outcome: Literal["completed", "diverged"]
    epoch: Count
    reused: bool = False


class Counts(Stamped):
    """How many trials and seeds are asked for. `looks`: how many there were before a repair cut the journal here."""

    fact: Literal["counts"] = Field(default="counts", init=False)
    seeds: int = Field(ge=1, le=MOST_SEEDS)
    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    looks: int = Field(default=0, ge=0)


class Confirms(Stamped):
    """The trials chosen for the confirmation, best first. `rivals`: those of the random points."""

    fact: Literal["confirms"] = Field(default="confirms", init=False)
    numbers: tuple[Count, ...] = Field(strict=False)
    rivals: tuple[Count, ...] = Field(default=(), strict=False)


class Exhausted(Stamped):
    """The space has no further point. `rival`: the search of random points, which may find fewer."""

    fact: Literal["exhausted"] = Field(default="exhausted", init=False)
    trials: Count
    rival: bool = False


class Tuned(Stamped):
    """The values of an arm are fixed: those of the trial of this number; None: its own, as every trial diverged."""

    fact: Literal["tuned"] = Field(default="tuned", init=False)
    arm: str
    number: Count | None


class ArmCost(Spec):
    """What an arm takes in each of its turns. Units: seconds an image, of training and of prediction."""

    train_s: tuple[float, ...] = Field(strict=False)
    predict_s: tuple[float, ...] = Field(strict=False)


class Costed(Stamped):
    """What arms cost, measured side by side. `load`: of the machine before, over a minute; `cores`: that it has."""

    fact: Literal["costed"] = Field(default="costed", init=False)
    arms: dict[str, ArmCost]
    load: float
    cores: Count

    @property
    def busy(self) -> str:
        """How busy the machine was, in words; nothing if half of its cores were free."""
        return f" (a load of {self.load:.1f} on {self.cores} cores)" if self.load > self.cores / 2 else ""


Fact = Annotated[
    Opened | Planned | Started | Measured | StoppedAt | FailedWith | Ended | Counts | Confirms | Exhausted | Tuned |
    Costed,
    Field(discriminator="fact"),
]  # fmt: skip
FACT: TypeAdapter[Fact] = TypeAdapter(Fact)
"""Reads a fact from the JSON of a line."""
SUM = re.compile(rb'(.*),"sum":"([0-9a-f]{8})"\}\s*', re.DOTALL)
"""How a line ends: with the CRC-32 of the bytes before, in hex digits."""


def line_of(plain: Mapping[str, Any]) -> bytes:
    """Returns the line of a fact's plain values."""
    content = json.dumps(plain, separators=(",", ":")).encode().removesuffix(b"}")
    return b'%s,"sum":"%08x"}\n' % (content, zlib.crc32(content))


def content_of(line: bytes) -> bytes | None:
    """Returns the JSON of a line without its checksum; None without one. Raises: ValueError for a wrong checksum."""
    match = SUM.fullmatch(line)
    if match is None:
        return None
    if zlib.crc32(match[1]) != int(match[2], 16):
        raise ValueError("the line differs from its checksum")
    return match[1] + b"}"


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
