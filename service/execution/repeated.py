"""Ends a study whose runs all fail alike: a full disk or a broken GPU would fail each of a thousand runs."""

from __future__ import annotations

from service.execution.tune.watchdog import OVERDUE

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
        """A run has failed. `lost`: with its node. A run whose own time is over says nothing about the next."""
        if reason.startswith(OVERDUE):
            return
        self._count = self._count + 1 if reason == self._reason else 1
        self._reason, self._lost = reason, lost

    def measured(self) -> None:
        """An epoch was trained."""
        if self._lost:
            self._count = 0

    def answered(self) -> None:
        """A run has its answer."""
        self._count = 0
