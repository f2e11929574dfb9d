"""Lets Ray Tune train the jobs of a driver.

One Tune trial trains one run, or a pack: several runs that are trained as one model. The searcher suggests the driver's
next job, the scheduler reports each epoch to the driver, and the trainable trains the job. Tune keeps no state of a
study: what is to be done follows from the journal. It serves as a pool of processes that it starts and places.
"""

from __future__ import annotations

import json
import math
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune
from ray.tune.experiment import Trial as TuneTrial
from ray.tune.schedulers import FIFOScheduler, TrialScheduler
from ray.tune.search import Searcher

from service.execution.driver import FINISHED, Driver, Finished
from service.execution.machine import socket_folder, usable_gib
from service.execution.other_drivers import checkpoint_time
from service.execution.ray_session import LocalRay, session
from service.execution.signals import Apart
from service.execution.watchdog import Attending, Unsaved, Watch, death_errors_as_actor_errors, jobs_of
from service.planning.placement import Placement
from trainables.cgroup import cores
from trainables.launch.errors import LOST, UNREACHABLE, is_code_error, lost, reason
from trainables.launch.job import Job
from trainables.launch.scratch import scratch
from trainables.recipe.fusing import fuse

if TYPE_CHECKING:
    from trainables.launch.alone import Alone
    from trainables.launch.group import Group


class AloneTrial(tune.Trainable):  # type: ignore[misc]
    """Trains a job in a process of Tune, which then takes the next job. A step of Tune is an epoch."""

    def setup(self, config: dict[str, Any]) -> None:
        self.epoch = 0
        self.training = self.begin(*map(Job.received, [config["job"], *config.get("others", [])]))

    def begin(self, *jobs: Job) -> Alone | Group:
        """Starts the training of these jobs in the background, here in a thread, and returns it."""
        from trainables.launch.alone import Alone

        return Alone(*jobs)

    def step(self) -> dict[str, Any]:
        """Returns the message of the next epoch; after the last epoch, a message that ends the trial of Tune."""
        message = self.training.next() or {"epoch": self.epoch, "done": True}
        self.epoch = message["epoch"]
        return message

    def cleanup(self) -> None:
        """Ends the training at any time, after it has written its files."""
        self.training.close()

    def reset_config(self, new_config: dict[str, Any]) -> bool:
        self.cleanup()
        self.setup(new_config)
        return True


class GroupTrial(AloneTrial):
    """Waits for a worker group, and ends when all its workers have ended."""

    def begin(self, *jobs: Job) -> Group:
        from trainables.launch.group import Group

        (job,) = jobs
        return Group(job)


class DriverSearcher(Unsaved, Searcher):  # type: ignore[misc]
    """Suggests to Tune the driver's next job, or its next pack: jobs that are trained as one model.

    `waiting` lists the jobs that the driver has given and that no trial of Tune has yet. Seeds of an arm are far apart
    in the driver's order, so for a pack the searcher looks at as many jobs as may be in flight. `packs` holds the ids
    of the trials that train one.
    """

    def __init__(self, driver: Driver, *first: Job) -> None:
        super().__init__(metric="epoch", mode="max")
        self.driver = driver
        self.waiting = [*first]
        self.packs: set[str] = set()

    def suggest(self, trial_id: str) -> Any:
        """Returns the config of a new trial. It returns None if Tune must ask again later.

        It returns FINISHED if nothing is left but runs of other drivers: with no run in flight, Tune would otherwise
        wait for minutes without any call, and keep its resources.
        """
        placement = self.driver.placement
        if placement.fuse > 1 and len(self.packs) >= math.ceil(placement.max_concurrent / placement.fuse):
            return None  # a pack whose first runs have ended keeps its place until the last one has
        job: Job | Finished | None = None
        while placement.fuse > 1 or not self.waiting:
            job = self.driver.next()
            if not isinstance(job, Job):
                break
            self.waiting.append(job)
        if self.driver.stop:
            job = FINISHED
            while self.waiting:
                self.driver.release(self.waiting.pop())
        if not self.waiting:
            return None if job is None and self.driver.in_flight.jobs else Searcher.FINISHED

        first, *rest = self.waiting
        fresh = [  # jobs without a checkpoint that have never failed: they may be trained as one model
            job
            for job in self.waiting
            if not self.driver.history.state(job.run).failures
            and (job.attempt == 1 or checkpoint_time(job.folder) is None)
        ]
        others = [job for job in rest if first in fresh and job in fresh and fuse(first.run, job.run)]
        others = others[: placement.fuse - 1]
        self.waiting = [job for job in rest if job not in others]
        self.packs.add(trial_id)
        return {"job": first.plain(), **({"others": [other.plain() for other in others]} if others else {})}

    def on_trial_complete(self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False) -> None:
        self.packs.discard(trial_id)

    def save(self, checkpoint_path: str) -> None:
        """Does nothing, and `restore` does nothing either: a study resumes from its journal."""

    restore = save


