"""Says what a driver shares with other drivers of its home: the machine, and runs that both want."""

from __future__ import annotations

from collections.abc import Callable

from search_spaces.words import plural
from service.execution.driver import Driver


class SharingNotes:
    """Notes a sentence where a driver begins to share the machine, or ends to, and once where it shares runs."""

    def __init__(self, driver: Driver, note: Callable[[str], None]) -> None:
        self.driver, self.note = driver, note
        self._machine = ""
        self._runs = False

    def look(self) -> None:
        """Says what has changed since the last look."""
        machine = self._shared()
        if machine != self._machine:
            self.note(machine or "no other study uses this machine any more")
            self._machine = machine
        count = len(self.driver.in_flight.elsewhere)
        if count and not self._runs:
            self.note(f"another study of this home trains {plural(count, 'run')} of this one: none is trained twice")
            self._runs = True

    def _shared(self) -> str:
        if self.driver.neighbours is None or not (others := self.driver.neighbours.names()):
            return ""
        part, most = self.driver.in_flight.part(self.driver.placement), self.driver.placement.max_concurrent
        return f"this machine is shared with {', '.join(others)}: {part} of {plural(most, 'concurrent run')} here"
