"""Lets Ray Tune train the jobs of a driver: the only door to Ray Tune.

One Tune trial trains one run. There are three adapters. The searcher suggests the driver's next job. The scheduler
reports each epoch to the driver before anyone else. The trainable passes the job to `launch/worker.py` (a function in a
reused process, or a class with a worker group). Tune keeps no state of a study: what is to be done follows from the
journal. Tune serves as a pool of processes that it places on the cluster and restarts.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ray
from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from service.execution import ray_token as token
from service.execution.driver import Driver, Finished
from service.planning.placement import Machine, Placement
from trainables.launch.errors import changed, is_code_error, lost, reason
from trainables.launch.job import Job

WAITING_BYTES = 2**20
"""The memory that Ray reserves for the process that only waits for a worker group. Ray wants some resource to be asked
for, and any share of a core would keep the last group of a full machine waiting."""

PATIENCE_S = 30.0
"""How long runs wait for resources before that is said."""

POLL_S = 0.2
"""How often Ray Train checks whether a group has started, failed or ended. Messages do not wait for it."""


def train(config: dict[str, Any]) -> None:
    """What Tune calls in its own, reused process: trains one job and reports to Tune."""
    from trainables.launch.imported import imported_code

    imported_code()  # first: the import of torch takes seconds, in which a file could be edited
    from trainables.launch.worker import work

    work(Job.read(config["job"]), lambda message: tune.report(message))


class GroupTrial(tune.Trainable):  # type: ignore[misc]
    """What Tune calls for a worker group: a step is an epoch; it ends when all its workers have ended."""

    def setup(self, config: dict[str, Any]) -> None:
        """Starts the workers in the background."""
        from trainables.launch.worker import Group

        self.epoch = 0
        self.group = Group(Job.read(config["job"]))

    def step(self) -> dict[str, Any]:
        """The next epoch's message; after the last one, that the run is done. Tune needs the metric each time."""
        message = self.group.next() or {"epoch": self.epoch, "done": True}
        self.epoch = message["epoch"]
        return message

    def cleanup(self) -> None:
        """Ends the group at any time."""
        self.group.close()