class JournalScheduler(Unsaved, FIFOScheduler):  # type: ignore[misc]
    """Reports each epoch that Tune hears of to the driver, which decides whether the run continues."""

    def __init__(self, driver: Driver, note: Callable[[str], None], watch: Watch) -> None:
        super().__init__()
        self.driver, self.note, self.watch = driver, note, watch
        self.noted: set[str] = set()

    def on_trial_result(self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]) -> str:
        if "result" not in result and "runs" not in result:
            return str(TrialScheduler.CONTINUE)
        jobs = {job.run.key: job for job in jobs_of(trial)}
        messages = json.loads(result["runs"]) if "runs" in result else [{"run": next(iter(jobs)), **result}]
        self.watch.dog.report(trial.trial_id)
        goes_on = False
        for message in messages:
            job = jobs[message["run"]]
            if job.run.key not in self.driver.in_flight.jobs:  # it has ended, and another run of its pack has not
                continue
            note = message.get("note", "")
            line = f"run {job.run.key}, attempt {job.attempt}: {note}"
            if note and line not in self.noted:  # every epoch repeats it
                self.noted.add(line)
                self.note(line)
                self.driver.folder.add_to_log(f"{line}\n")
            goes_on |= self.driver.on_result(job, message)

        waiting = [job for key, job in jobs.items() if key in self.driver.in_flight.jobs]
        if waiting and (overdue := self.watch.dog.overdue(trial.trial_id)):
            self.driver.on_failure(*waiting, reason=overdue, final=True)
            return str(TrialScheduler.STOP)
        if self.driver.stop:
            for job in waiting:
                self.driver.release(job)
        return str(TrialScheduler.CONTINUE if goes_on or (waiting and not self.driver.stop) else TrialScheduler.STOP)

    def on_trial_complete(self, tune_controller: Any, trial: TuneTrial, result: dict[str, Any]) -> None:
        self.driver.on_failure(*jobs_of(trial), reason="its process ended without an answer")

    def on_trial_remove(self, tune_controller: Any, trial: TuneTrial) -> None:
        """Releases the runs of a trial that Tune removed before it began. They are trained later."""
        for job in jobs_of(trial):
            self.driver.release(job)

    def on_trial_error(self, tune_controller: Any, trial: TuneTrial) -> None:
        """Records the failure of a trial's runs with its reason. Only Tune knows why a process was killed."""
        text = Path(trial.error_file).read_text(encoding="utf-8", errors="replace") if trial.error_file else ""
        self.driver.folder.add_to_log(text)
        cause, final = self.watch.killed.pop(trial.trial_id, (reason(text), is_code_error(text)))
        if cause.endswith(UNREACHABLE) and self.watch.is_node_gone(trial):
            cause = cause.replace(UNREACHABLE, LOST)
        jobs = jobs_of(trial)
        alone = len(jobs) == 1  # the runs of a pack are trained again one by one: only one of them may be at fault
        self.driver.on_failure(*jobs, reason=cause, lost=lost(cause), final=alone and final)


WAITING_BYTES = 2**20
"""The memory that Ray reserves for a process that only waits for a worker group. Each process must ask Ray for some
resource, and any share of a core would keep the last group of a full machine waiting. Units: bytes."""


class _LeftError(Exception):
    """The error that ends the wait for Ray if a stop was asked for before a run could begin."""


