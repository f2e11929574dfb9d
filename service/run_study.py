"""Runs a study: refuses what cannot run, prints the plan, trains the runs without an answer, writes the report."""

from __future__ import annotations

import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import trainables
from search_spaces.study import Edition
from search_spaces.words import plural
from service.callbacks import Callback, Callbacks
from service.execution import machine
from service.execution import signals as steering
from service.execution.driver import SAME, Driver, DriverPolls, causes, disk_errors_in_a_sentence
from service.execution.other_drivers import Neighbours
from service.execution.signals import Stop, StopSignals
from service.planning.estimate import WorkEstimate, estimate_work
from service.planning.forecast import known_trials, run_memory, run_peaks
from service.planning.placement import Placement
from service.planning.run_options import RunOptions
from service.results import Result, compute_probes
from service.storage import editions
from service.storage.facts import Costed
from service.storage.history import History
from service.storage.home import Home, place_in_words, tracking_uri
from service.storage.journal import Journal
from service.storage.outcomes import Outcomes, commit
from service.storage.remote import Copies, StorageSync
from service.terminal.live import Progress
from service.tracking import set_up_client
from trainables.kept import keep, kept, seen
from trainables.launch.job import Job
from trainables.recipe import Recipe
from trainables.recipe.cost import check_placement
from trainables.spec import LocusError, digest

if TYPE_CHECKING:
    from service.tracking.rows import MlflowStatus


def try_own(edition: Edition, data: Path) -> list[str]:
    """Tries only the recipes with code of a user's own, as `try_recipes` does, and returns sentences on what looks odd.

    The sentences are stored, so that the next plan of the same code imports no torch. If torch is not installed,
    nothing is tried.
    """
    try:
        return [*try_recipes(edition, data, own_only=True)]
    except ModuleNotFoundError as error:  # of a package that is not installed, which `version` looks for, too
        if error.name not in ("torch", "timm"):
            raise
        return []


def try_recipes(edition: Edition, data: Path, *, own_only: bool = False) -> Iterator[str]:
    """Tries one training step of each arm, or of a search's first points (else its base), and of their parents.

    Yields a sentence for each thing that looks odd. Raises: LocusError that names the arm, and the user's own file and
    line.
    """
    noun = "arm {!r}" if edition.study.plan.arms else "point {}"
    named = [(noun.format(trial.name), trial.recipe) for trial in known_trials(edition)]
    recipes: list[tuple[str, Recipe]] = []
    for name, recipe in named or [("the base", edition.study.base)]:
        parents = recipe.parents.items()
        recipes += [(f"{name}, its {'teacher' if use == 'teacher' else 'parent'}", parent) for use, parent in parents]
        recipes.append((name, recipe))

    tried: set[str] = set()
    for name, recipe in recipes:
        key = recipe.model_dump_json()
        if key in tried or (own_only and not recipe.own_parts):
            continue
        tried.add(key)
        try:
            remarks = _tried(recipe, data, keeps=own_only)
        except LocusError as error:
            raise LocusError(f"{name}: {error}") from None
        yield from (f"{name}: {remark}" for remark in remarks)


def _tried(recipe: Recipe, data: Path, *, keeps: bool) -> list[str]:
    """Returns sentences on what looks odd in a recipe.

    With `keeps` they are stored, and read again when a later command tries the same recipe with the same data.
    """
    remarks: list[str] | None = None
    if keeps:
        file = f"tried-{digest([recipe.model_dump_json(), recipe.data.fingerprint], 64)}.json"
        mark = "\n".join([version("torch"), version("timm"), seen(Path(str(trainables.__file__)).parent)])
        remarks = kept(file, mark)
    if remarks is None:
        from trainables.launch.trial_step import try_step  # torch, which a laptop that only submits has not

        remarks = try_step(recipe, data)
        if keeps:
            keep(file, mark, remarks)
    return remarks


