"""Runs a study from its plan to its report: refuse what cannot run, print the plan, train what is missing, report."""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.study import Ablation, Edition
from service import steering
from service.analysis.probes.computing import compute_probes
from service.callbacks import Callback, Callbacks
from service.execution import machine
from service.execution.driver import Driver, Finished
from service.execution.jobs import archive
from service.execution.neighbours import Neighbours
from service.execution.repeated import SAME
from service.execution.sharing import Attention
from service.execution.signals import Stop, StopSignals
from service.execution.socket_folder import socket_folder
from service.execution.unwritable import causes, told_in_a_sentence
from service.planning.estimate import estimate_work, measured, run_memory
from service.planning.placement import Placement
from service.planning.run_options import RunOptions
from service.planning.runs_ahead import known_trials
from service.planning.work_estimate import WorkEstimate
from service.results import Result
from service.storage import editions
from service.storage.commit import commit
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Journal
from service.storage.outcomes import Outcomes
from service.storage.remote.copies import Copies
from service.storage.remote.mirror import Mirror
from service.storage.tracking_uri import place_in_words, tracking_uri
from service.terminal.live import Progress
from service.tracking.client_settings import set_up_client
from service.trying import try_own
from trainables.launch.job import Job
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.cost import check_workers
from trainables.recipe.findings import DRAWN_AGAIN
from trainables.spec import LocusError

ENDS = {"FINISHED": "finished", "KILLED": "stopped", "FAILED": "failed"}
"""How MLflow calls the end of a study, and what a program that watches is told."""
POLL_S = 0.5
"""How often a driver that waits for another one asks again."""

