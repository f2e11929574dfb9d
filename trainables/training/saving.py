"""When a run saves what it needs to resume, and the thread that writes it.

Checkpoints take a bounded share of a run's time: the next one waits at least 50 times as long as the last one took.
Training stands still only while a checkpoint is copied in memory; writing to disk happens beside it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trainables.recipe.outcome import Measurement
from trainables.training.checkpoint import packed, write_whole

CHECKPOINT_S = 20.0
"""Seconds between two checkpoints, at least."""

DAMAGED = ".damaged"
"""The suffix of a checkpoint that cannot be used."""

SHARE = 0.02
"""The greatest share of a run's time that its checkpoints take."""


@dataclass
class Progress:
    """How far a run is: the measured epochs, and what it has learned of the next one.

    `steps`, `loss` and `seconds` are of an epoch that has begun; the loss is summed over images and workers. `learned`
    is what a whole epoch returned that is not evaluated yet. Units: seconds.
    """

    curve: list[Measurement] = field(default_factory=list)
    learned: dict[str, float] = field(default_factory=dict)
    steps: int = 0
    loss: float = 0.0
    seconds: float = 0.0

    def plain(self) -> dict[str, Any]:
        return {**vars(self), "curve": [measurement.plain() for measurement in self.curve]}

    @classmethod
    def read(cls, plain: dict[str, Any]) -> Progress:
        return cls(**{**plain, "curve": [Measurement.read(measured) for measured in plain["curve"]]})


class Saver:
    """Writes one file again and again, in a thread of its own. `clock`: seconds, from any start.

    It belongs to the thread that makes it. In another one it is Python's garbage collector that ends a training which
    nobody has closed: it may be the thread that writes, which would wait for itself, or one that others wait for.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.path, self._clock = path, clock
        self._owner = threading.current_thread()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="checkpoint")
        self._writing: Future[float] | None = None
        self._begun = clock()
        self._took = 0.0

    @property
    def is_mine(self) -> bool:
        """Whether this thread is its owner, and so may save and wait."""
        return threading.current_thread() is self._owner

    @property
    def since(self) -> float:
        """Seconds since the last checkpoint, or since the run began."""
        return self._clock() - self._begun

    @property
    def due(self) -> bool:
        """Whether another checkpoint is worth its time. While one is written, none is."""
        if self._writing is not None and not self._writing.done():
            return False
        self.wait()
        return self.since >= max(CHECKPOINT_S, self._took / SHARE)

    def save(self, state: dict[str, Any]) -> None:
        """Copies tensors and plain values, and begins to write them. Raises: as `wait` does."""
        self.wait()
        begun = self._clock()
        content = packed(state)
        copied = self._clock()
        self._took = copied - begun
        self._begun = copied
        self._writing = self._thread.submit(self._write, content)

    def wait(self) -> None:
        """Waits until the last checkpoint is on disk. Raises: OSError if it could not be written."""
        writing, self._writing = self._writing, None
        if writing is not None:
            self._took += writing.result()

    def set_aside(self) -> None:
        """Renames a checkpoint that cannot be used, where there is one; another worker may have done so."""
        with suppress(FileNotFoundError):
            self.path.replace(self.path.with_suffix(DAMAGED))

    def close(self) -> None:
        """Waits as `wait` does, and ends the thread; in another thread than its owner's without waiting."""
        try:
            if self.is_mine:
                self.wait()
        finally:
            self._thread.shutdown(wait=self.is_mine)

    def _write(self, content: bytes) -> float:
        begun = self._clock()
        write_whole(self.path, content)
        return self._clock() - begun