ENDS = {"FINISHED": "finished", "SCHEDULED": "stopped", "FAILED": "failed"}
"""By MLflow's word for how a study ended: the word for a program that watches the command."""
POLL_S = 0.5
"""Seconds after which a driver that waits for another driver asks again."""


def run_study(
    edition: Edition,
    options: RunOptions,
    progress: Progress,
    tell: Callable[..., None] = lambda **facts: None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Trains the runs of an edition that have no answer yet, and returns the result of all runs.

    `tell` takes facts for a program that watches this one: the study, its home, where MLflow shows it, how it ended.
    Raises: LocusError before anything is written, for what cannot be, or later where the disk cannot be written any
    more, or Ray does not start or dies; KeyboardInterrupt if a person stopped it; TakenOverError if another
    driver has taken the study over, which ends it then: nothing more is written here.
    """
    home = Home.find(options.home)
    if options.address == "local":
        machine.socket_folder()  # Ray needs one; asked here, before the plan
    with disk_errors_in_a_sentence(home.root):
        running = StudyRun(edition, home, options, progress, tell)
        signals = StopSignals(running.stop, progress.note)
        with (
            signals.installed(),
            StorageSync(running.copies) as storage,
            Journal(running.folder.journal, running.folder.lock, claims=edition.claims_digest) as journal,
        ):
            running.open(storage, journal, callbacks)
            try:
                running.run(signals)
            except KeyboardInterrupt:
                running.ended = "SCHEDULED"
            finally:
                running.close()
            result = running.result()
    if running.stop.asked:
        raise KeyboardInterrupt
    return result


class StudyRun:
    """Is a study while a command runs it. Making it prepares the study; `open`, `run`, `close` and `result` follow.

    `ended` is MLflow's word for how it ended. `took` is how long the training took. Units: s.
    """

    def __init__(
        self, edition: Edition, home: Home, options: RunOptions, progress: Progress, tell: Callable[..., None]
    ) -> None:
        """Prepares the study and prints its plan, and writes nothing of it. Raises: LocusError for what cannot run.

        A request (such as `locus stop`) that came before, and that no driver has read, is forgotten.
        """
        set_up_client()
        from service.tracking.sync import check

        self.edition, self.home = edition, home
        self.options, self.progress, self.tell = options, progress, tell
        self.folder = home.study(edition.id)
        self.tracking = tracking_uri(options.tracking)
        history = History.open(home, edition)
        outcomes = Outcomes(home)
        self.placement = machine.placement(options, lambda: run_memory(history, outcomes, options.grad_checkpointing))
        check_study_placement(edition, self.placement)
        if self.folder.driven:
            raise steering.change(edition, home, options)
        steering.take_request(self.folder)
        self.copies = Copies(options.storage, home, edition.id) if options.storage else None
        os.environ.setdefault("LOCUS_COMMIT", commit())
        check(home, self.tracking)
        self.costed = self._costed(history)
        self.estimate = self._plan(history, outcomes)
        if self.estimate.to_train:
            ray = sys.modules.get("ray")
            if ray is not None and ray.is_initialized():
                raise LocusError(
                    "this process must have no Ray session, as a study starts its own; call ray.shutdown() first, or "
                    "run the study in another process"
                )
            for remark in try_own(edition, home.data):
                progress.note(remark)
        self.stop = Stop.after(options.hours)
        self.ended: MlflowStatus = "FAILED"
        self.took = 0.0

    def _costed(self, history: History) -> Costed | None:
        """Measures and returns the costs of the arms, and adds them to the history, so that the plan uses them.

        None where runs train elsewhere, the costs are known already, or they cannot be measured.
        """
        if self.options.address != "local":
            return None
        try:
            costed = machine.measure_costs(history, self.placement, self.home.data)
        except LocusError as error:
            self.progress.note(str(error))
            return None
        if costed is not None:
            history.add(costed)
            if costed.busy:
                self.progress.note(f"this machine is busy{costed.busy}: the study will take longer than is said here")
        return costed

    def _plan(self, history: History, outcomes: Outcomes) -> WorkEstimate:
        """Prints the plan, and returns its estimate. Raises: LocusError if a weights file or a data set is missing."""
        edition, home, note = self.edition, self.home, self.progress.note
        history.raise_counts(edition)
        if self.options.download:
            missing = {recipe.data.kind: recipe.data for recipe in edition.recipes if recipe.data.missing(home.data)}
            for kind, data in missing.items():
                from trainables.data.splits_torch import download

                note(f"fetching {kind} into {home.data}")
                download(data, home.data)
        estimate = estimate_work(history, outcomes, self.placement)
        if estimate.absent:
            raise LocusError(f"{estimate.absent[0]}; nothing was trained")
        for line in estimate.lines(edition.id):
            note(line)
        note(place_in_words(home, edition.id, self.tracking, self.options.experiment))
        return estimate

    def open(self, storage: StorageSync, journal: Journal, callbacks: Sequence[Callback]) -> None:
        """Writes the study into its home and its storage, and opens MLflow.

        A request (such as `locus stop`) that comes once the driver has the study's lock is kept until `run`.
        """
        from service.tracking.sync import MlflowSync

        edition, home, note = self.edition, self.home, self.progress.note
        self.storage = storage
        editions.save_edition(edition, home)
        storage.open(journal)
        if self.copies is None and (left := self.folder.storage_uri):
            note(f"the copies at {left} stay as they are, because this command has no --storage {left}")
            self.folder.storage.unlink()
        self.tell(study=edition.id, home=str(home.root), home_id=home.named())
        others = Neighbours(home, edition.id, self.placement) if self.options.address == "local" else None
        self.driver = driver = Driver(
            edition,
            home,
            journal,
            self.placement,
            self.stop,
            neighbours=others,
            copies=self.copies,
        )
        self.sync = MlflowSync(edition, home, self.tracking, self.options.experiment)
        driver.listeners += [self.progress.add, self.sync.add, Callbacks(callbacks, driver, note).add]
        self.sync.open()
        if journal.torn:
            note("the journal's last line was torn by a crash, and dropped")

    def run(self, signals: StopSignals) -> None:
        """Trains the runs that have no answer yet, and then computes the study's probes. Raises: KeyboardInterrupt."""
        driver, note = self.driver, self.progress.note
        begun = time.monotonic()
        self._train(signals)
        if driver.history.exhausted is not None and driver.history.exhausted < self.estimate.points:
            note(f"the space has no further point: the search has {driver.history.exhausted} trials")
        if why := driver.repeated.reason:
            note(f"stopped after {SAME} failures in a row: {why}; the same command tries again")
        self.ended = "SCHEDULED" if self.stop else "FAILED" if why else "FINISHED"
        self.took = time.monotonic() - begun
        if self.ended == "FINISHED":
            result = Result(self.home, self.edition, driver.history, driver.outcomes)
            compute_probes(result, note, lambda: steering.is_to_stop(self.folder, self.stop) or driver.journal.lost)

    def _train(self, signals: StopSignals) -> None:
        """Trains the runs that have no answer yet. If there are none, neither Ray nor torch is started."""
        driver, progress, options = self.driver, self.progress, self.options
        driver.begin(self.costed)
        if url := self.sync.parent_url:
            progress.note(f"MLflow: {url}")
        self.tell(mlflow=url or "")
        if self.estimate.to_train and options.address == "local":
            progress.note(f"to watch it: locus report {self.edition.id}{self.home.option} --watch --open")
        progress.begin(driver.history, driver.lock)
        attention = DriverPolls(driver, progress.note)
        attention.look()  # also where no run is missing: somebody may ask for more seeds
        while True:
            # Other drivers of the home may use the whole machine, or train all that this one wants.
            while (job := driver.next()) is None:
                attention.look()
                time.sleep(POLL_S)
            if not isinstance(job, Job):
                break
            # outside `interruptible`: after an interrupted import, Ray cannot be shut down
            from service.execution.tune import run_on_tune

            with signals.interruptible():
                if not driver.stop:
                    try:
                        where, hours = options.address, options.run_hours
                        run_on_tune(driver, job, where, progress.note, hours, attention.look, progress.busy)
                    except Exception as error:
                        # Tune wraps the driver's own errors: a study that was taken over, a storage
                        driver.journal.look()
                        wrapped = next((cause for cause in causes(error) if isinstance(cause, LocusError)), None)
                        if wrapped is not None and wrapped is not error:
                            raise wrapped from error
                        raise
            if driver.in_flight.jobs:
                break
        driver.in_flight.close()
        driver.journal.look()

    def close(self) -> None:
        """Ends the study step by step, each also if one before it fails. Raises: what the last of these raised.

        Other drivers get this one's share of the machine before the report is written; and the live screen ends before
        the last lines are printed.
        """
        release, end_screen = self.driver.in_flight.close, self.progress.end
        with ExitStack() as steps:
            for step in (self.name_failures, self.close_storage, self.close_mlflow, end_screen, release):
                steps.callback(step)  # the last one is taken first

    def close_mlflow(self) -> None:
        """Writes the report, and then closes MLflow in any case; another driver that took the study does both instead.

        If the report cannot be written, a line says so and the study keeps its answers; `locus report` writes it later.
        """
        from service.tracking.rows import Conclusion

        driver, sync, note = self.driver, self.sync, self.progress.note
        if driver.journal.lost:
            sync.leave()
            return
        report: Path | None = None
        conclusion = Conclusion()
        try:
            result = Result(driver.home, driver.edition, driver.history, driver.outcomes)
            conclusion = Conclusion.of(result)
            report = result.report(sync.links(0)).parent if result.rows else None
        except Exception as error:
            driver.folder.add_to_log(traceback.format_exc())
            why = f"{type(error).__name__}: {error}"
            note(f"the report cannot be written ({why}; see {driver.folder.log}); all answers are kept")
        finally:
            if warning := sync.close(self.ended, report, conclusion, note):
                note(warning)

    def close_storage(self) -> None:
        """Sends the last copies to the storage. If another driver has taken the study over, that one sends them."""
        if not self.driver.journal.lost and (warning := self.storage.close(self.driver.history)):
            self.progress.note(warning)

    def name_failures(self) -> None:
        """Prints how many answers replaced older ones of the same code, and which part of the display has failed."""
        if replaced := self.driver.replaced:
            self.progress.note(
                f"{plural(len(replaced), 'answer')} gave way to others (of runs trained again for lost weights, or at "
                f"the storage): the new ones count, and the old ones are kept as *.damaged in {self.home.outcomes}"
            )
        if failed := self.driver.listener_failed:
            self.progress.note(f"what was shown may lack something ({failed}; see {self.folder.log})")

    def result(self) -> Result:
        """Returns the study's result, after `close`. Raises: TakenOverError."""
        driver = self.driver
        driver.journal.look()
        self.tell(ended=ENDS[self.ended])
        if self.ended == "FINISHED" and self.estimate.to_train:
            peak = max(run_peaks(driver.history), default=None)
            self.progress.note(self.estimate.beside(self.took, peak))
        uri = self.sync.parent_url or self.tracking or self.home.tracking
        return Result(self.home, self.edition, driver.history, driver.outcomes, uri)


def check_study_placement(edition: Edition, placement: Placement) -> None:
    """Refuses a placement that would change a run's numbers. Raises: SpecError."""
    for recipe in [trial.recipe for trial in known_trials(edition)] or [edition.study.base]:
        check_placement(recipe, placement.workers, placement.device, placement.grad_checkpointing)
