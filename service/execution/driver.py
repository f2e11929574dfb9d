"""Drives one study: assigns runs, records measurements, decides, and stores the answers.

The driver knows no engine. Whoever trains calls `next`, `on_result` and `on_failure`; `execution/tune.py` lets Ray Tune
do so. Facts go to the journal first, then to the history, then to the listeners (screen, MLflow), which may lag.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from search_spaces.study import Edition, Search, Trial
from service.execution import work_folders
from service.execution.signals import Stop
from service.planning.early_stopping import EarlyStopper
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
from service.planning.work_rows import parent_name
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import (
    Adopted,
    Confirms,
    Counts,
    Ended,
    Exhausted,
    Fact,
    FailedWith,
    Journal,
    Measured,
    Planned,
    Started,
    StoppedAt,
)
from service.storage.outcomes import Answered, Outcomes
from trainables.launch.errors import CHANGED
from trainables.launch.job import Job
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.outcome import Completed, Diverged, Measurement

OTHER_NUMBERS = (
    "trained again for its weights, it gave other numbers in an equal environment (locus rerun {key} shows which); "
    "--adopt keeps the new answer beside the old one"
)


class Finished(Enum):
    """Nothing is left to train."""

    FINISHED = "finished"


FINISHED = Finished.FINISHED
Listener = Callable[[Fact], None]


@dataclass
class Driver:
    """Drives one study from its open journal.

    `adopt`: answers of older code count. `in_flight`: jobs by run key. `codes`: today's code, as the plan has it.
    `lock` is held while the history changes, for those that read it in other threads.
    """

    edition: Edition
    home: Home
    journal: Journal
    placement: Placement
    adopt: bool = False
    stop: Stop = field(default_factory=Stop)
    listeners: list[Listener] = field(default_factory=list)
    in_flight: dict[str, Job] = field(default_factory=dict)
    codes: CodeDigests = field(default_factory=CodeDigests)

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.outcomes = Outcomes(self.home)
        self.history = History(self.edition, lambda recipe: self.codes(recipe).digest, self.journal.facts)
        plan = self.edition.study.plan
        self._judged: dict[str, tuple[int, Run]] = {}
        stops = isinstance(plan, Search) and plan.stop is not None
        self._stopper = EarlyStopper(self.edition) if stops else None

    @property
    def folder(self) -> StudyFolder:
        """The files of this study."""
        return self.home.study(self.edition.id)

    def begin(self) -> None:
        """Records the counts that are asked for now, and the decisions that a killed driver did not write."""
        before = [fact for fact in self.journal.facts if isinstance(fact, Counts)]
        self.history.raise_counts(self.edition)
        asked = Counts(seeds=self.history.seeds, trials=self.history.trials_asked or None)
        for fact in self.journal.facts:
            for listener in self.listeners:
                listener(fact)
        failed = any(state.failures for state in self.history.states.values())
        if failed or not before or before[-1].model_copy(update={"time": 0.0}) != asked:
            self._write(asked)
        for (run, code), state in self.history.states.items():
            if state.answered:  # a killed driver may have left its folders
                work_folders.clear(self.folder, run, code)
        self._replay()

    def _replay(self) -> None:
        for fact in [fact for fact in self.journal.facts if isinstance(fact, Measured)]:
            self._stop_early(fact.run, fact.code, Measurement(epoch=fact.epoch, values=fact.values))

    def next(self) -> Job | Finished | None:
        """The next job to train; None: ask again when a run has ended."""
        while not self.stop:
            match next_action(self.history, set(self.in_flight)):
                case Assign(run=run, trial=trial):
                    found = self._found(run)
                    if self._adopt_answer(run, found):
                        continue
                    if found is None:
                        return self._start(run, trial)
                    self._reuse(found)
                case MarkDiverged(run=run):
                    if self._adopt_answer(run, None):
                        continue
                    outcome = Diverged(epoch=0, reason="its parent diverged")
                    self._keep(Answered(run=run, code=self.codes(run.recipe), outcome=outcome, ended=time.time()), None)
                case RegisterParent(parent=parent, use=use):
                    number, name = len(self.history.of("parent")) + 1, parent_name(parent, use)
                    self._write(Planned(role="parent", number=number, name=name, values={"key": parent.key}))
                case PlanArms(names=names):
                    for arm in [arm for arm in self.edition.arms() if arm.name in names]:
                        self._plan(arm, "trial")
                case Propose(number=number):
                    from service.planning.sampling import propose

                    values = propose(self.history, number)
                    if values is None:
                        self._write(Exhausted(trials=number))
                    else:
                        self._plan(self.edition.trial(number, values), "trial")
                case Confirm(numbers=numbers):
                    self._confirm(numbers)
                case Wait():
                    return None
                case Done():
                    return FINISHED
        return FINISHED

    def on_result(self, job: Job, message: dict[str, Any]) -> bool:
        """Records what a worker reports of an epoch; False where its run must end now."""
        run, code = job.run, job.code.digest
        if message["kind"] == "diverged":
            self._end(job, Diverged.read(json.loads(message["result"])), message)
            return True
        measured = Measurement.read(json.loads(message["result"]))
        if measured.epoch not in self.history.state(run).curve:
            self._write(Measured(run=run.key, code=code, epoch=measured.epoch, values=measured.values))
            if self._stop_early(run.key, code, measured):
                self._tidy(job)
                return False
        if measured.epoch == run.recipe.optimizer.epochs:
            self._end(job, Completed(curve=self._curve(run)), message)
            return True
        if self.stop:
            self.release(job)
            return False
        return True

    def on_failure(self, job: Job, reason: str, *, lost: bool = False, final: bool = False) -> None:
        """Records a failure. `lost`: with its node, which is no attempt; `final`: a second attempt cannot help."""
        if self.in_flight.pop(job.run.key, None) is not None:
            failed = FailedWith(run=job.run.key, code=job.code.digest, reason=reason, counts=not lost, final=final)
            self._write(failed)

    def release(self, job: Job) -> None:
        """Forgets a run that was stopped, or never started, without an answer; its checkpoint stays."""
        self.in_flight.pop(job.run.key, None)

    def _write(self, fact: Fact) -> None:
        written = self.journal.write(fact)
        with self.lock:
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

    def _stop_early(self, key: str, code: str, measured: Measurement) -> bool:
        """Reports a first seed's measurement to the early stopper; True where the run stops before its last epoch."""
        number, run = self._first(key)
        value = measured.values.get(self.edition.study.score.metric)
        if self._stopper is None or run is None or code != self.history.code(run) or value is None:
            return False
        cutoff = self._stopper.report(number, measured.epoch, value)
        if cutoff is None or measured.epoch >= run.recipe.optimizer.epochs or self.history.state(run).answered:
            return False
        self._write(StoppedAt(run=key, code=code, epoch=measured.epoch, cutoff=cutoff))
        return True

    def _first(self, key: str) -> tuple[int, Run | None]:
        """The trial's number and the run, where a key is that of a search trial's first seed."""
        for trial in self.history.of("trial")[len(self._judged) :]:
            first = self.history.first_run(trial)
            self._judged.setdefault(first.key, (trial.number, first))
        return self._judged.get(key, (0, None))

    def _start(self, run: Run, trial: Trial) -> Job:
        planned = self.codes(run.recipe)
        code, attempt = planned.digest, self.history.state(run).attempts + 1
        job = Job(
            run=run,
            code=planned,
            label=trial.label,
            attempt=attempt,
            folder=str(work_folders.begin(self.folder, run.key, code, attempt)),
            parents={
                use: str(self.outcomes.weights(parent.key, self.history.code(parent)))
                for use, parent in run.parents.items()
            },
            data=str(self.home.data),
            device=self.placement.device,
            threads=self.placement.threads,
            workers=self.placement.workers,
            loader_workers=self.placement.loader_workers,
            compile=self.placement.compile,
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

    def _found(self, run: Run) -> Answered | None:
        """The answer to use instead of training: by the code that counts; with `adopt`, else the newest of any code."""
        whole, code = self.history.keeps(run), self.history.code(run)
        usable = [one for one in self.outcomes.of(run.key) if not whole or self.outcomes.is_whole(one)]
        found = [one for one in usable if one.name == code] or [one for one in usable if one.code.digest == code]
        return next(iter(found or (usable[-1:] if self.adopt else [])), None)

    def _adopt_answer(self, run: Run, found: Answered | None) -> bool:
        """Makes the answer that was found the one that counts, or today's code where none was; True where that is new.

        So a run whose adopted answer is gone is trained, and counted, by today's code.
        """
        today = self.codes(run.recipe).digest
        name = today if found is None else found.name
        if name == self.history.code(run):
            return False
        again = found is not None and found.code.digest == today
        self._write(Adopted(run=run.key, code=None if name == today else name, again=again and name != today))
        return True

    def _reuse(self, found: Answered) -> None:
        """Records an answer that is there already. It is judged as it would have been when trained here."""
        key, code = found.run.key, found.name
        for measured in found.outcome.curve:
            self._write(Measured(run=key, code=code, epoch=measured.epoch, values=measured.values))
            if self._stop_early(key, code, measured):
                return
        self._write(Ended(run=key, code=code, outcome=found.outcome.kind, epoch=_epoch(found), reused=True))
        work_folders.clear(self.folder, key, found.code.digest)

    def _curve(self, run: Run) -> tuple[Measurement, ...]:
        curve = self.history.state(run).curve
        return tuple(Measurement(epoch=epoch, values=curve[epoch].values) for epoch in sorted(curve))

    def _end(self, job: Job, outcome: Completed | Diverged, message: dict[str, Any]) -> None:
        """Keeps a run's answer where it is by the planned code, has its weights, and agrees with an earlier one."""
        if isinstance(outcome, Diverged):
            outcome = Diverged(epoch=outcome.epoch, curve=self._curve(job.run), reason=outcome.reason)
        environment = json.loads(message["environment"])
        answered = Answered(run=job.run, code=job.code, outcome=outcome, environment=environment, ended=time.time())
        needed = isinstance(outcome, Completed) and self.history.keeps(job.run)
        weights = Path(job.folder) / work_folders.WEIGHTS if needed else None
        before = self.outcomes.get(job.run.key, job.code.digest)
        if message["code"] != job.code.digest:
            self.on_failure(job, f"its code {CHANGED}", final=True)
        elif weights is not None and not weights.exists():
            self.on_failure(job, f"its weights are not in {job.folder}: all nodes must share the folder of --home")
        elif before is None or answered.repeats(before):
            self._keep(answered, weights)
            self._tidy(job)
        elif answered.same_environment(before) and not self.adopt:
            self.on_failure(job, OTHER_NUMBERS.format(key=job.run.key), final=True)
        else:
            self._keep_beside(answered, weights)
            self._tidy(job)

    def _keep(self, answered: Answered, weights: Path | None) -> None:
        self.outcomes.put(answered, weights)
        key, code = answered.run.key, answered.name
        self._write(Ended(run=key, code=code, outcome=answered.outcome.kind, epoch=_epoch(answered)))

    def _keep_beside(self, answered: Answered, weights: Path | None) -> None:
        """Keeps an answer with other numbers than an earlier one's; `next` finds it, and this study counts it."""
        later = self.outcomes.beside(answered)
        self.outcomes.put(later, weights)
        self._write(Adopted(run=later.run.key, code=later.name, again=True))

    def _tidy(self, job: Job) -> None:
        self.in_flight.pop(job.run.key, None)
        work_folders.clear(self.folder, job.run.key, job.code.digest)


def _epoch(answered: Answered) -> int:
    outcome = answered.outcome
    return outcome.epoch if isinstance(outcome, Diverged) else outcome.curve[-1].epoch
