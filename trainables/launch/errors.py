"""Why a run failed, in one sentence: a user's own error with its line, or how Ray reports a dead process.

Sentences cross processes, not exceptions, because a user's exception may not unpickle in another process.
"""

from __future__ import annotations

import re
import sysconfig
import traceback
from pathlib import Path

from trainables.spec import LocusError

LENGTH = 400
"""The greatest length of a reason, in letters."""
LIBRARIES = (sysconfig.get_path("stdlib"), "site-packages")
"""What the paths of files of Python and of libraries contain."""
LOST = "its node was lost"
KILLED = "its process was killed, from outside or because memory ran out"
UNREACHABLE = "its process did not answer any more"
DEATHS = {
    "node has died": LOST,
    "node was terminated": LOST,
    "node was preempted": LOST,
    "node it was running on is dead": LOST,
    "running low on memory": "its process was killed, because its node ran out of memory",
    "worker process has died": KILLED,
    "The actor is temporarily unavailable": UNREACHABLE,
    "The actor died unexpectedly": UNREACHABLE,
}
"""Words of Ray's messages about dead processes, and the sentence for each. The first that fits counts."""


TRANSIENT = ("cuda", "nccl", "gloo", "dataloader worker", "connection")
"""Words of a RuntimeError that another attempt may not meet: of a device, a network, a killed process."""
PARTNER = ("gloo", "nccl", "peer")
"""Words of a worker's error where another worker of its group does not answer."""
LASTING = ("device-side assert", "no kernel image")
"""Words of CUDA's errors that every attempt meets: a wrong index in code, or a card that torch was not built for."""


class WorkError(LocusError):
    """A run that ended by an error; its text is one sentence."""


class CodeError(WorkError):
    """An error that every attempt would meet: of code, or of a recipe and its files."""


def failure(error: Exception) -> WorkError:
    """Returns an error as a sentence: a `CodeError`, unless memory, files, a device or a network may have caused it."""
    text = str(error).lower()
    transient = any(word in text for word in TRANSIENT) and not any(word in text for word in LASTING)
    passing = isinstance(error, OSError | MemoryError) or (isinstance(error, RuntimeError) and transient)
    return (WorkError if passing else CodeError)(sentence(error))


def sentence(error: Exception) -> str:
    """Returns an error in one line: a user's mistake as it is, any other with its place.

    The place is the last line of a user's own file, where the error passed through one, else of this project.
    """
    if isinstance(error, LocusError):
        return str(error)
    return f"{traceback.format_exception_only(error)[-1].strip().splitlines()[0]}{place(error)}"


def place(error: Exception) -> str:
    """Returns where an error is, as `sentence` has it: ` (mine.py, line 15)`; empty outside of both."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if not any(library in frame.filename for library in LIBRARIES)]
    users = [frame for frame in ours if not Path(frame.filename).is_absolute()]  # `source.load` gives a bare name
    frame = next(reversed(users or ours), None)
    return f" ({Path(frame.filename).name}, line {frame.lineno})" if frame else ""


def death(text: str) -> str | None:
    """Returns the sentence for a dead process that a message of Ray's reports; None if it reports none."""
    return next((sentence for message, sentence in DEATHS.items() if message in text), None)


def reason(text: str) -> str:
    """Returns a long error message in one sentence: the worker's own, else of a dead process, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown error"]
    sent = re.search(r"(?:Work|Code)Error: (.+)", text)
    return (sent[1] if sent else death(text) or lines[-1])[:LENGTH]


def is_code_error(text: str) -> bool:
    """Returns whether a long error message is about a `CodeError`, which a second attempt cannot correct."""
    return re.search(r"\bCodeError: ", text) is not None


def group_failure(error: Exception) -> WorkError:
    """Returns why a worker group failed. A dead worker comes first: the others then fail as they wait for it."""
    failures: dict[int, Exception] = getattr(error, "worker_failures", {})
    deaths = {rank: sentence for rank, failure in failures.items() if (sentence := death(str(failure)))}
    if deaths:
        rank = min(deaths)
        return WorkError(f"worker {rank}: {deaths[rank]}")
    causes = [failure for failure in failures.values() if isinstance(failure, WorkError)]
    causes.sort(key=lambda failure: not isinstance(failure, CodeError))
    return causes[0] if causes else WorkError(reason(str(error)))


def of_partner(error: WorkError) -> bool:
    """Returns whether a worker of a group failed because it could not reach another one, which may have died."""
    return any(word in str(error).lower() for word in PARTNER)


def lost(reason: str) -> bool:
    """Returns whether a run failed because a node went away, which does not count as an attempt."""
    return reason.endswith(LOST)