class DriverSearcher(Searcher):  # type: ignore[misc]
    """Tune's searcher: the driver's next job."""

    def __init__(self, driver: Driver, first: Job) -> None:
        super().__init__(metric="epoch", mode="max")
        self.driver = driver
        self.held: Job | None = first

    def suggest(self, trial_id: str) -> Any:
        """A task's config; None: ask again later; FINISHED: nothing is left."""
        job, self.held = self.held or self.driver.next(), None
        if job is None:
            return None
        if isinstance(job, Finished):
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

    def __init__(self, driver: Driver) -> None:
        super().__init__()
        self.driver = driver
        self.noted: set[str] = set()

    def on_trial_result(self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]) -> str:
        """Continues or stops the run."""
        if "result" not in result:
            return str(TrialScheduler.CONTINUE)
        job, note = _job(trial), result.get("note", "")
        line = f"{job.run.key}, attempt {job.attempt}: {note}\n"
        if note and line not in self.noted:  # every epoch repeats it
            self.noted.add(line)
            self._log(line)
        on = self.driver.on_result(job, result)
        return str(TrialScheduler.CONTINUE if on else TrialScheduler.STOP)

    def on_trial_complete(self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]) -> None:
        """A run that ended by itself without an answer has failed."""
        job = _job(trial)
        if job.run.key in self.driver.in_flight:
            self.driver.on_failure(job, "its process ended without an answer")

    def on_trial_remove(self, tune_controller: Any, trial: TuneTrial) -> None:
        """Tune removed a trial that was still pending; its run stays to be done."""
        self.driver.release(_job(trial))

    def on_trial_error(self, tune_controller: Any, trial: TuneTrial) -> None:
        """Records a failure with its reason. Of a killed process only Tune knows the reason."""
        text = Path(trial.error_file).read_text() if trial.error_file else ""
        self._log(text)
        why = reason(text)
        self.driver.on_failure(_job(trial), why, lost=lost(why), final=changed(why) or is_code_error(text))

    def _log(self, text: str) -> None:
        with self.driver.folder.log.open("a") as log:
            log.write(text)

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Waiting(tune.Callback, tune.Stopper):  # type: ignore[misc]
    """Notices when all runs in flight wait for resources: it says so after a while, and a stop then ends them.

    Tune itself would wait for ever, because a run that has not begun makes no report at which it could end.
    """

    def __init__(self, driver: Driver, note: Callable[[str], None], resources: str) -> None:
        self.driver, self.note, self.resources = driver, note, resources
        self.since: float | None = None
        self.said = False

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        """What Tune calls after each event, and at least ten times a second."""
        live = [trial.status for trial in trials if not trial.is_finished()]
        if not live or {*live} != {TuneTrial.PENDING}:
            self.since, self.said = None, False
            return
        self.since = self.since or time.monotonic()
        if not self.said and time.monotonic() - self.since >= PATIENCE_S:
            self.said = True
            asks = f"each asks Ray for {self.resources}, which may not be free"
            self.note(f"no run has begun for {PATIENCE_S:.0f} s: {asks}; Ctrl-C ends the study")

    def stop_all(self) -> bool:
        """Whether Tune must forget the runs in flight, none of which has begun."""
        return bool(self.driver.stop) and self.since is not None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Stops no run by its result; the scheduler does."""
        return False

    def __getstate__(self) -> dict[str, Any]:
        return {}


def _job(trial: TuneTrial) -> Job:
    return Job.read(trial.config["job"])


def run_on_tune(
    driver: Driver, first: Job, address: str = "local", note: Callable[[str], None] = lambda line: None
) -> None:
    """Runs the jobs of a study on Ray until the driver has none left, or is asked to stop.

    `note` is called with a line for a person, where runs wait for resources.
    Cost: 5 s to start Ray here, 0.1 to 0.3 s a run beside its training.
    """
    placement = driver.placement
    waiting = Waiting(driver, note, _resources_in_words(placement))
    with _ray(address, placement), tempfile.TemporaryDirectory(prefix="locus-tune-") as scratch:
        tune.Tuner(
            tune.with_resources(GroupTrial if placement.workers else train, _resources(placement)),
            tune_config=tune.TuneConfig(
                search_alg=DriverSearcher(driver, first),
                scheduler=JournalScheduler(driver),
                num_samples=-1,
                max_concurrent_trials=placement.max_concurrent,
                reuse_actors=placement.workers == 0,
                trial_dirname_creator=lambda trial: trial.trial_id,
            ),
            run_config=tune.RunConfig(
                storage_path=scratch,
                name="runs",
                verbose=0,
                progress_reporter=tune.CLIReporter(),  # the one for notebooks clears what the cell has shown
                callbacks=[waiting],
                stop=waiting,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()


def _resources(placement: Placement) -> tune.PlacementGroupFactory:
    gpus = {"GPU": gpu_share(placement.runs_per_gpu)} if placement.device == "cuda" else {}
    if placement.workers == 0:
        return tune.PlacementGroupFactory([{"CPU": placement.threads, **gpus}])
    return tune.PlacementGroupFactory([{"memory": WAITING_BYTES}])


def _resources_in_words(placement: Placement) -> str:
    """What a run asks of Ray, such as `2 CPU and 1 GPU`."""
    return " and ".join(f"{count:g} {name}" for name, count in _resources(placement).required_resources.items())


def gpu_share(runs: int) -> float:
    """What each of so many runs asks of a GPU. Ray counts in parts of 1/10,000, and so many must fit."""
    return 10_000 // runs / 10_000


def machine(address: str, threads: int = 1) -> Machine:
    """What the cluster at hand has for runs of so many threads a worker. A node's cores beyond a multiple do not count.

    Cost: a second, to connect.
    """
    with _session(address):
        nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    cores = sum(int(node.get("CPU", 0)) // threads * threads for node in nodes)
    return Machine(cores=cores, gpus=sum(int(node.get("GPU", 0)) for node in nodes))


@contextlib.contextmanager
def _ray(address: str, placement: Placement) -> Iterator[None]:
    """A Ray session for a study: a new local one, or the cluster at hand.

    A local one has a dashboard only for worker groups, because Ray finds what a killed group left through it.
    """
    os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    env = {"OMP_NUM_THREADS": str(placement.threads), "TORCHINDUCTOR_COMPILE_THREADS": str(placement.threads)}
    if placement.workers:
        env |= {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": str(POLL_S), "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0"}
    local = {"include_dashboard": placement.workers > 0} if address == "local" else {}
    with _session(address, runtime_env={"env_vars": env}, **local):
        yield


@contextlib.contextmanager
def _session(address: str, **settings: Any) -> Iterator[None]:
    """A quiet session with Ray that is always ended. Failures are in the journal, with their reasons."""
    for name in ("ray.tune", "ray.train", "ray._private"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    if address == "local":
        token.protect_local_token()
    token.clear_cached_token()
    try:
        with _undisturbed():  # an interrupted start leaves agents running that nobody ends
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR, **settings)
        yield
    finally:
        with _undisturbed():
            ray.shutdown()


@contextlib.contextmanager
def _undisturbed() -> Iterator[None]:
    """Delays Ctrl-C until the end of the block. `execution/signals.py` still counts the presses."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if pressed and callable(before):
            before(signal.SIGINT, None)
