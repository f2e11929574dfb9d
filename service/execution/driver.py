"""Drives one study: assigns runs, records measurements, decides what comes next, and stores the answers of runs.

The driver imports no framework. Whoever trains calls `next`, `on_result` and `on_failure`; `execution/tune.py` lets Ray
Tune do so. Each fact goes to the journal first, then to the history, then to the listeners (the screen and MLflow),
which may lag.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from search_spaces.roles import POINTS
from search_spaces.study import Edition, Trial
from search_spaces.words import plural
from service.execution.other_drivers import InFlight, Neighbours, WorkFolders
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
from service.storage.leases import TakenOverError
from service.storage.outcomes import Answered, Outcomes
from service.storage.remote import Copies, SentOutcomes
from trainables.launch.job import Job
from trainables.recipe import Run
from trainables.recipe.outcome import Completed, Diverged, Measurement
from trainables.recipe.planned import as_planned
from trainables.recipe.revisions import code_of
from trainables.spec import LocusError


class Finished(Enum):
    """What `Driver.next` returns when nothing is left to train."""

    FINISHED = "finished"


FINISHED = Finished.FINISHED
Listener = Callable[[Fact], None]


@dataclass
class Driver:
    """Drives one study from its open journal.

    `neighbours` are the other drivers that share this machine. `copies` are the files at the study's storage. `lock` is
    held while the history changes, because other threads read it. `listener_failed` is the first error of a listener,
    in words. `repeated` counts runs that fail for the same reason. `replaced` lists the keys of runs whose answers were
    replaced: by new answers with other numbers, or by answers from the storage.
    """

    edition: Edition
    home: Home
    journal: Journal
    placement: Placement
    stop: Stop = field(default_factory=Stop)
    listeners: list[Listener] = field(default_factory=list)
    neighbours: Neighbours | None = None
    copies: Copies | None = None
    listener_failed: str | None = None

    def __post_init__(self) -> None:
        self.folder: StudyFolder = self.home.study(self.edition.id)
        self.lock = threading.RLock()
        self.replaced: list[str] = []
        self.outcomes = SentOutcomes(self.copies, self.replaced) if self.copies else Outcomes(self.home)
        self.in_flight = InFlight(self.home, self.neighbours)
        self.history = History(self.edition, self.journal.facts)
        self._early, self._decisions = EarlyStops(self.edition, self.history), Decisions(self.history)
        self.repeated = RepeatedFailure()
        self.work = WorkFolders(self.folder, self.copies)

    def begin(self, costed: Costed | None = None) -> None:
        """Records the seeds and trials asked for now, the costs of arms, and what a killed driver left undecided."""
        counts_before = [fact for fact in self.journal.facts if isinstance(fact, Counts)]
        self.history.raise_counts(self.edition)
        counts = Counts(seeds=self.history.seeds, trials=self.history.trials_asked or None)
        for fact in self.journal.facts:
            self._tell(fact)
        failed = any(state.failures for state in self.history.states.values())
        if failed or not counts_before or counts_before[-1].bare() != counts:
            self._write(counts)
        if costed is not None:
            self._write(costed)

        answered = [run for run, state in self.history.states.items() if state.answered]
        self.work.clear(*answered)  # a killed driver may have left their folders
        for fact in [fact for fact in self.journal.facts if isinstance(fact, Measured)]:
            self._stop_early(fact.run, fact.code, Measurement(epoch=fact.epoch, values=fact.values))
        for lost in lost_answers(self.history, self.outcomes):
            if self.in_flight.claim(lost.run, lost.code):
                self.outcomes.set_aside(lost.run, lost.code)
                self.in_flight.end(lost.run)
            self._write(lost)

    def heed(self) -> Control | None:
        """Does what another command has asked for, and returns the request or None. The caller does `stop` "now"."""
        request = take_request(self.folder)
        if request is None:
            return None
        if request.max_concurrent:
            self.placement = self.placement.model_copy(update={"max_concurrent": request.max_concurrent})
        if request.seeds or request.trials:
            seeds = max(request.seeds or 0, self.history.seeds)
            self._write(Counts(seeds=seeds, trials=max(request.trials or 0, self.history.trials_asked) or None))
        self.stop.asked |= request.stop is not None
        return request

    def next(self) -> Job | Finished | None:
        """Returns the next job to train, and records the answers that are there already on the way.

        It returns None if the caller must ask again later: when a run has ended, or when another driver of the home has
        given a run back. It returns FINISHED if nothing is left to train, or if a stop was asked for.
        """
        self.in_flight.look()
        while not self.stop and self.repeated.reason is None:
            in_flight, most = len(self.in_flight.jobs), self.placement.max_concurrent
            if in_flight >= most:
                return None
            match next_action(self.history, self.in_flight.keys):
                case Assign(run=run, trial=trial):
                    code_digest = self.history.code(run)
                    find = partial(self.outcomes.usable, run.key, code_digest, whole=self.history.keeps(run))
                    if (answer := find()) is not None:
                        for fact in reused_facts(answer, self._early.cutoff):
                            self._write(fact)
                        self.work.clear((run.key, answer.name))
                    elif self.neighbours is not None and not self.neighbours.admit(in_flight, most):
                        return None  # the machine has no room beside the runs of others
                    elif self.in_flight.claim(run.key, code_digest):
                        if find() is None:
                            return self._start(run, trial)
                        self.in_flight.end(run.key)  # another driver ended it a moment ago
                case MarkDiverged(run=run):
                    outcome = Diverged(epoch=0, reason="its parent diverged")
                    code = code_of(run.recipe)
                    self._keep(Answered(**as_planned(run), code=code, outcome=outcome, ended=time.time()), None)
                case Propose() | Tune() if len(self.in_flight.keys) >= most:
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
        """Records what a worker reports of an epoch, and returns whether its run may go on.

        Raises: TakenOverError, as all methods that record something, where another driver has taken the study over.
        """
        self.journal.look()
        run, code = job.run, job.code.digest
        if message["kind"] == "diverged":
            self._end(job, message)
            return True
        measured = Measurement.read(json.loads(message["result"]))
        if measured.epoch not in self.history.state(run).curve:
            self._write(Measured(run=run.key, code=code, epoch=measured.epoch, values=measured.values))
            self.repeated.progress(answered=False)
            if self._stop_early(run.key, code, measured):
                self._tidy(job)
                return False
        if measured.epoch == run.recipe.optimizer.trained_epochs:
            self._end(job, message)
            return True
        if self.stop:
            self.release(job)
            return False
        return True

    def on_failure(self, *jobs: Job, reason: str, lost: bool = False, final: bool = False) -> None:
        """Records the failure of a job, or of all jobs that were trained as one model.

        Args:
            lost: The node was lost, too, so the failure does not count as an attempt.
            final: Another attempt cannot help.
        """
        ended = [job for job in jobs if self.in_flight.end(job.run.key)]
        for job in ended:
            failed = FailedWith(run=job.run.key, code=job.code.digest, reason=reason, counts=not lost, final=final)
            self._write(failed)
        if ended:
            self.repeated.failed(reason, lost=lost)

    def release(self, job: Job) -> None:
        """Forgets the job of a run that was stopped, or never started, without an answer. Its checkpoint stays."""
        self.in_flight.end(job.run.key)

    def _write(self, fact: Fact) -> None:
        """Adds a fact to the journal and the history, and passes it to the listeners."""
        entry = self.journal.write(fact)
        with self.lock:
            self.history.add(entry)
        self._tell(entry)

    def _tell(self, fact: Fact) -> None:
        """Passes a fact to the listeners. A listener that breaks ends no training: the log gets its first error."""
        for listener in self.listeners:
            try:
                listener(fact)
            except Exception as error:
                if self.listener_failed is None:
                    self.listener_failed = f"{type(error).__name__}: {error}"
                    self.folder.add_to_log(traceback.format_exc())

    def _stop_early(self, key: str, code: str, measured: Measurement) -> bool:
        """Returns whether early stopping ends a run at this measurement, and records it if so."""
        cutoff = self._early.cutoff(key, code, measured)
        if cutoff is not None:
            self._write(StoppedAt(run=key, code=code, epoch=measured.epoch, cutoff=cutoff))
        return cutoff is not None

    def _start(self, run: Run, trial: Trial) -> Job:
        """Returns the job of a run's next attempt, and records that the attempt has started."""
        planned = code_of(run.recipe)
        code, attempt = planned.digest, self.history.state(run).attempts + 1
        self.journal.look()  # a driver that has taken the study over would use the same folder
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
        most = self.placement.max_concurrent
        if self.neighbours is not None:
            most = self.neighbours.share(most)
        placed = self.placement.plain() | {"max_concurrent": most}
        begun = Started(run=run.key, code=code, attempt=attempt, seed=run.seed, label=trial.label, placement=placed)
        self._write(begun)
        return job

    def _end(self, job: Job, message: dict[str, Any]) -> None:
        """Stores the answer of a run, or records a failure if its weights are missing.

        Where an answer is there already, it lacks its weights. It is set aside if the new numbers differ from its own.
        """
        run, values = job.run, self.history.state(job.run).values
        curve = tuple(Measurement(epoch=epoch, values=values[epoch]) for epoch in values)
        if message["kind"] == "diverged":
            report = Diverged.read(json.loads(message["result"]))
            outcome: Completed | Diverged = Diverged(epoch=report.epoch, curve=curve, reason=report.reason)
        else:
            outcome = Completed(curve=curve)
        environment = json.loads(message["environment"])
        answered = Answered(
            **as_planned(run), code=job.code, outcome=outcome, environment=environment, ended=time.time()
        )
        needs_weights = isinstance(outcome, Completed) and self.history.keeps(run)
        weights = self.work.weights(job) if needs_weights else None
        before = self.outcomes.get(run.key, job.code.digest)

        if needs_weights and weights is None:
            shared = "" if self.copies else ": all nodes must share the folder of --home, or --storage must be given"
            self.on_failure(job, reason=f"its weights are not in {job.folder}{shared}")
        else:
            if before is not None and not answered.repeats(before):
                self.outcomes.set_aside(run.key, answered.name, answer=True)
                self.replaced.append(run.key)
            self._keep(answered, weights)
            self._tidy(job)

    def _keep(self, answered: Answered, weights: Path | None) -> None:
        """Stores an answer with its weights, and records that the run has ended."""
        self.outcomes.put(answered, weights)
        self.repeated.progress(answered=True)
        self._write(
            Ended(run=answered.run.key, code=answered.name, outcome=answered.outcome.kind, epoch=answered.epoch)
        )

    def _tidy(self, job: Job) -> None:
        """Forgets a job that has ended, and removes its work folders."""
        self.in_flight.end(job.run.key)
        self.work.clear((job.run.key, job.code.digest))


