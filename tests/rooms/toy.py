"""An engine without Ray or torch: it trains what a driver gives by formula, in an order that chance decides.

It keeps what a real worker keeps (checkpoints in the attempt's folder, weights at the end) and can be cut like a killed
process: nothing is closed, the journal ends where it ends.
"""

from __future__ import annotations

import json
import math
import random
import zipfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

from search_spaces.study import Edition
from service.execution.driver import FINISHED, Driver
from service.planning.placement import Placement
from service.storage import editions
from service.storage.home import Home
from service.storage.journal import Journal
from trainables.launch.job import Job
from trainables.launch.work_files import local_files
from trainables.recipe import Recipe, Run
from trainables.recipe.outcome import Diverged, Measurement
from trainables.remote_files import RemoteFolder


class CutError(Exception):
    """The driver was killed."""


def reach(recipe: Recipe) -> float:
    """The final score of a recipe: a hill over log gamma."""
    gamma = recipe.encoding.gamma if recipe.encoding.kind == "fourier" else 0.3
    return 0.5 + 0.49 * math.exp(-((math.log(gamma / 2.1) / 1.5) ** 2))


def measure(run: Run, epoch: int) -> Measurement:
    """What an epoch shows: it rises to `reach`, with noise and a time that the seed decides."""
    epochs = run.recipe.optimizer.epochs
    chance = random.Random(f"{run.key} {epoch}")
    noise = chance.gauss(0, 0.01)
    value = 0.5 + (reach(run.recipe) - 0.5) * (1 - math.exp(-3 * epoch / epochs)) + noise
    values = {"train/loss": 1 - value, "val/accuracy": value, "time/epoch_s": chance.random()}
    if epoch == epochs:
        values["test/accuracy"] = value - 0.01
    return Measurement(epoch=epoch, values=values)


def cliff(run: Run) -> int | None:
    """The epoch in which a run diverges: the second, far beyond the grid."""
    return 2 if run.recipe.encoding.kind == "fourier" and run.recipe.encoding.gamma > 25 else None


class Toy:
    """Trains a driver's jobs. `fails(job, epoch)` says where a worker dies; `trained` counts epochs by key."""

    def __init__(
        self,
        driver: Driver,
        chance: random.Random,
        max_concurrent: int = 1,
        fails: Callable[[Job, int], bool] = lambda job, epoch: False,
        cut: int | None = None,
    ) -> None:
        self.driver, self.chance, self.max_concurrent, self.fails, self.cut = driver, chance, max_concurrent, fails, cut
        self.trained: Counter[tuple[str, int]] = Counter()
        self.workers: dict[str, tuple[Job, Generator[Measurement | Diverged]]] = {}
        self.order: list[Run] = []

    def drive(self) -> Toy:
        """Until nothing is left. Fails where the driver neither ends nor gives, or gives a key twice at once."""
        with closing(self):
            while True:
                finished = self._fill()
                if not self.workers:
                    assert finished, "the driver hangs: nothing in flight, nothing to give, not finished"
                    return self
                self._advance(self.chance.choice(sorted(self.workers)))

    def close(self) -> None:
        """Ends the workers that are left, as those of a dead driver end: what they have at a storage is sent there."""
        with ExitStack() as ends:
            while self.workers:
                _, (_, epochs) = self.workers.popitem()
                ends.enter_context(closing(epochs))

    def _fill(self) -> bool:
        while len(self.workers) < self.max_concurrent:
            job = self.driver.next()
            if not isinstance(job, Job):
                return job is FINISHED
            assert job.run.key not in self.workers, "one key twice at once"
            assert all(map(_is_there, job.parents.values())), "a child before its parent's weights"
            self.order.append(job.run)
            self.workers[job.run.key] = (job, self._train(job))
        return False

    def _train(self, job: Job) -> Generator[Measurement | Diverged]:
        with local_files(job) as (local, sender), closing(self._epochs(local)) as epochs:
            for said in epochs:
                if sender is not None and (isinstance(said, Diverged) or said.epoch == job.run.recipe.optimizer.epochs):
                    sender.last()
                yield said

    def _epochs(self, job: Job) -> Generator[Measurement | Diverged]:
        checkpoint = Path(job.folder) / "checkpoint.pt"
        done = int(checkpoint.read_text()) if checkpoint.exists() else 0
        if done == job.run.recipe.optimizer.epochs:
            write_weights(Path(job.folder) / "weights.pt", job.run.key)
        yield from (measure(job.run, epoch) for epoch in range(1, done + 1))
        for epoch in range(done + 1, job.run.recipe.optimizer.epochs + 1):
            if self.fails(job, epoch):
                raise RuntimeError("the worker died")
            self.trained[job.run.key, epoch] += 1
            if epoch == cliff(job.run):
                yield Diverged(epoch=epoch, reason="train/loss not finite")
                return
            if epoch == job.run.recipe.optimizer.epochs:
                write_weights(Path(job.folder) / "weights.pt", job.run.key)
            if self.chance.random() < 0.6 or self.driver.stop:
                checkpoint.write_text(str(epoch))
            yield measure(job.run, epoch)

    def _advance(self, key: str) -> None:
        job, epochs = self.workers[key]
        try:
            said = next(epochs, None)
        except RuntimeError as error:
            self.driver.on_failure(job, reason=str(error))
            said = None
        if said is not None and self.driver.on_result(job, message(said, job)):
            self._tick()
            return
        del self.workers[key]
        epochs.close()
        if said is not None and self.driver.stop:
            self.driver.release(job)
        assert key not in self.driver.in_flight.jobs
        self._tick()

    def _tick(self) -> None:
        if self.cut is not None:
            self.cut -= 1
            if self.cut <= 0:
                raise CutError


def _is_there(file: str) -> bool:
    folder, _, name = file.rpartition("/")
    return RemoteFolder(folder).has(name)


def write_weights(path: Path, key: str) -> None:
    """A file as torch writes it, a zip archive; what it holds is never read."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", 50 * key)


def message(said: Measurement | Diverged, job: Job, **environment) -> dict:
    return {
        "kind": "diverged" if isinstance(said, Diverged) else "measured",
        "result": said.model_dump_json(),
        "environment": json.dumps({"toy": 1} | environment),
        "epoch": said.epoch,
    }


@contextmanager
def driving(home: Home, edition: Edition, placement: Placement | None = None, **options) -> Iterator[Driver]:
    """A driver at work on an edition, as `service.run_study` sets it up."""
    folder = home.study(edition.id)
    with Journal(folder.journal, folder.lock) as journal:
        editions.save_edition(edition, home)
        driver = Driver(edition, home, journal, placement or Placement(max_concurrent=16), **options)
        driver.begin()
        try:
            yield driver
        finally:
            driver.in_flight.close()


def conduct(home: Home, edition: Edition, seed: int = 0, *, options: dict | None = None, **toy) -> Toy | None:
    """One command: what is missing is trained; None where it was cut."""
    with driving(home, edition, **(options or {})) as driver:
        try:
            return Toy(driver, random.Random(seed), **toy).drive()
        except CutError:
            return None
