"""Jobs that are trained in this process, epoch by epoch: the training runs in a thread, and waits after each message.

Ray Tune's own functions do not wait for their training when they are stopped: its process could end before the
training had written its checkpoint.
"""

from __future__ import annotations

import threading
from queue import SimpleQueue
from typing import Any

from trainables.launch.job import Job
from trainables.launch.pack import work_together
from trainables.launch.worker import work

ENDS_S = 60.0
"""How long `close` waits until a training ends its epoch, and `next` until its thread has ended after the last message.

A training that waits between two epochs ends at once. Units: seconds.
"""


class Alone:
    """The training of one job, or of a pack. Call `next` until it returns None, and `close` at any time.

    `worker.Group` has the same methods.
    """

    def __init__(self, *jobs: Job) -> None:
        self._messages: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[bool] = SimpleQueue()
        self._error: Exception | None = None
        self._answered, self._ended = True, False
        self._training = threading.Thread(target=self._train, args=(jobs,), name="training", daemon=True)
        self._training.start()

    def next(self) -> dict[str, Any] | None:
        """Lets the training go on, and waits for its next message; None when it has ended. Raises: WorkError."""
        if not self._answered:
            self._answers.put(True)
        received = self._messages.get()
        self._answered = received is None
        if received is None:
            self._training.join(ENDS_S)
        if self._error is not None:
            raise self._error
        return received

    def close(self) -> None:
        """Ends the training after its current epoch, and waits until it has written its checkpoint."""
        self._ended = True
        self._answers.put(False)
        self._training.join(ENDS_S)

    def _train(self, jobs: tuple[Job, ...]) -> None:
        try:
            if len(jobs) == 1:
                work(jobs[0], self._report)
            else:
                work_together(jobs, self._report)
        except Exception as error:  # `next` raises it in the other thread
            self._error = error
        finally:  # also where code of a user's own ends its thread by SystemExit: `next` would wait without end
            self._messages.put(None)

    def _report(self, message: dict[str, Any]) -> bool:
        if self._ended:
            return False
        self._messages.put(message)
        return self._answers.get()
