"""The journal of a study at a place without appending: numbered segments, sent again while they grow.

Each driver has a number, higher than all before it (`lease.py`), and sends the whole journal under its own number
first, its first segment last. Readers take the highest number that has a first segment, and no other. So a driver that
dies while it begins changes nothing, and what a driver still sends after another one took its study over counts for
nothing.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from trainables.remote_files import RemoteFolder, StorageError

SEGMENT = 2**20
"""The bytes of a segment. The last one is sent again each time, so it must be small."""
TRIES = 5
"""How often a journal is read again that was removed while it was read."""


def sent_journal(remote: RemoteFolder) -> bytes | None:
    """The whole lines of the journal that was sent last; None where none was. Raises: StorageError."""
    for _ in range(TRIES):
        names = remote.names()
        begun = [name for name in names if name.endswith(f"/{_segment(0)}")]
        if not begun:
            return None
        number = max(begun).partition("/")[0]
        parts = [remote.read(name) for name in names if name.startswith(f"{number}/")]
        whole = b"".join(part for part in parts if part is not None)
        if None not in parts:  # else a driver that took over has removed this copy meanwhile, and sent its own
            return whole[: whole.rfind(b"\n") + 1]
    raise StorageError(f"{remote.uri} changed {TRIES} times while the journal was read; try again")


class JournalCopy:
    """Sends what a journal has gained. `remote`: the folder of all copies of this journal.

    `number`: the driver's, from its lease. Units: `segment` in bytes.
    """

    def __init__(self, journal: Path, remote: RemoteFolder, number: int, segment: int = SEGMENT) -> None:
        self._journal, self._remote, self._number, self._segment = journal, remote, number, segment
        self._sent = 0

    def send(self, patience: float) -> None:
        """Sends the segments that have changed, in their order. `patience`: as `RemoteFolder` has it, in seconds.

        Raises: StorageError.
        """
        if not self._journal.exists():
            return
        with self._journal.open("rb") as file:
            first = self._sent // self._segment
            file.seek(first * self._segment)
            content = file.read()
        content = content[: content.rfind(b"\n") + 1]
        end = first * self._segment + len(content)
        if end <= self._sent:
            return
        remote = replace(self._remote, patience=patience)
        starts = range(0, len(content), self._segment)
        for start in starts if self._sent else reversed(starts):
            name = f"{self._number:06}/{_segment(first + start // self._segment)}"
            remote.write(name, content[start : start + self._segment])
        self._sent = end

    def remove_older(self) -> None:
        """Removes the copies of drivers before this one, once this one has sent all. Raises: StorageError."""
        older = {name.partition("/")[0] for name in self._remote.names()}
        for number in older:
            if int(number) < self._number:
                self._remote.remove(number)


def _segment(number: int) -> str:
    return f"{number:06}.jsonl"