def run_on_tune(
    driver: Driver,
    first: Job,
    address: str = "local",
    note: Callable[[str], None] = lambda line: None,
    run_hours: float | None = None,
    look: Callable[[], None] = lambda: None,
    busy: Callable[[str], None] = lambda step: None,
) -> None:
    """Runs the jobs of a study on Ray until none is trained and the driver gives no more, or a stop is asked for.

    Ray is used in another thread: it may stand still for a minute, and this thread hears signals meanwhile. If a stop
    comes while Ray starts on this machine, the start is brought to its end first.

    Args:
        driver: The driver of the study.
        first: The first job.
        address: "local" to start a Ray on this machine, or the address of a cluster.
        note: Is called with a line for a person if runs wait for resources, or are trained in another way.
        run_hours: How many hours a run may take; None sets no limit.
        look: Is called about once a second.
        busy: Is called with the step that is done before runs begin, and with "" when that is over.

    Raises: RayError if Ray does not start, or dies; KeyboardInterrupt.
    Cost: 5 s to start Ray here, 0.1 to 0.3 s a run beside its training.
    """
    apart, here = Apart(), LocalRay(socket_folder(), note) if address == "local" else None
    began = threading.Event()

    def work() -> None:
        if here is not None:
            apart.share()  # a start takes seconds; if it is cut short, Ray ends this process a minute later
        with session(address, here, apart, **_ray_settings(address, driver.placement)):
            apart.share()
            began.set()
            busy("")
            resources, in_words = _resources(driver.placement)
            attending = Attending(driver, note, in_words, look, apart.check)
            _tune(driver, first, resources, attending, Watch(run_hours))

    def watch() -> None:
        if driver.stop and not began.is_set():
            raise _LeftError
        if here is not None:
            here.check()

    busy("starting Ray" if here else "waiting for Ray")
    try:
        apart.do(work, watch)
    except _LeftError:
        driver.release(first)
    finally:
        busy("")
        if here is not None and not began.is_set():
            here.leave()


def _ray_settings(address: str, placement: Placement) -> dict[str, Any]:
    """Returns the settings of `ray.init` for a study. A Ray of this machine alone gets its cores and its memory.

    It has a dashboard only for worker groups, because Ray needs one to find the processes that a killed group left.
    """
    os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    compiles = placement.threads + placement.loader_workers  # the loader workers wait while a model is compiled
    env = {"OMP_NUM_THREADS": str(placement.threads), "TORCHINDUCTOR_COMPILE_THREADS": str(compiles)}
    if placement.workers:
        # how often Ray Train checks whether a group has started, failed or ended; messages do not wait for it
        env |= {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2", "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0"}
    settings: dict[str, Any] = {"runtime_env": {"env_vars": env}}
    if address == "local":
        memory = int(usable_gib() * 2**30) + placement.max_concurrent * WAITING_BYTES
        settings |= {"include_dashboard": placement.workers > 0, "num_cpus": cores(), "_memory": memory}
    return settings


def _tune(
    driver: Driver, first: Job, resources: tune.PlacementGroupFactory, attending: Attending, watch: Watch
) -> None:
    """Runs Tune in an open session with Ray until it ends. `resources` are what each trial asks Ray for."""
    placement = driver.placement
    with scratch("locus-tune-") as folder, death_errors_as_actor_errors():
        tune.Tuner(
            tune.with_resources(GroupTrial if placement.workers else AloneTrial, resources),
            tune_config=tune.TuneConfig(
                search_alg=DriverSearcher(driver, first),
                scheduler=JournalScheduler(driver, attending.note, watch),
                num_samples=-1,
                reuse_actors=placement.workers == 0,
                trial_dirname_creator=lambda trial: trial.trial_id,
            ),
            run_config=tune.RunConfig(
                storage_path=str(folder),
                name="runs",
                verbose=0,
                progress_reporter=tune.CLIReporter(),  # the one for notebooks clears what the cell has shown
                callbacks=[watch, attending],
                stop=attending,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()


def _resources(placement: Placement) -> tuple[tune.PlacementGroupFactory, str]:
    """Returns the resources that a run asks Ray for, also in words, such as `2 CPU and 1.6 GiB of memory`."""
    share = 10_000 // placement.runs_per_gpu / 10_000  # Ray counts in parts of 1/10,000, and all runs of a GPU must fit
    gpus = {"GPU": share} if placement.device == "cuda" else {}
    memory = {"memory": placement.run_bytes} if placement.run_bytes else {}
    bundle = {"memory": WAITING_BYTES} if placement.workers else {"CPU": placement.threads, **gpus, **memory}
    parts = [f"{count:g} {name}" for name, count in bundle.items() if name != "memory"]
    if gib := bundle.get("memory", 0) / 2**30:
        parts.append(f"{gib:.2g} GiB of memory")
    return tune.PlacementGroupFactory([bundle]), " and ".join(parts)
