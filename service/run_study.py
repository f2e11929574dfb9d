"""Runs a study from its plan to its report: refuse what cannot run, print the plan, train what is missing, report."""

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
from search_spaces.study import Ablation, Edition
from search_spaces.words import plural
from service.callbacks import Callback, Callbacks
from service.execution import machine
from service.execution import signals as steering
from service.execution.costs import measure_costs
from service.execution.driver import Driver, DriverPolls, Finished
from service.execution.failures import SAME, causes, disk_errors_in_a_sentence
from service.execution.folders import socket_folder
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
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.cost import check_placement
from trainables.spec import LocusError, digest

if TYPE_CHECKING:
    from service.tracking.rows import MlflowStatus
    from service.tracking.sync import MlflowSync


def try_own(edition: Edition, data: Path) -> list[str]:
    """Tries the recipes with code of a user's own, as `try_recipes` does; nothing if torch is not installed.

    What passed is kept, so that the next plan of the same code imports no torch.
    """
    try:
        return [*try_recipes(edition, data, own_only=True)]
    except ModuleNotFoundError as error:  # of a package that is not installed, which `version` looks for, too
        if error.name not in ("torch", "timm"):
            raise
        return []


def try_recipes(edition: Edition, data: Path, *, own_only: bool = False) -> Iterator[str]:
    """Tries each arm, or the base and the first points of a search, and those that they start from.

    Yields what looks odd, a sentence each. Raises: LocusError that names the arm, and the user's own file and line.
    """
    tried: set[str] = set()
    for name, recipe in _recipes(edition):
        key = recipe.model_dump_json()
        if key in tried or (own_only and not _has_own_code(recipe)):
            continue
        tried.add(key)
        try:
            remarks = _kept_or_tried(recipe, data) if own_only else _tried(recipe, data)
        except LocusError as error:
            raise LocusError(f"{name}: {error}") from None
        yield from (f"{name}: {remark}" for remark in remarks)


def _tried(recipe: Recipe, data: Path) -> list[str]:
    from trainables.launch.trial_step import try_step  # torch, which a laptop that only submits has not

    return try_step(recipe, data)


def _kept_or_tried(recipe: Recipe, data: Path) -> list[str]:
    """Returns what was odd in a recipe when it was tried, now or by an earlier command with the same data."""
    name = f"tried-{digest([recipe.model_dump_json(), recipe.data.fingerprint], 64)}.json"
    mark = "\n".join(
        [*(version(package) for package in ("torch", "timm")), seen(Path(str(trainables.__file__)).parent)]
    )
    remarks: list[str] | None = kept(name, mark)
    if remarks is None:
        remarks = _tried(recipe, data)
        keep(name, mark, remarks)
    return remarks


def _recipes(edition: Edition) -> Iterator[tuple[str, Recipe]]:
    """Yields the recipes that can be known before a search begins, by the words for each; parents come first."""
    arms = isinstance(edition.study.plan, Ablation)
    trials = known_trials(edition)
    recipes = [(f"arm {trial.name!r}" if arms else f"point {trial.name}", trial.recipe) for trial in trials]
    for name, recipe in recipes or [("the base", edition.study.base)]:
        for use, parent in recipe.parents.items():
            yield f"{name}, its {'teacher' if use == 'teacher' else 'parent'}", parent
        yield name, recipe


def _has_own_code(recipe: Recipe) -> bool:
    return bool(recipe.own_parts)


ENDS = {"FINISHED": "finished", "SCHEDULED": "stopped", "FAILED": "failed"}
"""How MLflow calls the end of a study, and what a program that watches is told."""
POLL_S = 0.5
"""How often a driver that waits for another one asks again."""


