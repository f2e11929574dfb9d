"""Drives one study: assigns runs, records measurements, decides, and stores the answers.

The driver knows no engine. Whoever trains calls `next`, `on_result` and `on_failure`; `execution/tune.py` lets Ray Tune
do so. Facts go to the journal first, then to the history, then to the listeners (screen, MLflow), which may lag.
"""

from __future__ import annotations

import json
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from search_spaces.roles import POINTS
from search_spaces.study import Edition, Search, Trial
from search_spaces.words import plural
from service.execution.failures import RepeatedFailure
from service.execution.folders import WorkFolders, written
from service.execution.other_drivers import InFlight, Neighbours
from service.execution.signals import Control, Stop, take_request
from service.planning.forecast import lost_answers
from service.planning.placement import Placement
from service.planning.schedule import (
    Assign,
    Decisions,
    Done,
    MarkDiverged,
    Propose,
    Tune,
    Wait,
    next_action,
    reused_facts,
)
from service.planning.stopping import EarlyStopper
from service.storage.facts import Costed, Counts, Ended, Fact, FailedWith, Measured, Started, StoppedAt
from service.storage.history import History
from service.storage.home import Home, StudyFolder
from service.storage.journal import Journal
from service.storage.outcomes import Answered, Outcomes
from service.storage.remote import Copies, SentOutcomes
from trainables.launch.errors import CHANGED
from trainables.launch.job import Job
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.outcome import Completed, Diverged, Measurement
from trainables.recipe.planned import as_planned


class Finished(Enum):
    """Nothing is left to train."""

    FINISHED = "finished"


FINISHED = Finished.FINISHED
Listener = Callable[[Fact], None]