class EarlyStops:
    """Decides which runs of one study end early. `cutoff` must get every measurement of the journal, in its order."""

    def __init__(self, edition: Edition, history: History) -> None:
        plan = edition.study.plan
        self.metric, self.history = edition.study.score.metric, history
        self._runs: dict[str, tuple[Trial, Run, int]] = {}
        self._points = 0
        self._seen: set[tuple[str, int]] = set()
        stops = plan.stop is not None
        self._stoppers = {role: EarlyStopper(edition, history.first_seeds) for role in POINTS} if stops else {}

    def cutoff(self, key: str, code: str, measured: Measurement) -> float | None:
        """Returns the score that a run would have needed at this epoch to go on; None if it goes on."""
        if not self._stoppers:
            return None
        points = [trial for trial in self.history.trials if trial.role in POINTS]
        for trial in points[self._points :]:
            for seed, run in enumerate(trial.runs(self.history.first_seeds)):
                self._runs.setdefault(run.key, (trial, run, seed))
        self._points = len(points)

        value = measured.values.get(self.metric)
        if key not in self._runs or value is None:
            return None
        trial, run, seed = self._runs[key]
        if code != self.history.code(run):
            return None
        if (key, measured.epoch) in self._seen:  # trained again, because its answer was lost
            return None
        self._seen.add((key, measured.epoch))
        cutoff = self._stoppers[trial.role].report(trial.number, measured.epoch, value, seed)
        state = self.history.state(run)
        ends = measured.epoch >= run.recipe.optimizer.trained_epochs or state.answered
        return None if ends else cutoff


