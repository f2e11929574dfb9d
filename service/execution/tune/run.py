"""Lets Ray Tune train the jobs of a driver.

One Tune trial trains one run. The searcher suggests the driver's next job, the scheduler reports each epoch to the
driver before anyone else (`adapters.py`), and the trainable (`trial.py`) trains the job. Tune keeps no state of a
study: what is to be done follows from the journal. Tune serves as a pool of processes that it places on the cluster and
restarts.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from ray import tune

from service.execution.apart import Apart
from service.execution.driver import Driver
from service.execution.machine import cores, memory_gib
from service.execution.tune.adapters import DriverSearcher, JournalScheduler
from service.execution.tune.callbacks import Attending, Nodes, Waiting, Watch
from service.execution.tune.deaths import told_as_dead_actors
from service.execution.tune.local import LocalRay
from service.execution.tune.session import session
from service.execution.tune.trial import AloneTrial, GroupTrial
from service.planning.placement import Placement
from trainables.launch.job import Job
from trainables.launch.scratch import scratch

WAITING_BYTES = 2**20
"""The memory that Ray reserves for the process that only waits for a worker group. Ray wants some resource to be asked
for, and any share of a core would keep the last group of a full machine waiting."""

POLL_S = 0.2
"""How often Ray Train checks whether a group has started, failed or ended. Messages do not wait for it."""


def run_on_tune(
    driver: Driver,
    first: Job,
    address: str = "local",
    note: Callable[[str], None] = lambda line: None,
    run_hours: float | None = None,
    look: Callable[[], None] = lambda: None,
    busy: Callable[[str], None] = lambda words: None,
) -> None:
    """Runs the jobs of a study on Ray until the driver has none to give while none is trained, or is asked to stop.

    `note` is called with a line for a person, where runs wait for resources or are trained in another way. `run_hours`:
    how long a run may take. `look` is called about once a second; `busy` with what is being done before runs begin, and
    with nothing when that is over.
    All of it happens in a thread: Ray may stand still for a minute, and this one hears signals meanwhile.
    Raises: RayError where Ray does not start, or dies; KeyboardInterrupt.
    Cost: 5 s to start Ray here, 0.1 to 0.3 s a run beside its training.
    """
    apart, here = Apart(), LocalRay(note) if address == "local" else None
    began = threading.Event()

    def work() -> None:
        with _ray(address, driver.placement, here, apart):
            apart.share()
            began.set()
            busy("")
            _tune(driver, first, Attending(look, apart.check), note, run_hours)

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


class _LeftError(Exception):
    """A stop that came before a run could begin."""


def _tune(
    driver: Driver, first: Job, attending: Attending, note: Callable[[str], None], run_hours: float | None
) -> None:
    """Trains in the open session."""
    placement = driver.placement
    waiting, watch = Waiting(driver, note, _resources_in_words(placement)), Watch(run_hours)
    nodes = Nodes()
    with scratch("locus-tune-") as folder, told_as_dead_actors():
        tune.Tuner(
            tune.with_resources(GroupTrial if placement.workers else AloneTrial, _resources(placement)),
            tune_config=tune.TuneConfig(
                search_alg=DriverSearcher(driver, first),
                scheduler=JournalScheduler(driver, note, watch, nodes),
                num_samples=-1,
                reuse_actors=placement.workers == 0,
                trial_dirname_creator=lambda trial: trial.trial_id,
            ),
            run_config=tune.RunConfig(
                storage_path=str(folder),
                name="runs",
                verbose=0,
                progress_reporter=tune.CLIReporter(),  # the one for notebooks clears what the cell has shown
                callbacks=[waiting, watch, nodes, attending],
                stop=waiting,
                checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
            ),
        ).fit()


def _resources(placement: Placement) -> tune.PlacementGroupFactory:
    gpus = {"GPU": gpu_share(placement.runs_per_gpu)} if placement.device == "cuda" else {}
    memory = {"memory": placement.run_bytes} if placement.run_bytes else {}
    if placement.workers == 0:
        return tune.PlacementGroupFactory([{"CPU": placement.threads, **gpus, **memory}])
    return tune.PlacementGroupFactory([{"memory": WAITING_BYTES}])


def _resources_in_words(placement: Placement) -> str:
    """What a run asks of Ray, such as `2 CPU and 1.6 GiB of memory`."""
    asked = dict(_resources(placement).required_resources)
    gib = asked.pop("memory", 0) / 2**30
    counts = [f"{count:g} {name}" for name, count in asked.items()]
    return " and ".join([*counts, *([f"{gib:.2g} GiB of memory"] if gib else [])])


def gpu_share(runs: int) -> float:
    """What each of so many runs asks of a GPU. Ray counts in parts of 1/10,000, and so many must fit."""
    return 10_000 // runs / 10_000


@contextlib.contextmanager
def _ray(address: str, placement: Placement, here: LocalRay | None, apart: Apart) -> Iterator[None]:
    """A Ray session for a study: a new local one, or the cluster at hand.

    A local one has a dashboard only for worker groups, because Ray finds what a killed group left through it.
    """
    os.environ.setdefault("TUNE_DISABLE_SIGINT_HANDLER", "1")
    os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", "1")
    os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
    env = {"OMP_NUM_THREADS": str(placement.threads), "TORCHINDUCTOR_COMPILE_THREADS": str(placement.threads)}
    if placement.workers:
        env |= {"RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": str(POLL_S), "RAY_TRAIN_ENABLE_PREEMPTION_WATCHER": "0"}
    local: dict[str, Any] = {}
    if address == "local":
        memory = int(memory_gib() * 2**30) + placement.max_concurrent * WAITING_BYTES
        local = {"include_dashboard": placement.workers > 0, "num_cpus": cores(), "_memory": memory}
    with session(address, here, apart, runtime_env={"env_vars": env}, **local):
        yield
