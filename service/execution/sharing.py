"""What a driver says and hears while it runs: what it shares with other drivers, and what other commands ask of it."""

from __future__ import annotations

from collections.abc import Callable

from search_spaces.words import plural
from service.execution.driver import Driver


class Attention:
    """Looks, about once a second, at other drivers of the home and at requests of other commands."""

    def __init__(self, driver: Driver, note: Callable[[str], None]) -> None:
        self.driver, self.note = driver, note
        self._machine = ""
        self._runs = False

    def look(self) -> None:
        """Notes what has changed, and lets the driver do what is asked.

        Raises: KeyboardInterrupt where all runs are to stop now, TakenOverError where another driver has the study.
        """
        self.driver.journal.look()
        machine = self._shared()
        if machine != self._machine:
            self.note(machine or "no other study uses this machine any more")
            self._machine = machine
        count = len(self.driver.in_flight.elsewhere)
        if count and not self._runs:
            runs = plural(count, "run")
            self.note(f"another study of this home trains {runs} of this one; its answers are used here")
            self._runs = True
        if asked := self.driver.heed():
            said = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in asked.given().items())
            self.note(f"asked by another command: {said}")
            if asked.stop == "now":
                raise KeyboardInterrupt

    def _shared(self) -> str:
        if self.driver.neighbours is None or not (others := self.driver.neighbours.names()):
            return ""
        most = self.driver.placement.max_concurrent
        here = f"at most {plural(self.driver.in_flight.share(most), 'concurrent run')} here"
        return f"this machine is shared with {', '.join(others)}: {here}"
