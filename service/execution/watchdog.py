"""Watches the runs that Ray Tune trains: whether they begin and report, how long each takes, on which node it died.

A sign of life is a report, or a new checkpoint inside an epoch. Only time in which the driver itself was awake counts:
if a laptop slept, or the driver waited for a disk, this time is not added to any run.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import ray
from ray import tune
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.tune.experiment import Trial as TuneTrial

from service.execution.driver import OVERDUE, Driver
from service.execution.other_drivers import checkpoint_time
from service.execution.ray_session import replaced
from trainables.launch.job import Job

SILENT_S = 300.0
"""How long every run may be without a sign of life. Units: seconds."""
PAUSES = 10
"""A run may also be silent for so many times its longest pause between two signs of life."""
FIRST_S = 3600.0
"""How long a run may be silent before its first sign of life: it imports torch, decodes images, and trains an epoch.
Units: seconds."""
AWAKE_S = 1.0
"""How much time counts at most between two looks. Ray Tune looks ten times a second. Units: seconds."""


@dataclass
class _WatchedRun:
    """When a run began and was last seen, its count of signs of life, its longest pause, and its last sign.

    Units: seconds in which the driver was awake.
    """

    begun: float
    seen: float
    signs: int = 0
    longest: float = 0.0
    sign: object = None


class Watchdog:
    """Watches runs by any name. `run_hours` is how long a run may take; None sets no limit. `clock` returns seconds.

    Call `look` often, `begin` and `end` for each run, `report` when it reports, and `sign` with the time of its newest
    checkpoint, or another value whose change is a sign of life. `overdue` and `silent` return the reason why a run must
    end, or None.
    """

    def __init__(self, run_hours: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self.run_hours, self._clock = run_hours, clock
        self._looked = clock()
        self._awake = 0.0
        self._runs: dict[str, _WatchedRun] = {}

    def look(self) -> None:
        now = self._clock()
        self._awake += min(now - self._looked, AWAKE_S)
        self._looked = now

    def begin(self, name: str, sign: object = None) -> None:
        self._runs[name] = _WatchedRun(self._awake, self._awake, sign=sign)

    def end(self, name: str) -> None:
        self._runs.pop(name, None)

    def report(self, name: str) -> None:
        if run := self._runs.get(name):
            pause, run.seen = self._awake - run.seen, self._awake
            run.longest = pause if run.signs < 2 else max(run.longest, pause)  # the start is longer than an epoch
            run.signs += 1

    def sign(self, name: str, sign: object) -> None:
        run = self._runs.get(name)
        if run is not None and sign is not None and sign != run.sign:
            run.sign = sign
            self.report(name)

    def overdue(self, name: str) -> str | None:
        """Returns the reason why a run must end at its next report, because it took too long; None if it may go on."""
        run = self._runs.get(name)
        if run is None or self.run_hours is None or self._awake - run.begun < self.run_hours * 3600:
            return None
        return f"{OVERDUE} {self.run_hours:g}; the same command continues it"

    def silent(self, name: str) -> str | None:
        """Returns the reason why a run must be killed, because it no longer reports; None if it may go on."""
        run = self._runs.get(name)
        if run is None:
            return None
        silence = self._awake - run.seen
        if (overdue := self.overdue(name)) and silence >= SILENT_S:
            return overdue
        if silence < (max(SILENT_S, PAUSES * run.longest) if run.signs else FIRST_S):
            return None
        times = [f"{s / 60:.0f} min" if s >= 60 else f"{s:.0f} s" for s in (silence, run.longest)]
        before = f"and {times[1]} at most before" if run.signs else "since its start"
        return f"it gave no sign of life for {times[0]}, {before}: it was killed"


ANSWER_S = 2.0
"""How long a node may take to accept a connection. Units: seconds."""


@contextmanager
def death_errors_as_actor_errors() -> Iterator[None]:
    """Lets Tune take every death of a process within the block for the death of an actor: the error of one run.

    Tune knows two errors: an actor died, or its code raised. Any other, such as that Ray killed a process because its
    node ran out of memory, would end Tune, and all runs with it.
    """
    of_tune = RayActorManager._actor_task_failed

    def failed(manager: Any, tracked_actor_task: Any, exception: Exception) -> None:
        is_unknown = isinstance(exception, RayError) and not isinstance(exception, RayActorError | RayTaskError)
        of_tune(manager, tracked_actor_task, RayActorError(error_msg=str(exception)) if is_unknown else exception)

    with replaced(RayActorManager, _actor_task_failed=failed):
        yield


PATIENCE_S = 30.0
"""After how long a note says that runs wait for resources. Units: seconds."""

REQUESTS_S = 1.0
"""The time between two looks of the driver for requests of other commands. Units: seconds."""

SIGNS_S = 10.0
"""The time between two looks at the checkpoints of runs. Units: seconds."""
SLOW_S = 2.0
"""How long such a look may take. Checkpoints that it does not reach must wait for the next look. Units: seconds."""


class Unsaved:
    """An object that Tune saves and whose state is never read again: a study resumes from its journal."""

    def __getstate__(self) -> dict[str, Any]:
        return {}


class Attending(Unsaved, tune.Callback, tune.Stopper):  # type: ignore[misc]
    """Calls `check` at each event and `look` about once a second, and notes if all runs in flight wait for resources.

    If a stop is asked for meanwhile, these runs end. Tune itself would wait for ever, because a run that has not begun
    makes no report at which it could end. Raises: what `check` and `look` raise.
    """

    def __init__(
        self,
        driver: Driver,
        note: Callable[[str], None],
        resources: str,
        look: Callable[[], None],
        check: Callable[[], None],
    ) -> None:
        self.driver, self.note, self.resources, self.look, self.check = driver, note, resources, look, check
        self._waits_since: float | None = None
        self._noted = False
        self._looked_at = 0.0

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        """Does all of this. Tune calls it after each event, and at least ten times a second."""
        now = time.monotonic()
        if {trial.status for trial in trials if not trial.is_finished()} != {TuneTrial.PENDING}:
            self._waits_since, self._noted = None, False
        elif self._waits_since is None:
            self._waits_since = now
        elif not self._noted and now - self._waits_since >= PATIENCE_S:
            self._noted = True
            reason = f"each asks Ray for {self.resources}, which may not be free"
            self.note(f"no run has begun for {PATIENCE_S:.0f} s: {reason}; Ctrl-C ends the study")
        self.check()
        if now - self._looked_at >= REQUESTS_S:
            self._looked_at = now
            self.look()

    def stop_all(self) -> bool:
        """Returns whether a stop is asked for and none of the runs in flight has begun: then Tune forgets them."""
        return bool(self.driver.stop) and self._waits_since is not None

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False


class Watch(Unsaved, tune.Callback):  # type: ignore[misc]
    """Kills the processes of runs that no longer report.

    `killed` holds, by trial, the reason and whether another attempt is of no use. The object remembers which nodes were
    alive when each run began: where Ray does not explain the death of a process, its node may be dead.
    """

    def __init__(self, run_hours: float | None) -> None:
        self.dog = Watchdog(run_hours)
        self.killed: dict[str, tuple[str, bool]] = {}
        self._live: dict[str, tuple[TuneTrial, str]] = {}
        self._nodes: dict[str, set[str]] = {}
        self._signs_at = 0.0

    def on_trial_start(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        folder = jobs_of(trial)[0].folder
        self._live[trial.trial_id] = trial, folder
        self._nodes[trial.trial_id] = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
        self.dog.begin(trial.trial_id, checkpoint_time(folder))

    def on_trial_complete(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        self._nodes.pop(trial.trial_id, None)
        self._live.pop(trial.trial_id, None)
        self.dog.end(trial.trial_id)

    def on_trial_error(self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any) -> None:
        self._live.pop(trial.trial_id, None)  # its nodes are asked for by the scheduler
        self.dog.end(trial.trial_id)
        if (job := jobs_of(trial)[0]).workers:
            from trainables.launch.group import free

            free(job)

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        self.dog.look()
        if (now := time.monotonic()) - self._signs_at >= SIGNS_S:
            self._signs_at = now
            for name, (_, folder) in self._live.items():
                self.dog.sign(name, checkpoint_time(folder))
                if time.monotonic() - now > SLOW_S:  # a storage that stands still
                    break
        for name, (trial, _) in self._live.items():
            if name not in self.killed and (why := self.dog.silent(name)):
                self.killed[name] = why, self.dog.overdue(name) is not None
                ray.kill(trial.temporary_state.ray_actor)

    def is_node_gone(self, trial: TuneTrial) -> bool:
        """Returns whether a node that was alive when a run began is dead, is silent, or was replaced at its address.

        Ray itself notices a death after some 20 s. A node that was started again answers in place of the dead one.
        """
        before = self._nodes.pop(trial.trial_id, set())
        nodes = [((node["NodeManagerAddress"], node["NodeManagerPort"]), node) for node in ray.nodes()]
        new = {address for address, node in nodes if node["Alive"] and node["NodeID"] not in before}
        for address, node in nodes:
            if node["NodeID"] not in before:
                continue
            if not node["Alive"] or address in new:
                return True
            try:
                socket.create_connection(address, ANSWER_S).close()
            except OSError:
                return True
        return False


def jobs_of(trial: TuneTrial) -> list[Job]:
    """Returns all jobs that a trial of Tune trains."""
    return [_job(json.dumps(job)) for job in (trial.config["job"], *trial.config.get("others", []))]


@lru_cache(maxsize=1024)
def _job(text: str) -> Job:
    """Returns the job of a text of JSON. It is read once: this may read files of the user, which may be gone later."""
    return Job.read_text(text)
