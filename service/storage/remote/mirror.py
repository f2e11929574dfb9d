"""Sends a study's journal to its storage while it runs: in a thread, every few seconds.

Answers do not come this way: the driver sends each one before it writes that the run has ended.
"""

from __future__ import annotations

import threading

from service.storage.history import History
from service.storage.journal import Journal
from service.storage.remote.copies import Copies
from service.storage.remote.journal_copy import JournalCopy
from service.storage.remote.lease import Lease
from trainables.remote_files import StorageError

SEND_S = 5.0
"""How often what is new is sent, with a sign of life. So much may be lost with a disk; no answer is."""
CLOSE_S = 60.0
"""How long the end of a study waits for a storage that does not answer."""


class Mirror:
    """The copies of one study while it runs: `with Mirror(copies, journal) as mirror`, `open`, `close`.

    Without copies it does nothing. `journal`: it is told where another driver has taken the study over.
    """

    def __init__(self, copies: Copies | None, journal: Journal) -> None:
        self._copies, self._journal = copies, journal
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Mirror:
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        if self._thread is not None:
            self._thread.join()
            self._lease.end()
            self._thread = None

    def open(self) -> None:
        """Sends the study and its whole journal, and starts the thread.

        Raises: HeldError where another driver runs the study with this storage; StorageError.
        """
        if self._copies is None:
            return
        self._lease = Lease(self._copies.id, self._copies.study.inside("drivers"))
        self._lease.begin()
        self._copies.study.put(self._copies.home.study(self._copies.id).study, "study.json")
        self._copy = JournalCopy(self._journal.path, self._copies.journal, self._lease.number)
        self._copy.send(CLOSE_S)
        self._copy.remove_older()
        self._thread = threading.Thread(target=self._send, name="storage", daemon=True)
        self._thread.start()

    def close(self, history: History) -> str | None:
        """Sends what is left and clears what is not needed. Returns a warning where the storage lacks something."""
        if self._copies is None or self._thread is None:
            return None
        answers = {(run, code) for (run, code), state in history.states.items() if state.answered}
        try:
            self._copies.keep_missing(sorted(answers))
            self._copies.clear_work(answers)
            self._copy.send(CLOSE_S)
        except StorageError as error:
            return f"the storage lacks a part ({error}); run the study again to send the rest"
        return None

    def _send(self) -> None:
        while not self._end.wait(SEND_S):
            try:
                if why := self._lease.beat():
                    self._journal.session.lose(why)
                    return
                self._copy.send(0.0)
            except StorageError:
                continue  # what is new is sent the next time
