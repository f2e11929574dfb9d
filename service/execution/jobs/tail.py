"""A job's log as it grows, from Ray's own stream of it; a connection that breaks loses and doubles nothing.

Ray's stream always begins at the log's first letter. So the letters that were read are counted, and those of a new
connection are left out. What a stream may lack at its end is asked for as a whole.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from typing import Any

QUIET_S = 60.0
"""After how long without a letter the whole log is compared: a stream whose connection broke may stand still."""
AGAIN_S = 5.0
"""Seconds before the next look, where Ray's stream has ended early, or a proxy lets none pass."""


def follow(client: Any, job: str, whole: Callable[[], tuple[str, bool]]) -> Iterator[str]:
    """The text of a job's log in pieces, until the job has ended.

    `whole` gives the log so far, and whether the job had ended before it was read.
    """
    read, again = 0, 0.0
    while True:
        text, ended = whole()
        if len(text) > read:
            yield text[read:]
            read = len(text)
        if ended:
            return
        time.sleep(max(0.0, again - time.monotonic()))
        again = time.monotonic() + AGAIN_S
        with closing(_Stream(client, job)) as stream:
            behind = read
            while (piece := stream.next()) is not None:
                if not piece and len(whole()[0]) > read:
                    break
                new, behind = piece[behind:], max(0, behind - len(piece))
                if new:
                    yield new
                    read += len(new)


class _Stream:
    """Ray's stream of a log, read in a thread: who follows it may have an event loop already, as a notebook does."""

    def __init__(self, client: Any, job: str) -> None:
        self._client, self._job = client, job
        self._pieces: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._loop = asyncio.new_event_loop()
        self._task = self._loop.create_task(self._read())
        threading.Thread(target=self._run, name="tail", daemon=True).start()

    def next(self) -> str | None:
        """The next piece; an empty one where none came for a while, None where the stream has ended."""
        try:
            return self._pieces.get(timeout=QUIET_S)
        except queue.Empty:
            return ""

    def close(self) -> None:
        """Ends the connection."""
        with suppress(RuntimeError):  # the loop is closed already
            self._loop.call_soon_threadsafe(self._task.cancel)

    def _run(self) -> None:
        try:
            # errors of many kinds mean one thing: no more comes here; whoever follows asks the cluster itself
            with suppress(Exception, asyncio.CancelledError):
                self._loop.run_until_complete(self._task)
            with suppress(Exception):
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        finally:
            self._loop.close()
            self._pieces.put(None)

    async def _read(self) -> None:
        async for piece in self._client.tail_job_logs(self._job):
            self._pieces.put(piece)