@dataclass
class Driver:
    """Drives one study from its open journal.

    `neighbours`: the drivers that share this machine. `codes`: today's code, as the plan has it. `copies`: those at the
    study's storage.
    `lock` is held while the history changes, for those that read it in other threads. `listener_failed`: the first
    error of a listener. `repeated`: whether all runs fail alike. `replaced`: the keys of runs whose answers gave way to
    new ones with other numbers, or to those of the storage.
    """

    edition: Edition
    home: Home
    journal: Journal
    placement: Placement
    stop: Stop = field(default_factory=Stop)
    listeners: list[Listener] = field(default_factory=list)
    neighbours: Neighbours | None = None
    codes: CodeDigests = field(default_factory=CodeDigests)
    copies: Copies | None = None
    listener_failed: str | None = None

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
        self.replaced: list[str] = []
        self.outcomes = SentOutcomes(self.copies, self.replaced) if self.copies else Outcomes(self.home)
        self.in_flight = InFlight(self.home, self.neighbours)
        self.history = History(self.edition, lambda recipe: self.codes(recipe).digest, self.journal.facts)
        self._early, self._decisions = EarlyStops(self.edition, self.history), Decisions(self.history)
        self.repeated = RepeatedFailure()
        self.work = WorkFolders(self.folder, self.copies)

    @property
    def folder(self) -> StudyFolder:
        """The files of this study."""
        return self.home.study(self.edition.id)

    def begin(self, costed: Costed | None = None) -> None:
        """Records the counts that are asked for now, what arms cost, and what a killed driver left undecided."""
        before = [fact for fact in self.journal.facts if isinstance(fact, Counts)]
        self.history.raise_counts(self.edition)
        asked = Counts(seeds=self.history.seeds, trials=self.history.trials_asked or None)
        for fact in self.journal.facts:
            self._tell(fact)
        failed = any(state.failures for state in self.history.states.values())
        if failed or not before or before[-1].bare() != asked:
            self._write(asked)
        if costed is not None:
            self._write(costed)
        answered = [run for run, state in self.history.states.items() if state.answered]
        self.work.clear_all(answered)  # a killed driver may have left their folders
        for fact in [fact for fact in self.journal.facts if isinstance(fact, Measured)]:
            self._stop_early(fact.run, fact.code, Measurement(epoch=fact.epoch, values=fact.values))
        for lost in lost_answers(self.history, self.outcomes):
            if self.in_flight.claim(lost.run, lost.code):
                self.outcomes.set_aside(lost.run, lost.code)
                self.in_flight.end(lost.run)
            self._write(lost)

    def heed(self) -> Control | None:
        """Does what other commands have asked for since the last call, and returns it, or None if nothing was asked.

        If all runs are to stop now, the caller must stop them.
        """
        asked = take_request(self.folder)
        if asked is None:
            return None
        if asked.max_concurrent:
            self.placement = self.placement.model_copy(update={"max_concurrent": asked.max_concurrent})
        if asked.seeds or asked.trials:
            seeds = max(asked.seeds or 0, self.history.seeds)
            self._write(Counts(seeds=seeds, trials=max(asked.trials or 0, self.history.trials_asked) or None))
        self.stop.asked |= asked.stop is not None
        return asked

    def next(self) -> Job | Finished | None:
        """Returns the next job to train; None: ask again when a run has ended, or another driver of the home lets go.

        What `next_action` decides, and what follows:

        =============================================  ==========================================================
        a run is to be trained (Assign)                its answer is there: record it; another driver trains it,
                                                       or the machine is full: None; else claim it and return it
        its parent diverged (MarkDiverged)             record that this run diverged, untrained
        a trial is to be listed or chosen (Propose,    write the facts that `Decisions` makes of it, and look
        PlanArms, RegisterParent, Tune, Choose,        again; Propose and Tune wait where another driver trains
        Confirm, LeaveOut)                             points that come before
        runs in flight must end first (Wait)           None
        nothing is left (Done), or a stop was asked    FINISHED
        =============================================  ==========================================================
        """
        self.in_flight.look()
        while not self.stop and self.repeated.reason is None:
            if len(self.in_flight) >= self.placement.max_concurrent:
                return None
            match next_action(self.history, self.in_flight.keys):
                case Assign(run=run, trial=trial):
                    answer = self._found(run)
                    if answer is not None:
                        self._reuse(answer)
                    elif not self.in_flight.admit(self.placement.max_concurrent):
                        return None
                    elif self.in_flight.claim(run.key, self.history.code(run)):
                        if self._found(run) is None:
                            return self._start(run, trial)
                        self.in_flight.end(run.key)  # another driver ended it a moment ago
                case MarkDiverged(run=run):
                    outcome = Diverged(epoch=0, reason="its parent diverged")
                    code = self.codes(run.recipe)
                    self._keep(Answered(**as_planned(run), code=code, outcome=outcome, ended=time.time()), None)
                case Propose() | Tune() if len(self.in_flight.keys) >= self.placement.max_concurrent:
                    return None  # another driver trains one of the points that come before
                case Wait():
                    return None
                case Done():
                    return FINISHED
                case decision:
                    for fact in self._decisions.facts(decision):
                        self._write(fact)
        return FINISHED

    def on_result(self, job: Job, message: dict[str, Any]) -> bool:
        """Records what a worker reports of an epoch; False if its run must end now.

        Raises: TakenOverError, as all methods that record something, where another driver has taken the study over.
        """
        self.journal.look()
        run, code = job.run, job.code.digest
        if message["kind"] == "diverged":
            self._end(job, Diverged.read(json.loads(message["result"])), message)
            return True
        measured = Measurement.read(json.loads(message["result"]))
        if measured.epoch not in self.history.state(run).curve:
            self._write(Measured(run=run.key, code=code, epoch=measured.epoch, values=measured.values))
            self.repeated.measured()
            if self._stop_early(run.key, code, measured):
                self._tidy(job)
                return False
        if measured.epoch == run.recipe.optimizer.trained_epochs:
            self._end(job, Completed(curve=self._curve(run)), message)
            return True
        if self.stop:
            self.release(job)
            return False
        return True

    def on_failure(self, *jobs: Job, reason: str, lost: bool = False, final: bool = False) -> None:
        """Records the failure of a job, or of a pack. `lost`: with its node, which is no attempt.

        `final`: a second attempt cannot help.
        """
        ended = [job for job in jobs if self.in_flight.end(job.run.key)]
        for job in ended:
            failed = FailedWith(run=job.run.key, code=job.code.digest, reason=reason, counts=not lost, final=final)
            self._write(failed)
        if ended:
            self.repeated.failed(reason, lost=lost)

    def is_fresh(self, job: Job) -> bool:
        """Returns whether a run begins at its start, and has never failed: so it may be of a pack."""
        return not self.history.state(job.run).failures and (job.attempt == 1 or written(job.folder) is None)

    def release(self, job: Job) -> None:
        """Forgets a run that was stopped, or never started, without an answer; its checkpoint stays."""
        self.in_flight.end(job.run.key)

    def _write(self, fact: Fact) -> None:
        written = self.journal.write(fact)
        with self.lock:
            self.history.add(written)
        self._tell(written)

    def _tell(self, fact: Fact) -> None:
        """Passes a fact on. A screen that breaks must not end a training: its first error goes to the study's log."""
        for listener in self.listeners:
            try:
                listener(fact)
            except Exception as error:
                if self.listener_failed is None:
                    self.listener_failed = f"{type(error).__name__}: {error}"
                    self.folder.add_to_log(traceback.format_exc())

    def _stop_early(self, key: str, code: str, measured: Measurement) -> bool:
        """Returns whether a run stops at this measurement, before its last epoch; that is a fact."""
        cutoff = self._early.cutoff(key, code, measured)
        if cutoff is not None:
            self._write(StoppedAt(run=key, code=code, epoch=measured.epoch, cutoff=cutoff))
        return cutoff is not None

    def _start(self, run: Run, trial: Trial) -> Job:
        planned = self.codes(run.recipe)
        code, attempt = planned.digest, self.history.state(run).attempts + 1
        self.journal.look()  # the folder would be that of the driver that has taken the study over
        job = Job(
            **as_planned(run),
            code=planned,
            label=trial.label,
            attempt=attempt,
            folder=self.work.begin(run.key, code, attempt),
            parents={
                use: self.outcomes.source(parent.key, self.history.code(parent)) for use, parent in run.parents.items()
            },
            data=str(self.home.data),
            cwd=Job.working_folder(),
            **self.placement.of_a_job(),
        )
        self.in_flight.jobs[run.key] = job
        most = self.in_flight.share(self.placement.max_concurrent)  # beside other studies
        placed = self.placement.plain() | {"max_concurrent": most}
        begun = Started(run=run.key, code=code, attempt=attempt, seed=run.seed, label=trial.label, placement=placed)
        self._write(begun)
        return job

    def _found(self, run: Run) -> Answered | None:
        """Returns the answer to use instead of training."""
        return self.outcomes.usable(run.key, self.history.code(run), whole=self.history.keeps(run))

    def _reuse(self, answer: Answered) -> None:
        """Records an answer that is there already."""
        for fact in reused_facts(answer, self._early.cutoff):
            self._write(fact)
        self.work.clear(answer.run.key, answer.name)

    def _curve(self, run: Run) -> tuple[Measurement, ...]:
        values = self.history.state(run).values
        return tuple(Measurement(epoch=epoch, values=values[epoch]) for epoch in values)

    def _end(self, job: Job, outcome: Completed | Diverged, message: dict[str, Any]) -> None:
        """Keeps a run's answer where it is by the planned code and has its weights.

        An earlier answer lacks its weights. It stays where its numbers came out again, and is set aside where not.
        """
        if isinstance(outcome, Diverged):
            outcome = Diverged(epoch=outcome.epoch, curve=self._curve(job.run), reason=outcome.reason)
        environment = json.loads(message["environment"])
        where = {"environment": environment, "ended": time.time()}
        answered = Answered(**as_planned(job.run), code=job.code, outcome=outcome, **where)
        needed = isinstance(outcome, Completed) and self.history.keeps(job.run)
        weights = self.work.weights(job.folder, job.run.key, job.code.digest, job.attempt) if needed else None
        before = self.outcomes.get(job.run.key, job.code.digest)
        if message["code"] != job.code.digest:
            self.on_failure(job, reason=f"its code {CHANGED}", final=True)
        elif needed and weights is None:
            shared = "" if self.copies else ": all nodes must share the folder of --home, or --storage must be given"
            self.on_failure(job, reason=f"its weights are not in {job.folder}{shared}")
        else:
            if before is not None and not answered.repeats(before):
                self.outcomes.set_aside(job.run.key, answered.name, answer=True)
                self.replaced.append(job.run.key)
            self._keep(answered, weights)
            self._tidy(job)

    def _keep(self, answered: Answered, weights: Path | None) -> None:
        self.outcomes.put(answered, weights)
        self.repeated.answered()
        self._write(
            Ended(run=answered.run.key, code=answered.name, outcome=answered.outcome.kind, epoch=answered.epoch)
        )

    def _tidy(self, job: Job) -> None:
        self.in_flight.end(job.run.key)
        self.work.clear(job.run.key, job.code.digest)


