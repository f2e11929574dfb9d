"""Sends a study's journal to its storage while it runs: in a thread, every few seconds.

Answers do not come this way: the driver sends each one before it writes that the run has ended.
"""

from __future__ import annotations

import threading
from dataclasses import replace

from service.storage.history import History
from service.storage.journal import Journal
from service.storage.remote.copies import Copies, JournalCopy
from service.storage.remote.storage_lease import Lease
from trainables.remote_files import StorageError

SEND_S = 5.0
"""How often what is new is sent, with a sign of life. So much may be lost with a disk; no answer is."""
CLOSE_S = 60.0
"""How long the end of a study waits for a storage that does not answer."""


class StorageSync:
    """Sends the copies of one study while it runs: `open`, then `close`. Without copies it does nothing.

    It takes the lease before the journal is opened, so that a refused command writes nothing.
    """

    def __init__(self, copies: Copies | None) -> None:
        self._copies = copies
        self._end = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> StorageSync:
        """Takes the lease, and fetches what another driver has sent until then.

        Raises: HeldError if another driver runs the study with this storage; OtherJournalError; StorageError.
        """
        if self._copies is not None:
            self._lease = Lease(self._copies.id, self._copies.study.inside("drivers"))
            self._lease.begin()
            try:
                self._copies.fetch()
            except BaseException:
                self._lease.end()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._copies is not None and self._has_ended():
            self._lease.end()

    def open(self, journal: Journal) -> None:
        """Sends the study and its whole journal, and starts the thread. Raises: StorageError.

        `journal`: it is told where another driver has taken the study over.
        """
        if self._copies is None:
            return
        self._copies.home.study(self._copies.id).storage.write_text(self._copies.uri)
        self._copies.study.put(self._copies.home.study(self._copies.id).study, "study.json")
        self._copy = JournalCopy(journal.path, self._copies.journal, self._lease.number)
        self._copy.send(CLOSE_S)
        self._copy.remove_older()
        self._thread = threading.Thread(target=self._send, args=(journal,), name="storage", daemon=True)
        self._thread.start()

    def close(self, history: History) -> str | None:
        """Sends what is left and clears what is not needed. Returns a warning where the storage lacks something."""
        if self._copies is None or self._thread is None:
            return None
        if not self._has_ended():
            return f"the storage lacks a part ({self._copies.uri} stands still); run the study again to send the rest"
        answers = {(run, code) for (run, code), state in history.states.items() if state.answered}
        copies = replace(self._copies, patience=CLOSE_S)
        try:
            copies.keep_missing(sorted(answers))
            copies.clear_work(answers)
            self._copy.send(CLOSE_S)
        except StorageError as error:
            return f"the storage lacks a part ({error}); run the study again to send the rest"
        return None

    def _has_ended(self) -> bool:
        """Ends the thread; False if it stands still in a call to the storage, for which nobody waits longer.

        Its lease is not ended then: the next driver sees no sign of life.
        """
        self._end.set()
        if self._thread is not None:
            self._thread.join(CLOSE_S)
        return self._thread is None or not self._thread.is_alive()

    def _send(self, journal: Journal) -> None:
        while not self._end.wait(SEND_S):
            try:
                if why := self._lease.beat():
                    journal.session.lose(why)
                    return
                self._copy.send(0.0)
            except (OSError, ValueError):  # of a storage that is away, or a disk: what is new is sent the next time
                continue
