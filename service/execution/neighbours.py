"""The drivers of a home on one machine share it: each trains its part of the runs that fit, and none waits for ever.

Each driver writes into its study's folder how many runs it trains, and reads what the others wrote. On a cluster Ray
shares out the resources, and nobody asks here.
"""

from __future__ import annotations

import json
import socket
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from service.planning.placement import Placement
from service.storage.home import Home

READ_S = 1.0
"""How often the others are read again."""


@dataclass(frozen=True)
class Presence:
    """What a driver tells the others. `since`: when it began, in seconds since 1970; `running`: its runs in flight.

    `fits`: how many runs of its size fit the machine.
    """

    host: str
    since: float
    running: int
    fits: int


class Neighbours:
    """The other drivers of a home on this machine, as one driver sees them. `id`: the study of this driver."""

    def __init__(self, home: Home, id: str) -> None:
        self.home, self.id = home, id
        self._host, self._since = socket.gethostname(), time.time()
        self._told: Presence | None = None
        self._read_at, self._others = 0.0, dict[str, Presence]()

    def room(self, running: int, placement: Placement) -> int:
        """How many runs this driver may train together now, given how many it trains.

        Two drivers get half of the machine each. A driver that has just begun waits until the others have run down to
        their parts, so that all together never need more than there is.
        """
        fits = _fits(placement)
        self._tell(Presence(self._host, self._since, running, fits))
        if time.monotonic() - self._read_at >= READ_S:
            self._others, self._read_at = self._read(), time.monotonic()
        if not self._others:
            return placement.max_concurrent
        taken = sum(one.running / max(one.fits, 1) for one in self._others.values())
        return max(0, min(self.part(placement), int(fits * (1 - taken) + 1e-9)))

    def part(self, placement: Placement) -> int:
        """How many runs this driver trains together in the end: who began earlier gets what cannot be divided."""
        if not self._others:
            return placement.max_concurrent
        count = len(self._others) + 1
        before = sum((one.since, id) < (self._since, self.id) for id, one in self._others.items())
        return min(placement.max_concurrent, _fits(placement) // count + (before < _fits(placement) % count))

    def names(self) -> list[str]:
        """The studies of the other drivers, when they were last read."""
        return sorted(self._others)

    def close(self) -> None:
        """Tells the others that this driver needs nothing any more."""
        self.home.study(self.id).presence.unlink(missing_ok=True)

    def _tell(self, presence: Presence) -> None:
        if presence != self._told:
            path = self.home.study(self.id).presence
            aside = path.with_suffix(".draft")
            aside.write_text(json.dumps(asdict(presence)))
            aside.replace(path)
            self._told = presence

    def _read(self) -> dict[str, Presence]:
        """What the drivers on this machine tell; a killed one leaves its file, but not its lock."""
        found: dict[str, Presence] = {}
        for path in (self.home.root / "studies").glob("*/presence.json"):
            study = self.home.study(path.parent.name)
            if path.parent.name != self.id and study.driven and (told := _presence(path)):
                found[path.parent.name] = told
        return {id: told for id, told in found.items() if told.host == self._host}


def _fits(placement: Placement) -> int:
    return placement.fits or placement.max_concurrent


def _presence(path: Path) -> Presence | None:
    try:
        return Presence(**json.loads(path.read_bytes()))
    except (OSError, ValueError, TypeError):
        return None