class DriverPolls:
    """Looks, about once a second, at other drivers of the home and at requests of other commands."""

    def __init__(self, driver: Driver, note: Callable[[str], None]) -> None:
        self.driver, self.note = driver, note
        self._machine = ""
        self._notes_runs = True

    def look(self) -> None:
        """Looks once at the other drivers and the requests, and notes in a line what has changed.

        Raises: KeyboardInterrupt if all runs are to stop now, TakenOverError if another driver has the study.
        """
        driver = self.driver
        driver.journal.look()
        machine = ""
        if driver.neighbours is not None and driver.neighbours.others:
            share = plural(driver.neighbours.share(driver.placement.max_concurrent), "concurrent run")
            machine = f"this machine is shared with {', '.join(sorted(driver.neighbours.others))}: at most {share} here"
        if machine != self._machine:
            self.note(machine or "no other study uses this machine any more")
            self._machine = machine
        count = len(driver.in_flight.elsewhere)
        if count and self._notes_runs:
            runs = plural(count, "run")
            self.note(f"another study of this home trains {runs} of this one; its answers are used here")
            self._notes_runs = False
        if request := driver.heed():
            changes = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in request.given().items())
            self.note(f"asked by another command: {changes}")
            if request.stop == "now":
                raise KeyboardInterrupt


