"""Lets Ray Tune train what a driver gives: the only door to Ray Tune.

One Tune trial trains one run. Three adapters do it: the searcher hands out the driver's next task, the scheduler lets
the driver hear each epoch first, and the trainable passes the task to `trainables.worker`. Tune keeps no state of ours:
what is to be done follows from the journal.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import ray
from ray import tune
from ray.exceptions import RayActorError
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from service.driver import Driver, Finished
from service.placement import Machine, Placement
from trainables.task import Task

DRIVER_CORES = 0.001
"""What the process costs that only waits for a worker group."""


def train(config: dict[str, Any]) -> None:
    """What Tune calls in its own, reused process: trains one task, reporting to Tune."""
    from trainables.worker import work

    work(Task.read(config["task"]), lambda message: tune.report(message))


class Asker(Searcher):
    """Tune's searcher: the driver's next task."""

    def __init__(self, driver: Driver, first: Task) -> None:
        super().__init__(metric="epoch", mode="max")
        self.driver = driver
        self.held: Task | None = first
        self.tasks: dict[str, Task] = {}

    def suggest(self, trial_id: str) -> Any:
        """A task's config; None: ask again later; FINISHED: nothing is left."""
        task, self.held = self.held or self.driver.next(), None
        if task is None:
            return None
        if isinstance(task, Finished):
            return Searcher.FINISHED
        return {"task": task.plain()}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        """Nothing: the scheduler hears first, and the journal is the only memory."""

    def save(self, checkpoint_path: str) -> None:
        """Nothing: Tune's own state is not ours."""

    def restore(self, checkpoint_path: str) -> None:
        """Nothing: a study goes on from its journal."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Hearer(FIFOScheduler):  # type: ignore[misc]
    """Tune's scheduler: the driver hears an epoch, and says whether the run goes on."""

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self.driver = driver

    def on_trial_result(self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]) -> str:
        """Goes on, or stops the run."""
        if "said" not in result:
            return TrialScheduler.CONTINUE
        on = self.driver.heard(_task(trial), result)
        return TrialScheduler.CONTINUE if on else TrialScheduler.STOP

    def on_trial_complete(self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]) -> None:
        """A run that ended by itself without an answer has failed."""
        task = _task(trial)
        if task.run.key in self.driver.flying:
            self.driver.failed(task, "its process ended without an answer")

    def on_trial_remove(self, tune_controller: Any, trial: TuneTrial) -> None:
        """Tune gives a run up that it never started; it stays missing."""
        self.driver.left(_task(trial))

    def on_trial_error(self, tune_controller: Any, trial: TuneTrial) -> None:
        """A run failed: with its reason, which only Tune knows where the process was killed."""
        error = trial.get_error() if hasattr(trial, "get_error") else None
        lost = isinstance(error, RayActorError) and "node" in str(error).lower()
        self.driver.failed(_task(trial), _reason(trial, error), lost=lost)

    def __getstate__(self) -> dict[str, Any]:
        return {}


def _task(trial: TuneTrial) -> Task:
    return Task.read(trial.config["task"])


def _reason(trial: TuneTrial, error: Exception | None) -> str:
    if error is None:
        return "unknown error"
    cause = getattr(error, "cause", None) or error
    text = str(cause).strip().splitlines() or [type(cause).__name__]
    return f"{type(cause).__name__}: {text[-1]}"[:400]


def conduct(driver: Driver, first: Task, address: str = "local") -> None:
    """Runs a study's tasks on Ray until the driver has none left, or is asked to stop.

    Cost: 5 s to start Ray here, 0.1 to 0.3 s a run beside its training.
    """
    placement = driver.placement
    with _ray(address, placement), tempfile.TemporaryDirectory(prefix="locus-tune-") as scratch:
        resources = _resources(placement)
        tune.Tuner(
            tune.with_resources(train, resources),
            tune_config=tune.TuneConfig(
                search_alg=Asker(driver, first),
                scheduler=Hearer(driver),
                num_samples=-1,
                max_concurrent_trials=placement.at_once,
                reuse_actors=placement.workers == 0,
                trial_dirname_creator=lambda trial: trial.trial_id,
            ),
            run_config=tune.RunConfig(storage_path=scratch, name="runs", verbose=0),
        ).fit()


def _resources(placement: Placement) -> tune.PlacementGroupFactory:
    gpus = {"GPU": 1} if placement.device == "cuda" else {}
    if placement.workers == 0:
        return tune.PlacementGroupFactory([{"CPU": placement.threads, **gpus}])
    return tune.PlacementGroupFactory([{"CPU": DRIVER_CORES}])


def machine(address: str = "local") -> Machine:
    """What a local Ray would have: this process's cores, and the GPUs it may see."""
    return Machine(cores=len(os.sched_getaffinity(0)), gpus=0)


@contextlib.contextmanager
def _ray(address: str, placement: Placement) -> Iterator[None]:
    """A Ray of our own, or a session on the cluster at hand; quiet, and ended with the study."""
    os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    for name in ("ray.tune", "ray.train", "ray._private"):
        logging.getLogger(name).setLevel(logging.ERROR)
    ray.init(
        address=address,
        include_dashboard=placement.workers > 0 if address == "local" else None,
        log_to_driver=False,
        logging_level=logging.ERROR,
        runtime_env={"env_vars": {"OMP_NUM_THREADS": str(placement.threads)}},
    )
    try:
        yield
    finally:
        with _deaf():
            ray.shutdown()


@contextlib.contextmanager
def _deaf() -> Iterator[None]:
    """Holds off Ctrl-C while something must be tidied."""
    if not sys.stdout or signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        yield
        return
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
