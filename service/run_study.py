"""The one story of a study: refuse what can be refused, say the plan, train what is missing, tell what was found."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from search_spaces.study import Edition
from service.execution.driver import Driver, Stop
from service.execution.signals import CtrlC
from service.planning.estimate import plan
from service.planning.placement import Machine, place
from service.planning.run_options import Orders
from service.results import Result
from service.storage import editions
from service.storage.commit import commit
from service.storage.home import Home
from service.storage.journal import Journal
from service.terminal.live import Progress
from trainables.launch.job import Task
from trainables.spec import LocusError

if TYPE_CHECKING:
    from service.tracking.rows import MlflowStatus
    from service.tracking.sync import MlflowSync


def conduct(edition: Edition, orders: Orders, progress: Progress) -> Result:
    """Runs what is missing of an edition that `editions.settle` gave; the result, also of what was there already.

    Raises: LocusError before anything is written, for what cannot be; KeyboardInterrupt where a person stopped it.
    """
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # MLflow reads both when imported
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    from service.tracking.sync import MlflowSync, check

    home = Home.find(orders.home)
    tracking = orders.tracking or os.environ.get("MLFLOW_TRACKING_URI")
    placement = place(
        machine(orders), max_concurrent=orders.max_concurrent, threads=orders.threads, workers=orders.workers
    )
    folder = home.study(edition.id)
    os.environ.setdefault("LOCUS_COMMIT", commit())
    check(home, tracking)
    stop = Stop(deadline=time.time() + orders.hours * 3600 if orders.hours else None)
    ctrl_c = CtrlC(stop, progress.note)
    with ctrl_c.heard(), Journal(folder.journal, folder.lock) as journal:
        editions.keep(edition, home)
        driver = Driver(edition, home, journal, placement, adopt=orders.adopt, stop=stop)
        sync = MlflowSync(edition, home, lambda recipe: driver.codes(recipe).digest, tracking)
        driver.listeners += [progress.add, sync.add]
        sync.open()
        if journal.torn:
            progress.note("the journal's last line was torn by a crash, and dropped")
        ended: MlflowStatus = "FAILED"
        try:
            _train(driver, sync, progress, ctrl_c, orders.address)
            ended = "KILLED" if stop else "FINISHED"
        except KeyboardInterrupt:
            ended = "KILLED"
        finally:
            _close(driver, sync, progress, ended)
        result = Result(home, edition, driver.history, driver.outcomes, sync.parent_url or tracking or home.tracking)
    if stop.asked:
        raise KeyboardInterrupt
    return result


def _train(driver: Driver, sync: MlflowSync, progress: Progress, ctrl_c: CtrlC, address: str) -> None:
    """Says the plan, and trains what is missing; with nothing missing neither Ray nor torch is started."""
    driver.begin()
    planned = plan(driver.history, driver.outcomes, driver.placement, adopt=driver.adopt)
    for line in planned.lines(driver.edition.id):
        progress.note(line)
    if planned.absent:
        raise LocusError("nothing was trained: a file of weights is not there")
    if url := sync.parent_url:
        progress.note(f"MLflow: {url}")
    progress.begin(driver.history)
    first = driver.next()
    if isinstance(first, Task):
        from service.execution import (
            tune as cluster,  # to its end: what an interrupted import of Ray leaves behind does not shut down
        )

        with ctrl_c.open():
            if not driver.stop:
                cluster.conduct(driver, first, address)


def _close(driver: Driver, sync: MlflowSync, progress: Progress, ended: MlflowStatus) -> None:
    """Leaves the last view standing, and closes the connection to MLflow whatever happens."""
    from service.tracking.rows import Conclusion

    progress.end()
    report: Path | None = None
    found = Conclusion()
    try:
        result = Result(driver.home, driver.edition, driver.history, driver.outcomes)
        report = result.report().parent if result.rows else None
        found = Conclusion(result.headline, tuple(map(str, result.claims)))
    finally:
        warning = sync.close(ended, report, found)
        if warning:
            progress.note(warning)


def machine(orders: Orders) -> Machine:
    """What the runs may use: this machine, or the cluster at hand."""
    if orders.address == "local":
        return Machine(cores=len(os.sched_getaffinity(0)), gpus=_gpus())
    from service.execution import tune as cluster

    return cluster.machine(orders.address, orders.threads)


def _gpus() -> int:
    """The GPUs of this machine, counted without torch."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return len([one for one in visible.split(",") if one.strip()])
    return len([name for name in os.listdir("/dev") if name.startswith("nvidia") and name[6:].isdigit()])