def run_study(
    edition: Edition,
    options: RunOptions,
    progress: Progress,
    tell: Callable[..., None] = lambda **facts: None,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """Runs what is missing of a resolved edition; the result holds what was there already, too.

    `tell` takes facts for a program that watches this one: the study, its home, where MLflow shows it, how it ended.
    Raises: LocusError before anything is written, for what cannot be, or later where the disk cannot be written any
    more, or Ray does not start or dies; KeyboardInterrupt if a person stopped it; TakenOverError if another
    driver has taken the study over, which ends it then: nothing more is written here.
    """
    home = Home.find(options.home)
    if options.address == "local":
        socket_folder()  # Ray needs one; asked here, before the plan
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
    """A study while a command runs it, in phases: prepared when it is made, then `open`, `run`, `close`, `result`.

    `ended`: what MLflow shows of its end. `took`: how long training took. Units: s.
    """

    def __init__(
        self, edition: Edition, home: Home, options: RunOptions, progress: Progress, tell: Callable[..., None]
    ) -> None:
        """Prints the plan. Nothing of the study is written. Raises: LocusError for what cannot run.

        What was asked of the driver before, and not read, is forgotten.
        """
        set_up_client()
        from service.tracking.sync import check

        self.options, self.progress, self.tell = options, progress, tell
        self.folder = home.study(edition.id)
        self.tracking = tracking_uri(options.tracking)
        self.codes = CodeDigests()
        history = History.open(home, edition, self.codes)
        outcomes = Outcomes(home)
        self.placement = machine.placement(options, lambda: run_memory(history, outcomes, options.grad_checkpointing))
        check_study_placement(edition, self.placement)
        if self.folder.driven:
            raise steering.change(edition, home, options)
        steering.take_request(self.folder)
        self.copies = Copies(options.storage, home, edition.id) if options.storage else None
        os.environ.setdefault("LOCUS_COMMIT", commit())
        check(home, self.tracking)
        self.costed = self._costed(home, history)
        self.estimate = _plan(home, history, self.placement, options, self.codes, progress)
        if self.estimate.to_train:
            _check_ray()
            for remark in try_own(edition, home.data):
                progress.note(remark)
        self.edition, self.home = edition, home
        self.stop = Stop.after(options.hours)
        self.ended: MlflowStatus = "FAILED"
        self.took = 0.0

    def _costed(self, home: Home, history: History) -> Costed | None:
        """Returns what arms cost, where runs train on this machine and nobody knows it yet; the plan counts with it."""
        if self.options.address != "local":
            return None
        try:
            costed = measure_costs(history, self.placement, home.data)
        except LocusError as error:
            self.progress.note(str(error))
            return None
        if costed is not None:
            history.add(costed)
            if costed.busy:
                self.progress.note(f"this machine is busy{costed.busy}: the study will take longer than is said here")
        return costed

    def open(self, storage: StorageSync, journal: Journal, callbacks: Sequence[Callback]) -> None:
        """Writes the study into its home and its storage, and opens MLflow.

        What is asked of the driver from the moment on at which it has the study's lock is kept until `run`.
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
        options, placement = self.options, self.placement
        others = Neighbours(home, edition.id, placement) if options.address == "local" else None
        self.driver = driver = Driver(
            edition,
            home,
            journal,
            placement,
            self.stop,
            neighbours=others,
            codes=self.codes,
            copies=self.copies,
        )
        self.sync = MlflowSync(
            edition, home, lambda recipe: driver.codes(recipe).digest, self.tracking, options.experiment
        )
        driver.listeners += [self.progress.add, self.sync.add, Callbacks(callbacks, driver, note).add]
        self.sync.open()
        if journal.torn:
            note("the journal's last line was torn by a crash, and dropped")

    def run(self, signals: StopSignals) -> None:
        """Trains what is missing, and computes probes where the study asks for them. Raises: KeyboardInterrupt."""
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
            shown = Result(self.home, self.edition, driver.history, driver.outcomes)
            compute_probes(shown, note, lambda: steering.is_to_stop(self.folder, self.stop) or driver.journal.lost)

    def _train(self, signals: StopSignals) -> None:
        """Trains what is missing; with nothing missing neither Ray nor torch is started."""
        driver, progress, options = self.driver, self.progress, self.options
        driver.begin(self.costed)
        if url := self.sync.parent_url:
            progress.note(f"MLflow: {url}")
        self.tell(mlflow=url or "")
        if self.estimate.to_train and options.address == "local":
            progress.note(f"to watch it: locus report {self.edition.id}{self.home.option} --watch --open")
        progress.begin(driver.history, driver.lock)
        attention = DriverPolls(driver, progress.note)
        attention.look()  # also where nothing is missing until more is asked for
        while isinstance(job := _next(driver, attention), Job):
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
                        own = next((cause for cause in causes(error) if isinstance(cause, LocusError)), None)
                        if own is not None and own is not error:
                            raise own from error
                        raise
            if driver.in_flight.jobs:
                break
        driver.in_flight.close()
        driver.journal.look()

    def close(self) -> None:
        """Takes the steps of `CLOSING`, each one also if one before it fails. Raises: what the last of these raised."""
        with ExitStack() as steps:
            for step in reversed(CLOSING):
                steps.callback(step, self)

    def release(self) -> None:
        """Gives back the runs and the share of the machine that other drivers may wait for."""
        self.driver.in_flight.close()

    def end_screen(self) -> None:
        """Ends the live table: from here on lines are printed."""
        self.progress.end()

    def close_mlflow(self) -> None:
        """Writes the report and closes MLflow; leaves both to another driver that has taken the study over."""
        if self.driver.journal.lost:
            self.sync.leave()
        else:
            _close(self.driver, self.sync, self.progress, self.ended)

    def close_storage(self) -> None:
        """Sends what is left; leaves that to another driver that has taken the study over."""
        if not self.driver.journal.lost and (warning := self.storage.close(self.driver.history)):
            self.progress.note(warning)

    def name_replaced_answers(self) -> None:
        """Says how many answers took the place of others of the same code."""
        if replaced := self.driver.replaced:
            self.progress.note(
                f"{plural(len(replaced), 'answer')} gave way to others (of runs trained again for lost weights, or at "
                f"the storage): the new ones count, and the old ones are kept as *.damaged in {self.home.outcomes}"
            )

    def name_failed_listener(self) -> None:
        """Says which of those that show the study has failed."""
        if failed := self.driver.listener_failed:
            self.progress.note(f"what was shown may lack something ({failed}; see {self.folder.log})")

    def result(self) -> Result:
        """Returns what came out, once all is closed. Raises: TakenOverError."""
        driver = self.driver
        driver.journal.look()
        self.tell(ended=ENDS[self.ended])
        if self.ended == "FINISHED" and self.estimate.to_train:
            peak = max(run_peaks(driver.history), default=None)
            self.progress.note(self.estimate.beside(self.took, peak))
        uri = self.sync.parent_url or self.tracking or self.home.tracking
        return Result(self.home, self.edition, driver.history, driver.outcomes, uri)


CLOSING = (
    StudyRun.release,
    StudyRun.end_screen,
    StudyRun.close_mlflow,
    StudyRun.close_storage,
    StudyRun.name_replaced_answers,
    StudyRun.name_failed_listener,
)
"""How a study ends, in this order: other drivers do not wait for the report, and lines need the screen."""


def check_study_placement(edition: Edition, placement: Placement) -> None:
    """Refuses a placement that would change a run's numbers. Raises: SpecError."""
    for recipe in [trial.recipe for trial in known_trials(edition)] or [edition.study.base]:
        check_placement(recipe, placement.workers, placement.device, placement.grad_checkpointing)


def _check_ray() -> None:
    """Refuses to train where this process uses Ray already: the study would end that session. Raises: LocusError."""
    ray = sys.modules.get("ray")
    if ray is not None and ray.is_initialized():
        raise LocusError(
            "this process must have no Ray session, as a study starts its own; call ray.shutdown() first, or run the "
            "study in another process"
        )


def _plan(
    home: Home, history: History, placement: Placement, options: RunOptions, codes: CodeDigests, progress: Progress
) -> WorkEstimate:
    """Prints the plan. Raises: LocusError if a file of weights or a data set is missing."""
    edition = history.edition
    history.raise_counts(edition)
    if options.download:
        _download(edition, home, progress)
    estimate = estimate_work(history, Outcomes(home), placement, codes)
    if estimate.absent:
        raise LocusError(f"{estimate.absent[0]}; nothing was trained")
    for line in estimate.lines(edition.id):
        progress.note(line)
    progress.note(place_in_words(home, edition.id, tracking_uri(options.tracking), options.experiment))
    return estimate


def _download(edition: Edition, home: Home, progress: Progress) -> None:
    """Fetches the known data sets of the study's arms that are not there. Raises: LocusError."""
    study = edition.study
    recipes = [arm.recipe for arm in edition.arms()] if isinstance(study.plan, Ablation) else [study.base]
    missing = {recipe.data.kind: recipe.data for recipe in recipes if recipe.data.missing(home.data)}
    for kind, data in missing.items():
        from trainables.data.splits_torch import download

        progress.note(f"fetching {kind} into {home.data}")
        download(data, home.data)


def _next(driver: Driver, attention: DriverPolls) -> Job | Finished:
    """Returns the next job.

    Waits while other drivers of the home use the whole machine, or train all that this one wants.
    """
    while (job := driver.next()) is None:
        attention.look()
        time.sleep(POLL_S)
    return job


def _close(driver: Driver, sync: MlflowSync, progress: Progress, ended: MlflowStatus) -> None:
    """Writes the report, and closes the MLflow run in any case.

    A report that cannot be written takes no answer from a study: it is said, and `locus report` writes it later.
    """
    from service.tracking.rows import Conclusion

    report: Path | None = None
    conclusion = Conclusion()
    try:
        result = Result(driver.home, driver.edition, driver.history, driver.outcomes)
        conclusion = Conclusion.of(result)
        report = result.report(sync.links(0)).parent if result.rows else None
    except Exception as error:
        driver.folder.add_to_log(traceback.format_exc())
        why = f"{type(error).__name__}: {error}"
        progress.note(f"the report cannot be written ({why}; see {driver.folder.log}); all answers are kept")
    finally:
        if warning := sync.close(ended, report, conclusion, progress.note):
            progress.note(warning)