class EarlyStops:
    """The early stopping of one study. `cutoff` must get every measurement of the journal, in order."""

    def __init__(self, edition: Edition, history: History) -> None:
        plan = edition.study.plan
        self.metric, self.history = edition.study.score.metric, history
        self._runs: dict[str, tuple[Trial, Run, int]] = {}
        self._points = 0
        self._seen: set[tuple[str, int]] = set()
        stops = isinstance(plan, Search) and plan.stop is not None
        self._stoppers = {role: EarlyStopper(edition, history.first_seeds) for role in POINTS} if stops else {}

    def cutoff(self, key: str, code: str, measured: Measurement) -> float | None:
        """Returns the score that a run would have needed to go on, where it ends now; None if it goes on."""
        found = self._run(key) if self._stoppers else None
        value = measured.values.get(self.metric)
        if found is None or code != self.history.code(found[1]) or value is None:
            return None
        if (key, measured.epoch) in self._seen:  # trained again, because its answer was lost
            return None
        self._seen.add((key, measured.epoch))
        trial, run, seed = found
        cutoff = self._stoppers[trial.role].report(trial.number, measured.epoch, value, seed)
        state = self.history.state(run)
        ends = measured.epoch >= run.recipe.optimizer.trained_epochs or state.answered
        return None if ends else cutoff

    def _run(self, key: str) -> tuple[Trial, Run, int] | None:
        """Returns a point, its run and which one of its first seeds that has, from 0, by the key of the run."""
        points = [trial for trial in self.history.trials if trial.role in POINTS]
        for trial in points[self._points :]:
            for seed, run in enumerate(trial.runs(self.history.first_seeds)):
                self._runs.setdefault(run.key, (trial, run, seed))
        self._points = len(points)
        return self._runs.get(key)