if TYPE_CHECKING:
    from service.tracking.rows import MlflowStatus
    from service.tracking.sync import MlflowSync


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
    more, or Ray does not start or dies; KeyboardInterrupt where a person stopped it; TakenOverError where another
    driver has taken the study over, which ends it then: nothing more is written here.
    """
    home = Home.find(options.home)
    if options.address == "local":
        socket_folder()  # Ray needs one; asked here, before the plan
    with told_in_a_sentence(home.root):
        return _run_study(edition, home, options, progress, tell, callbacks)


def _run_study(
    edition: Edition,
    home: Home,
    options: RunOptions,
    progress: Progress,
    tell: Callable[..., None],
    callbacks: Sequence[Callback],
) -> Result:
    set_up_client()
    from service.tracking.sync import MlflowSync, check

    tracking = tracking_uri(options.tracking)
    codes = CodeDigests()
    history = History.open(home, edition, codes)
    placement = machine.placement(options, lambda: run_memory(history, Outcomes(home)))
    check_study_workers(edition, placement)
    folder = home.study(edition.id)
    if folder.driven:
        raise steering.change(edition, home, options)
    copies = Copies(options.storage, home, edition.id) if options.storage else None
    os.environ.setdefault("LOCUS_COMMIT", commit())
    check(home, tracking)
    estimate = _plan(home, history, placement, options, codes, progress)
    if estimate.to_train:
        _check_ray()
        for remark in try_own(edition, home.data):
            progress.note(remark)
    stop = Stop(deadline=time.time() + options.hours * 3600 if options.hours else None)
    signals = StopSignals(stop, progress.note)
    with (
        signals.installed(),
        Mirror(copies) as mirror,
        Journal(folder.journal, folder.lock, claims=edition.claims_digest) as journal,
    ):
        editions.save_edition(edition, home)
        mirror.open(journal)
        if copies is None and (left := folder.storage_uri):
            progress.note(f"the copies at {left} stay as they are, because this command has no --storage {left}")
            folder.storage.unlink()
        tell(study=edition.id, home=str(home.root), home_id=home.named())
        neighbours = Neighbours(home, edition.id, placement) if options.address == "local" else None
        driver = Driver(
            edition, home, journal, placement, options.adopt, stop, neighbours=neighbours, codes=codes, copies=copies
        )
        sync = MlflowSync(edition, home, lambda recipe: driver.codes(recipe).digest, tracking, options.experiment)
        driver.listeners += [progress.add, sync.add, Callbacks(callbacks, driver, progress.note).add]
        sync.open()
        if journal.torn:
            progress.note("the journal's last line was torn by a crash, and dropped")
        ended: MlflowStatus = "FAILED"
        stored: dict[str, str] | None = None
        begun = time.monotonic()
        try:
            _train(driver, sync, progress, signals, options, estimate.epoch_s, tell)
            if driver.history.exhausted is not None and driver.history.exhausted < estimate.points:
                progress.note(f"the space has no further point: the search has {driver.history.exhausted} trials")
            if why := driver.repeated.reason:
                progress.note(f"stopped after {SAME} failures in a row: {why}; the same command tries again")
            ended = "KILLED" if stop else "FAILED" if why else "FINISHED"
            took = time.monotonic() - begun
            if ended == "FINISHED" and (edition.study.probes or edition.study.base.data.kind in DRAWN_AGAIN):
                shown = Result(home, edition, driver.history, driver.outcomes)
                compute_probes(shown, progress.note, lambda: bool(stop) or journal.lost)
        except KeyboardInterrupt:
            ended = "KILLED"
        finally:
            try:
                driver.in_flight.close()
            finally:
                progress.end()
                if journal.lost:
                    sync.leave()
                else:
                    stored = _close(driver, sync, progress, ended)
                    if warning := mirror.close(driver.history):
                        progress.note(warning)
            if driver.listener_failed:
                progress.note(f"what was shown may lack something ({driver.listener_failed}; see {folder.log})")
        journal.look()
        tell(ended=ENDS[ended], archive=stored)
        if ended == "FINISHED" and estimate.to_train:
            progress.note(estimate.beside(took, max(measured(driver.history, "memory/peak_gib"), default=None)))
        result = Result(home, edition, driver.history, driver.outcomes, sync.parent_url or tracking or home.tracking)
    if stop.asked:
        raise KeyboardInterrupt
    return result


def check_study_workers(edition: Edition, placement: Placement) -> None:
    """Refuses several workers a run where they would change its numbers. Raises: SpecError."""
    for recipe in [trial.recipe for trial in known_trials(edition)] or [edition.study.base]:
        check_workers(recipe, placement.workers, placement.device)


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
    """Prints the plan. Raises: LocusError where a file of weights or a data set is missing."""
    edition = history.edition
    history.raise_counts(edition)
    if options.download:
        _download(edition, home, progress)
    estimate = estimate_work(history, Outcomes(home), placement, codes, adopt=options.adopt)
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


def _train(
    driver: Driver,
    sync: MlflowSync,
    progress: Progress,
    signals: StopSignals,
    options: RunOptions,
    epoch_s: float | None,
    tell: Callable[..., None],
) -> None:
    """Trains what is missing; with nothing missing neither Ray nor torch is started."""
    driver.begin()
    if url := sync.parent_url:
        progress.note(f"MLflow: {url}")
    tell(mlflow=url or "")
    progress.begin(
        driver.history, driver.lock, lambda: driver.in_flight.share(driver.placement.max_concurrent), epoch_s
    )
    attention = Attention(driver, progress.note)
    while isinstance(job := _next(driver, attention), Job):
        # outside `interruptible`: after an interrupted import, Ray cannot be shut down
        from service.execution.tune.run import run_on_tune

        with signals.interruptible():
            if not driver.stop:
                try:
                    run_on_tune(
                        driver, job, options.address, progress.note, options.run_hours, attention.look, progress.busy
                    )
                except Exception as error:
                    driver.journal.look()  # Tune wraps the driver's own errors: a study that was taken over, a storage
                    own = next((one for one in causes(error) if isinstance(one, LocusError)), None)
                    if own is not None and own is not error:
                        raise own from error
                    raise
        if driver.in_flight.jobs:
            break
    driver.in_flight.close()
    driver.journal.look()


def _next(driver: Driver, attention: Attention) -> Job | Finished:
    """The next job. Waits while other drivers of the home use the whole machine, or train all that this one wants."""
    while (found := driver.next()) is None:
        attention.look()
        time.sleep(POLL_S)
    return found


def _close(driver: Driver, sync: MlflowSync, progress: Progress, ended: MlflowStatus) -> dict[str, str] | None:
    """Writes the report, and closes the MLflow run in any case.

    A report that cannot be written takes no answer from a study: it is said, and `locus report` writes it later.
    Returns where an MLflow server has the archive of the result; None where there is none.
    """
    from service.tracking.row_words import Conclusion

    report: Path | None = None
    found = Conclusion()
    try:
        result = Result(driver.home, driver.edition, driver.history, driver.outcomes)
        found = Conclusion(result.headline, tuple(map(str, result.claims)))
        report = result.report(sync.links(0)).parent if result.rows else None
    except Exception as error:
        driver.folder.add_to_log(traceback.format_exc())
        why = f"{type(error).__name__}: {error}"
        progress.note(f"the report cannot be written ({why}; see {driver.folder.log}); all answers are kept")
    finally:
        with tempfile.TemporaryDirectory(prefix="locus-result-") as folder:
            packed = _pack(driver, Path(folder), progress) if sync.serves else None
            warning = sync.close(ended, report, found, progress.note, archive=packed)
            if warning:
                progress.note(warning)
            stored = {"sha256": archive.digest(packed.read_bytes())} if packed and not warning else None
    return stored | sync.parent if stored else None


def _pack(driver: Driver, folder: Path, progress: Progress) -> Path | None:
    """The archive of what is known so far, in a folder; None, and a word about it, where it cannot be made."""
    path = folder / archive.NAME
    try:
        path.write_bytes(archive.pack(driver.home, driver.edition.id))
    except (LocusError, OSError) as error:
        progress.note(f"the archive of the result cannot be made ({error}); the home has all of it")
        return None
    return path
