"""Failures that end a study: a disk that cannot be written, a home that is gone, runs that all fail alike."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from service.storage.leases import TakenOverError
from trainables.spec import LocusError

ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EROFS)
"""What the system says of a full disk, a used-up quota and a file system that became read-only."""
FREE = "{:.0f} MiB are free there"


class UnwritableError(LocusError):
    """A disk that is full or became read-only while a study ran."""


class HomeGoneError(LocusError):
    """A home that was removed, moved or unmounted while a study ran."""

    exit_code = 1


@contextmanager
def disk_errors_in_a_sentence(folder: Path) -> Iterator[None]:
    """Replaces an error of a full or read-only disk or of a home that is gone, or one that followed from it.

    `folder`: the home, where everything is written. Raises: UnwritableError, HomeGoneError.
    """
    try:
        yield
    except Exception as error:
        every = causes(error)
        if not folder.exists() and any(isinstance(cause, FileNotFoundError | TakenOverError) for cause in every):
            raise HomeGoneError(
                f"{folder} must be there while a study runs, got no folder: it was removed, moved or unmounted; where "
                "it is there again, the same command goes on"
            ) from error
        disk_errors = (cause for cause in every if isinstance(cause, OSError) and cause.errno in ERRORS)
        if (disk_error := next(disk_errors, None)) is None:
            raise
        where = Path(disk_error.filename or folder)
        where = folder if where.is_relative_to(folder) else where  # whichever file was written first
        free = ""
        with suppress(OSError):  # a file that was never made
            free = f"; {FREE.format(shutil.disk_usage(where).free / 2**20)}"
        why = os.strerror(disk_error.errno or 0)
        again = "what was measured is kept, and the same command goes on once there is room"
        raise UnwritableError(f"{where} must be on a disk that can be written, got: {why}{free}; {again}") from error


def causes(error: BaseException | None) -> list[BaseException]:
    """Returns an error and those before it, the first one first."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:
        chain.append(error)
        error = error.__cause__ or error.__context__
    return chain[::-1]


OVERDUE = "it took longer than --run-hours"
"""How the reason of a run begins whose own time is over."""
SAME = 10
"""So many failures for one reason, one after another, end a study."""


class RepeatedFailure:
    """Counts failures for the same reason. `reason`: that of `SAME` failures in a row, or None.

    The count goes back to zero when a run ends with an answer. If nodes were lost, it also goes back to zero when an
    epoch is trained: a study on machines that are taken away now and then may go on while it makes progress.
    """

    def __init__(self) -> None:
        self._reason, self._count, self._lost = "", 0, False

    @property
    def reason(self) -> str | None:
        """Why the study must end."""
        return self._reason if self._count >= SAME else None

    def failed(self, reason: str, *, lost: bool) -> None:
        """Counts a failed run. `lost`: with its node. A run whose own time is over says nothing about the next."""
        if reason.startswith(OVERDUE):
            return
        self._count = self._count + 1 if reason == self._reason else 1
        self._reason, self._lost = reason, lost

    def measured(self) -> None:
        """Notes that an epoch was trained."""
        if self._lost:
            self._count = 0

    def answered(self) -> None:
        """Notes that a run has its answer."""
        self._count = 0
