"""How Ray Tune asks and tells a driver: its searcher suggests the next job, its scheduler reports each epoch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from service.execution.driver import Driver, Finished
from service.execution.tune.callbacks import Nodes, Watch, job_of
from trainables.launch.errors import LOST, UNREACHABLE, changed, is_code_error, lost, reason
from trainables.launch.job import Job


class DriverSearcher(Searcher):  # type: ignore[misc]
    """Tune's searcher: the driver's next job."""

    def __init__(self, driver: Driver, first: Job) -> None:
        super().__init__(metric="epoch", mode="max")
        self.driver = driver
        self.held: Job | None = first

    def suggest(self, trial_id: str) -> Any:
        """A task's config; None: ask again later; FINISHED: nothing is left, or nothing but what other drivers train.

        Where no run is in flight, Tune would wait for minutes without a call to anybody, and keep its resources.
        """
        job, self.held = self.held or self.driver.next(), None
        if job is None and self.driver.in_flight.jobs:
            return None
        if job is None or isinstance(job, Finished):
            return Searcher.FINISHED
        return {"job": job.plain()}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Does nothing: the scheduler gets every result first, and the journal is the only memory."""

    def save(self, checkpoint_path: str) -> None:
        """Does nothing: the state of Tune is never read again."""

    def restore(self, checkpoint_path: str) -> None:
        """Does nothing: a study resumes from its journal."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class JournalScheduler(FIFOScheduler):  # type: ignore[misc]
    """Tune's scheduler: it reports each epoch to the driver, which decides whether the run continues."""

    def __init__(self, driver: Driver, note: Callable[[str], None], watch: Watch, nodes: Nodes) -> None:
        super().__init__()
        self.driver, self.note, self.watch, self.nodes = driver, note, watch, nodes
        self.noted: set[str] = set()

    def on_trial_result(self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]) -> str:
        """Continues or stops the run."""
        if "result" not in result:
            return str(TrialScheduler.CONTINUE)
        job, note = job_of(trial), result.get("note", "")
        line = f"run {job.run.key}, attempt {job.attempt}: {note}"
        if note and line not in self.noted:  # every epoch repeats it
            self.noted.add(line)
            self.note(line)
            self.driver.folder.add_to_log(f"{line}\n")
        self.watch.dog.report(trial.trial_id)
        on = self.driver.on_result(job, result)
        if on and job.run.key in self.driver.in_flight and (overdue := self.watch.dog.overdue(trial.trial_id)):
            self.driver.on_failure(job, overdue, final=True)
            on = False
        return str(TrialScheduler.CONTINUE if on else TrialScheduler.STOP)

    def on_trial_complete(self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]) -> None:
        """A run that ended by itself without an answer has failed."""
        job = job_of(trial)
        if job.run.key in self.driver.in_flight:
            self.driver.on_failure(job, "its process ended without an answer")

    def on_trial_remove(self, tune_controller: Any, trial: TuneTrial) -> None:
        """Tune removed a trial that was still pending; its run stays to be done."""
        self.driver.release(job_of(trial))

    def on_trial_error(self, tune_controller: Any, trial: TuneTrial) -> None:
        """Records a failure with its reason. Of a killed process only Tune knows the reason."""
        text = Path(trial.error_file).read_text() if trial.error_file else ""
        self.driver.folder.add_to_log(text)
        why, final = self.watch.killed.pop(trial.trial_id, (reason(text), is_code_error(text)))
        if why.endswith(UNREACHABLE) and self.nodes.is_one_gone(trial):
            why = why.replace(UNREACHABLE, LOST)
        self.driver.on_failure(job_of(trial), why, lost=lost(why), final=final or changed(why))

    def __getstate__(self) -> dict[str, Any]:
        return {}
