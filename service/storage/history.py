"""What a study's facts add up to: its trials, its runs, and the answer of each trial.

The driver, `status`, the report and MLflow all read this one object. Only facts of today's code count, or of answers
that were adopted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, Literal

from search_spaces.study import Ablation, Edition, Search, Trial
from service.storage.home import Home
from service.storage.journal import (
    Adopted,
    Confirms,
    Counts,
    Ended,
    Exhausted,
    Fact,
    FailedWith,
    Measured,
    Planned,
    Started,
    StoppedAt,
    read,
)
from service.storage.outcomes import digest_of
from trainables.recipe import Recipe, Run
from trainables.recipe.code_digest import CodeDigests

RunStatus = Literal["missing", "running", "stopped", "failed", "completed", "diverged"]
TrialStatus = Literal["open", "completed", "stopped", "diverged", "incomplete"]
TRIES = 2
"""How often a failing run is tried before it is left to the next command."""


@dataclass
class RunState:
    """The state of one run in one study, by the code that counts."""

    status: RunStatus = "missing"
    curve: dict[int, Measured] = field(default_factory=dict)
    attempts: int = 0
    failures: int = 0
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
    def answered(self) -> bool:
        """True where nothing is left to do for this run."""
        return self.status in ("completed", "diverged", "stopped")

    def value(self, metric: str) -> float | None:
        """A metric at the last epoch measured."""
        return self.curve[self.epoch].values.get(metric) if self.curve else None


@dataclass(frozen=True)
class TrialAnswer:
    """The result of a trial over its seeds.

    `values`: the last score of each answered seed; a diverged seed is at chance.
    """

    status: TrialStatus
    values: dict[int, float]
    asked: int
    epoch: int = 0
    cutoff: float | None = None
    reason: str = ""

    @property
    def mean(self) -> float | None:
        """The mean over the answered seeds."""
        return fmean(self.values.values()) if self.values else None


class History:
    """The state that a study's facts add up to. `code_of` returns today's code digest of a recipe."""

    def __init__(self, edition: Edition, code_of: Callable[[Recipe], str], facts: Iterable[Fact] = ()) -> None:
        self.edition = edition
        self.trials: list[Trial] = []
        self.confirms: tuple[int, ...] = ()
        self.seeds = edition.study.seeds
        self.trials_asked = edition.study.plan.trials if isinstance(edition.study.plan, Search) else 0
        self.exhausted: int | None = None
        self.adopted: dict[str, str] = {}
        self._again: set[str] = set()
        self.states: dict[tuple[str, str], RunState] = {}
        self.last: float | None = None
        self._code_of = code_of
        self._codes: dict[str, str] = {}
        self._runs: dict[tuple[str, int], Run] = {}
        for fact in facts:
            self.add(fact)

    @classmethod
    def open(cls, home: Home, edition: Edition, codes: CodeDigests | None = None) -> History:
        """The history of an edition as its journal has it, by today's code; empty where it was never run."""
        codes = codes or CodeDigests()
        return cls(edition, lambda recipe: codes(recipe).digest, read(home.study(edition.id).journal)[0])

    def add(self, fact: Fact) -> None:
        """Adds one fact."""
        self.last = fact.time
        match fact:
            case Planned():
                self.trials.append(self._trial(fact))
            case Counts(seeds=seeds, trials=trials):
                self.seeds, self.trials_asked = seeds, trials or 0
                for state in self.states.values():
                    state.failures = 0
            case Confirms(numbers=numbers):
                self.confirms = numbers
            case Exhausted(trials=trials):
                self.exhausted = trials
            case Adopted():
                self._adopt(fact)
            case _:
                state = self.states.setdefault((fact.run, fact.code), RunState())
                state.last = fact.time
                _add(state, fact)

    def raise_counts(self, edition: Edition) -> None:
        """Raises the counts of seeds and trials to what an edition asks for. They never fall."""
        self.seeds = max(self.seeds, edition.study.seeds)
        if isinstance(edition.study.plan, Search):
            self.trials_asked = max(self.trials_asked, edition.study.plan.trials)

    @property
    def trial_count(self) -> int:
        """How many trials the search will have: as many as asked for, or as the space has points."""
        return self.trials_asked if self.exhausted is None else min(self.trials_asked, self.exhausted)

    def code(self, run: Run) -> str:
        """The name of the answer that counts for a run: the digest of today's code, or what was adopted."""
        if run.key not in self._codes:
            self._codes[run.key] = self._code_of(run.recipe)
        today = self._codes[run.key]
        if run.key in self._again and not self.adopted[run.key].startswith(f"{today}~"):
            self._adopt(Adopted(run=run.key, code=None))
        return self.adopted.get(run.key, today)

    def is_later_answer(self, run: Run) -> bool:
        """Whether a later answer of today's code counts for a run, whose name ends with `~2` and so on."""
        return "~" in self.code(run) and run.key in self._again

    def _adopt(self, fact: Adopted) -> None:
        self.adopted.pop(fact.run, None)
        self._again.discard(fact.run)
        if fact.code is not None:
            self.adopted[fact.run] = fact.code
            self._again |= {fact.run} if fact.again else set()

    def state(self, run: Run) -> RunState:
        """The state of a run."""
        return self.states.get((run.key, self.code(run))) or RunState()

    def runs(self, trial: Trial) -> dict[int, Run]:
        """The runs of a trial, by seed; a parent's are those that some child needs."""
        if trial.role == "parent":
            children = [run for other in self.trials if other.role != "parent" for run in self.runs(other).values()]
            needed = [parent for run in children for parent in ancestors(run)]
            return {run.seed: run for run in needed if run.recipe == trial.recipe}
        return {seed: self._run(trial, seed) for seed in trial.seeds(self.seeds)}

    def first_run(self, trial: Trial) -> Run:
        """The run of a trial's first seed, which two trials of equal recipes share."""
        return self._run(trial, trial.seeds(1)[0])

    def asked(self, trial: Trial) -> list[Run]:
        """The runs that exist or will run. After a stopped or diverged first seed, the other seeds are skipped."""
        runs = list(self.runs(trial).values())
        if trial.role == "confirmation" and trial.number not in self.confirms:
            return []
        if self.answer(trial).status in ("stopped", "diverged"):
            return [run for run in runs if self.state(run).status != "missing"]
        return runs

    def keeps(self, run: Run) -> bool:
        """Whether a run's weights are needed: the study keeps them, or another run needs them."""
        if "weights" in self.edition.study.keep:
            return True
        return any(run.key == parent.key for other in self._everyone() for parent in ancestors(other))

    def _run(self, trial: Trial, seed: int) -> Run:
        known = self._runs.get((trial.label, seed))
        if known is None:
            known = self._runs[(trial.label, seed)] = Run(recipe=trial.recipe, seed=seed)
        return known

    def of(self, role: str) -> list[Trial]:
        """The trials of a role, in the order in which they were added."""
        return [trial for trial in self.trials if trial.role == role]

    def answer(self, trial: Trial) -> TrialAnswer:
        """Folds a trial's seeds: stopped or diverged with the first one in a search, incomplete where one failed."""
        states = {seed: self.state(run) for seed, run in self.runs(trial).items()}
        values = {}
        for seed, state in states.items():
            value = state.value(trial.score.metric) if state.status in ("completed", "stopped") else None
            if state.status == "diverged":
                value = trial.recipe.data.chance
            if value is not None:
                values[seed] = value
        epoch = max((state.epoch for state in states.values()), default=0)
        reason = next((state.reason for state in states.values() if state.reason), "")
        first = next(iter(states.values()), RunState())
        judged = isinstance(self.edition.study.plan, Search) and trial.role == "trial"
        if judged and first.status in ("stopped", "diverged"):
            return TrialAnswer(first.status, values, len(states), epoch, first.cutoff, first.reason)
        if len(values) == len(states):
            return TrialAnswer("completed", values, len(states), epoch, reason=reason)
        runs = list(self.runs(trial).values())
        waiting = not self.given_up(runs[0]) if judged else True
        hopeless = not waiting or all(self.state(run).answered or self.given_up(run) for run in runs)
        return TrialAnswer("incomplete" if hopeless else "open", values, len(states), epoch, reason=reason)

    def given_up(self, run: Run) -> bool:
        """True where a run, or one that it needs, failed too often to be tried again by this command."""
        return any(self.state(needed).failures >= TRIES for needed in (run, *ancestors(run)))

    @property
    def failed(self) -> int:
        """How many of the runs asked for ended in a failure."""
        states = (self.state(run) for trial in self.trials for run in self.asked(trial))
        return sum(state.status == "failed" for state in states)

    @property
    def stale(self) -> int:
        """How many answers of the study do not count, because another code trained them."""
        counted = {run.key: digest_of(self.code(run)) for trial in self.trials for run in self.runs(trial).values()}
        answers = [known for known, state in self.states.items() if state.status in ("completed", "diverged")]
        return sum(digest_of(code) != counted.get(key) for key, code in answers)

    def highest(self, count: int = 1) -> list[Trial]:
        """The completed trials with the highest validation means, to be confirmed; earlier numbers win ties.

        `service.analysis.best` decides which trial is best.
        """
        answers = [(trial, self.answer(trial)) for trial in self.of("trial")]
        complete = [
            (answer.mean or 0.0, -trial.number, trial) for trial, answer in answers if answer.status == "completed"
        ]
        return [trial for _, _, trial in sorted(complete, key=lambda row: row[:2], reverse=True)[:count]]

    def _trial(self, fact: Planned) -> Trial:
        if fact.role == "parent":
            parent = next(
                parent for run in self._everyone() for parent in ancestors(run) if parent.key == fact.values["key"]
            )
            return Trial(role="parent", number=fact.number, name=fact.name, values=fact.values, recipe=parent.recipe)
        plan = self.edition.study.plan
        arms = plan.arms if isinstance(plan, Ablation) else {}  # the journal's copy holds own encodings as they were
        trial = self.edition.trial(fact.number, arms.get(fact.name, fact.values), fact.name)
        return Trial(**{**dict(trial), "role": fact.role})

    def _everyone(self) -> Iterable[Run]:
        for trial in self.trials:
            if trial.role != "parent":
                yield from self.runs(trial).values()


def ancestors(run: Run) -> Iterable[Run]:
    """The runs that a run needs before it, each before those that it needs; one that two need comes twice."""
    for parent in run.needs():
        yield parent
        yield from ancestors(parent)


def _add(state: RunState, fact: Started | Measured | StoppedAt | FailedWith | Ended) -> None:
    match fact:
        case Started(attempt=attempt, placement=placement):
            state.status, state.attempts, state.placement = "running", attempt, placement
            state.begun = fact.time
        case Measured():
            state.curve.setdefault(fact.epoch, fact)
        case StoppedAt(cutoff=cutoff):
            state.status, state.cutoff = "stopped", cutoff
        case FailedWith(reason=reason):
            state.status, state.reason = "failed", reason
            state.failures += TRIES if fact.final else 1 if fact.counts else 0
        case Ended(outcome=outcome, reused=reused):
            state.status, state.reused = outcome, reused