OVERDUE = "it took longer than --run-hours"
"""The first words of the reason for which a run ends that took longer than `run_hours`."""
SAME = 10
"""How many failures in a row for the same reason end a study."""


class RepeatedFailure:
    """Counts failures in a row for the same reason. `reason` is that of the last `SAME` failures, or else None.

    The count goes back to zero when a run ends with an answer. If nodes were lost, it also goes back to zero when an
    epoch is trained: a study on machines that are taken away now and then may go on while it makes progress.
    """

    def __init__(self) -> None:
        self.reason: str | None = None
        self._last, self._count, self._lost = "", 0, False

    def failed(self, reason: str, *, lost: bool) -> None:
        """Counts a failed run, but not one that was overdue. `lost` says that its node was lost, too."""
        if reason.startswith(OVERDUE):
            return
        self._count = self._count + 1 if reason == self._last else 1
        self._last, self._lost = reason, lost
        self.reason = reason if self._count >= SAME else None

    def progress(self, *, answered: bool) -> None:
        """Notes that a run has trained an epoch or, with `answered`, has ended with an answer."""
        if answered or self._lost:
            self._count, self.reason = 0, None


class UnwritableError(LocusError):
    """The error of a disk that is full or became read-only while a study ran."""


class HomeGoneError(LocusError):
    """The error of a home that was removed, moved or unmounted while a study ran."""

    exit_code = 1


@contextmanager
def disk_errors_in_a_sentence(folder: Path) -> Iterator[None]:
    """Replaces an error within the block that comes from a full or read-only disk, or from a home that is gone.

    `folder` is the home, where everything is written. Raises: UnwritableError, HomeGoneError.
    """
    try:
        yield
    except Exception as error:
        chain = causes(error)
        if not folder.exists() and any(isinstance(cause, FileNotFoundError | TakenOverError) for cause in chain):
            raise HomeGoneError(
                f"{folder} must be there while a study runs, got no folder: it was removed, moved or unmounted; where "
                "it is there again, the same command goes on"
            ) from error
        unwritable = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
        disk_errors = (cause for cause in chain if isinstance(cause, OSError) and cause.errno in unwritable)
        if (disk_error := next(disk_errors, None)) is None:
            raise
        path = Path(disk_error.filename or folder)
        path = folder if path.is_relative_to(folder) else path  # whichever file was written first
        free = ""
        with suppress(OSError):  # a file that was never made
            free = f"; {shutil.disk_usage(path).free / 2**20:.0f} MiB are free there"
        why = os.strerror(disk_error.errno or 0)
        again = "what was measured is kept, and the same command goes on once there is room"
        raise UnwritableError(f"{path} must be on a disk that can be written, got: {why}{free}; {again}") from error


def causes(error: BaseException | None) -> list[BaseException]:
    """Returns an error and the errors that led to it, the earliest one first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain[::-1]
