"""The one story of a study: refuse what can be refused, say the plan, train what is missing, tell what was found."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from search_spaces.study import Edition
from service import editions
from service.driver import FINISHED, Driver, Stop
from service.home import Home
from service.journal import Journal
from service.orders import Orders
from service.placement import Machine, Placement, place
from service.plan import plan
from service.progress import Progress
from service.results import Result

if TYPE_CHECKING:
    from service.mirror import Mirror

STOPPING = "stopping after this epoch, press again to stop now"


def conduct(edition: Edition, orders: Orders, progress: Progress) -> Result:
    """Runs what is missing of an edition that `editions.settle` gave; the result, also of what was there already.

    Raises: LocusError before anything is written, for what cannot be; KeyboardInterrupt where a person stopped it.
    """
    from service.mirror import Mirror

    home = Home.find(orders.home)
    tracking = orders.tracking or os.environ.get("MLFLOW_TRACKING_URI")
    placement = place(machine(orders), at_once=orders.at_once, threads=orders.threads, workers=orders.workers)
    folder = home.study(edition.id)
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    Mirror(edition, home, _no_code, tracking).check()
    stop = Stop(deadline=time.time() + orders.hours * 3600 if orders.hours else None)
    with Journal(folder.journal, folder.lock) as journal:
        editions.keep(edition, home)
        driver = Driver(edition, home, journal, placement, adopt=orders.adopt, stop=stop)
        mirror = Mirror(edition, home, lambda recipe: driver.codes(recipe).digest, tracking)
        driver.listeners += [progress.hear, mirror.tell]
        mirror.open()
        if journal.torn:
            progress.note("the journal's last line was torn by a crash, and dropped")
        with _ctrl_c(stop, progress):
            _train(driver, mirror, progress, orders)
        result = Result(home, edition, driver.history, driver.outcomes, tracking)
    if stop.asked:
        raise KeyboardInterrupt
    return result


def _train(driver: Driver, mirror: Mirror, progress: Progress, orders: Orders) -> None:
    """Trains what is missing, and closes the shop window whatever happens."""
    ended = "FAILED"
    try:
        driver.begin()
        first = driver.next()
        for line in plan(driver.history, driver.outcomes, driver.placement).lines(driver.edition.id):
            progress.note(line)
        if mirror.tracking and (url := mirror.parent_url):
            progress.note(f"MLflow: {url}")
        progress.begin(driver.history)
        if first is not FINISHED and first is not None:
            from service import cluster

            cluster.conduct(driver, first, orders.address)
        ended = "KILLED" if driver.stop else "FINISHED"
    except KeyboardInterrupt:
        driver.stop.asked, ended = True, "KILLED"
    finally:
        progress.end()
        result = Result(driver.home, driver.edition, driver.history, driver.outcomes)
        report = result.report().parent if result.rows else None
        warning = mirror.close(ended, report)  # type: ignore[arg-type]
        if warning:
            progress.note(warning)


def machine(orders: Orders) -> Machine:
    """What the runs may use: this machine, or the cluster at hand."""
    if orders.address == "local":
        return Machine(cores=len(os.sched_getaffinity(0)), gpus=_gpus())
    from service import cluster

    return cluster.machine(orders.address)


def _gpus() -> int:
    """The GPUs of this machine, counted without torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([one for one in visible.split(",") if one.strip()])
    return len([name for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()])


@contextmanager
def _ctrl_c(stop: Stop, progress: Progress) -> Iterator[None]:
    """Ctrl-C once sets the flag; twice, it interrupts. Off the main thread nothing is caught."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def caught(*_: object) -> None:
        if stop.asked:
            raise KeyboardInterrupt
        stop.asked = True
        progress.note(STOPPING)

    before = signal.signal(signal.SIGINT, caught)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _no_code(_: object) -> str:
    return ""


__all__ = ["Placement", "conduct", "machine"]
