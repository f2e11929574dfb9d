"""Conducts one study: gives runs, hears measurements, decides, and writes down what was decided and found.

The driver knows no engine: whoever trains calls `next`, `heard` and `failed` (service/cluster.py lets Ray Tune do so).
Facts go to the journal first, then into the history, then to the listeners (screen, MLflow), which may lag.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from search_spaces.study import Edition, Search, Trial
from service.execution.rerun import compare
from service.planning.placement import Placement
from service.planning.schedule import (
    Assign,
    Confirm,
    Done,
    MarkDiverged,
    PlanArms,
    Propose,
    RegisterParent,
    Wait,
    next_action,
)
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import (
    Adopted,
    Confirms,
    Counts,
    Ended,
    Fact,
    FailedWith,
    Journal,
    Measured,
    Planned,
    Started,
    StoppedAt,
)
from service.storage.outcomes import Answered, Outcomes
from trainables.launch.job import Job
from trainables.recipe import Run, Use
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.outcome import Completed, Diverged, Measurement

CHECKPOINT = "checkpoint.pt"
WEIGHTS = "weights.pt"


class Finished(Enum):
    """Nothing is left to give."""

    FINISHED = "finished"


FINISHED = Finished.FINISHED
Listener = Callable[[Fact], None]


@dataclass
class Stop:
    """One flag for Ctrl-C, `stop` and `--hours`: nothing new is given, each run ends at its next report."""

    deadline: float | None = None
    asked: bool = False

    def __bool__(self) -> bool:
        return self.asked or (self.deadline is not None and time.time() >= self.deadline)


@dataclass
class Driver:
    """One study's conduct, from an open journal. `adopt`: answers of older code count."""

    edition: Edition
    home: Home
    journal: Journal
    placement: Placement
    adopt: bool = False
    stop: Stop = field(default_factory=Stop)
    listeners: list[Listener] = field(default_factory=list)
    in_flight: dict[str, Job] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.codes = CodeDigests()
        self.outcomes = Outcomes(self.home)
        self.history = History(self.edition, lambda recipe: self.codes(recipe).digest, self.journal.facts)
        plan = self.edition.study.plan
        self._judged: dict[str, tuple[int, Run]] = {}
        self._stopper = None
        if isinstance(plan, Search) and plan.stop is not None:
            from service.planning.sampling import EarlyStopper

            self._stopper = EarlyStopper(self.edition)

    @property
    def folder(self) -> StudyFolder:
        """The files of this study."""
        return self.home.study(self.edition.id)

    def begin(self) -> None:
        """Takes up what is asked for now, and the decisions that a killed driver had no time to write."""
        before = [fact for fact in self.journal.facts if isinstance(fact, Counts)]
        self.history.raise_counts(self.edition)
        asked = Counts(seeds=self.history.seeds, trials=self.history.trial_count or None)
        for fact in self.journal.facts:
            for listener in self.listeners:
                listener(fact)
        failed = any(state.failures for state in self.history.states.values())
        if failed or not before or before[-1].model_copy(update={"time": 0.0}) != asked:
            self._write(asked)
        for (run, code), state in self.history.states.items():
            if state.answered:  # a driver that was killed had no time to
                self._clear(run, code)
        self._replay()

    def _replay(self) -> None:
        for fact in [fact for fact in self.journal.facts if isinstance(fact, Measured)]:
            self._weigh(fact.run, fact.code, fact.epoch, fact.values)

    def next(self) -> Job | Finished | None:
        """The next job to train; None: ask again when a run has ended."""
        while not self.stop:
            match next_action(self.history, set(self.in_flight)):
                case Assign(run=run, trial=trial):
                    if not self._reuse(run):
                        return self._start(run, trial)
                case MarkDiverged(run=run):
                    self._answer(run, Diverged(epoch=0, reason="its parent diverged"), {}, None)
                case RegisterParent(parent=parent, use=use):
                    number, name = len(self.history.of("parent")) + 1, _parent_name(parent, use)
                    self._write(Planned(role="parent", number=number, name=name, values={"key": parent.key}))
                case PlanArms():
                    for arm in self.edition.arms():
                        self._plan(arm, "trial")
                case Propose(number=number):
                    from service.planning.sampling import propose

                    self._plan(self.edition.trial(number, propose(self.history, number)), "trial")
                case Confirm(numbers=numbers):
                    self._confirm(numbers)
                case Wait():
                    return None
                case Done():
                    return FINISHED
        return FINISHED

    def on_result(self, job: Job, message: dict[str, Any]) -> bool:
        """Takes what a worker says of an epoch; False where its run is to end now."""
        run, environment = job.run, json.loads(message["environment"])
        if message["kind"] == "diverged":
            self._end(job, Diverged.read(json.loads(message["said"])), environment)
            return True
        said = Measurement.read(json.loads(message["said"]))
        if said.epoch not in self.history.state(run).curve:
            self._write(Measured(run=run.key, code=job.code, epoch=said.epoch, values=said.values))
            if self._weigh(run.key, job.code, said.epoch, said.values):
                self._tidy(job)
                return False
        if said.epoch == run.recipe.optimizer.epochs:
            self._end(job, Completed(curve=self._curve(run)), environment)
            return True
        if self.stop:
            self.release(job)
            return False
        return True

    def on_failure(self, job: Job, reason: str, *, lost: bool = False) -> None:
        """Takes a run's failure; a lost node is no attempt."""
        if self.in_flight.pop(job.run.key, None) is not None:
            self._write(FailedWith(run=job.run.key, code=job.code, reason=reason, counts=not lost))

    def release(self, job: Job) -> None:
        """Takes a run that ended without an answer because it was asked to; its checkpoint stays."""
        self.in_flight.pop(job.run.key, None)

    def _write(self, fact: Fact) -> None:
        written = self.journal.write(fact)
        self.history.add(written)
        for listener in self.listeners:
            listener(written)

    def _plan(self, trial: Trial, role: str) -> None:
        self._write(Planned(role=role, number=trial.number, name=trial.name, values=trial.values))  # type: ignore[arg-type]

    def _confirm(self, numbers: tuple[int, ...]) -> None:
        known = {trial.number for trial in self.history.of("confirmation")}
        for trial in [trial for trial in self.history.of("trial") if trial.number in numbers]:
            if trial.number not in known:
                self._plan(trial, "confirmation")
        self._write(Confirms(numbers=numbers))

    def _weigh(self, key: str, code: str, epoch: int, values: dict[str, float]) -> bool:
        """Lets the judge hear a first seed's measurement; True where the run is stopped, never at its last epoch."""
        number, run = self._first(key)
        metric = self.edition.study.score.metric
        if self._stopper is None or run is None or code != self.history.code(run) or metric not in values:
            return False
        cutoff = self._stopper.report(number, epoch, values[metric])
        if cutoff is None or epoch >= run.recipe.optimizer.epochs or self.history.state(run).answered:
            return False
        self._write(StoppedAt(run=key, code=code, epoch=epoch, cutoff=cutoff))
        return True

    def _first(self, key: str) -> tuple[int, Run | None]:
        """The trial's number and the run, where a key is that of a search trial's first seed."""
        for trial in self.history.of("trial")[len(self._judged) :]:
            first = next(iter(self.history.runs(trial).values()))
            self._judged.setdefault(first.key, (trial.number, first))
        return self._judged.get(key, (0, None))

    def _start(self, run: Run, trial: Trial) -> Job:
        code = self.history.code(run)
        attempt = self.history.state(run).attempts + 1
        folder = self.folder.work(run.key, code, attempt)
        folder.mkdir(parents=True, exist_ok=True)
        before = self.folder.work(run.key, code, attempt - 1) / CHECKPOINT
        if before.exists():
            shutil.copyfile(before, folder / CHECKPOINT)
        job = Job(
            run=run,
            code=code,
            label=trial.label,
            attempt=attempt,
            folder=str(folder),
            parents={
                use: str(self.outcomes.weights(parent.key, self.history.code(parent)))
                for use, parent in run.parents.items()
            },
            device=self.placement.device,
            threads=self.placement.threads,
            workers=self.placement.workers,
        )
        self.in_flight[run.key] = job
        self._write(
            Started(
                run=run.key,
                code=code,
                attempt=attempt,
                seed=run.seed,
                label=trial.label,
                placement=self.placement.plain(),
            )
        )
        return job

    def _reuse(self, run: Run) -> bool:
        """Takes an answer from the outcomes, where it is of today's code, or adopted, and whole.

        It is judged as it would have been when trained here.
        """
        found = self._found(run)
        if found is None:
            return False
        code = found.code.digest
        for measured in found.outcome.curve:
            self._write(Measured(run=run.key, code=code, epoch=measured.epoch, values=measured.values))
            if self._weigh(run.key, code, measured.epoch, measured.values):
                return True
        self._write(Ended(run=run.key, code=code, outcome=found.outcome.kind, epoch=_epoch(found), reused=True))
        self._clear(run.key, code)
        return True

    def _found(self, run: Run) -> Answered | None:
        whole = self.history.keeps(run)
        found = self.outcomes.get(run.key, self.history.code(run), whole=whole)
        if found is None and self.adopt:
            codes = [older.code.digest for older in self.outcomes.of(run.key)]
            usable = [older for code in codes if (older := self.outcomes.get(run.key, code, whole=whole))]
            found = usable[-1] if usable else None
            if found is not None:
                self._write(Adopted(run=run.key, code=found.code.digest))
        return found

    def _curve(self, run: Run) -> tuple[Measurement, ...]:
        curve = self.history.state(run).curve
        return tuple(Measurement(epoch=epoch, values=curve[epoch].values) for epoch in sorted(curve))

    def _end(self, job: Job, outcome: Completed | Diverged, environment: dict[str, Any]) -> None:
        weights = Path(job.folder) / WEIGHTS
        keep = weights.exists() and isinstance(outcome, Completed) and self.history.keeps(job.run)
        if isinstance(outcome, Diverged):
            outcome = Diverged(epoch=outcome.epoch, curve=self._curve(job.run), reason=outcome.reason)
        before = self.outcomes.get(job.run.key, job.code)
        if before is not None and compare(before.outcome.curve, outcome.curve):
            self.on_failure(job, f"trained again for its weights, it gave other numbers: locus rerun {job.run.key}")
            return
        self._answer(job.run, outcome, environment, weights if keep else None)
        self._tidy(job)

    def _answer(
        self, run: Run, outcome: Completed | Diverged, environment: dict[str, Any], weights: Path | None
    ) -> None:
        code = self.codes(run.recipe)
        answered = Answered(run=run, code=code, outcome=outcome, environment=environment, ended=time.time())
        self.outcomes.put(answered, weights)
        self._write(Ended(run=run.key, code=code.digest, outcome=outcome.kind, epoch=_epoch(answered)))

    def _tidy(self, job: Job) -> None:
        self.in_flight.pop(job.run.key, None)
        self._clear(job.run.key, job.code)

    def _clear(self, key: str, code: str) -> None:
        """Frees a run's work folders."""
        shutil.rmtree(self.folder.work(key, code, 0).parent, ignore_errors=True)


def _parent_name(parent: Run, use: Use) -> str:
    """How a parent is listed: what it learns from what, and that it teaches."""
    data = parent.recipe.data
    name = f"{parent.recipe.encoding.label} on {getattr(data, 'task', data.kind)}"
    return f"teacher: {name}" if use == "teacher" else name


def _epoch(answered: Answered) -> int:
    outcome = answered.outcome
    return outcome.epoch if isinstance(outcome, Diverged) else outcome.curve[-1].epoch