class DriverPolls:
    """Looks, about once a second, at other drivers of the home and at requests of other commands."""

    def __init__(self, driver: Driver, note: Callable[[str], None]) -> None:
        self.driver, self.note = driver, note
        self._machine = ""
        self._runs = False

    def look(self) -> None:
        """Notes what has changed, and lets the driver do what is asked.

        Raises: KeyboardInterrupt if all runs are to stop now, TakenOverError if another driver has the study.
        """
        self.driver.journal.look()
        machine = self._shared()
        if machine != self._machine:
            self.note(machine or "no other study uses this machine any more")
            self._machine = machine
        count = len(self.driver.in_flight.elsewhere)
        if count and not self._runs:
            runs = plural(count, "run")
            self.note(f"another study of this home trains {runs} of this one; its answers are used here")
            self._runs = True
        if asked := self.driver.heed():
            requests = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in asked.given().items())
            self.note(f"asked by another command: {requests}")
            if asked.stop == "now":
                raise KeyboardInterrupt

    def _shared(self) -> str:
        if self.driver.neighbours is None or not (others := self.driver.neighbours.names()):
            return ""
        most = self.driver.placement.max_concurrent
        here = f"at most {plural(self.driver.in_flight.share(most), 'concurrent run')} here"
        return f"this machine is shared with {', '.join(others)}: {here}"
