"""Why a run failed, in one sentence: a user's own error with its line, or how Ray reports a dead process.

Sentences cross processes, not exceptions, because a user's exception may not unpickle in another process.
"""

from __future__ import annotations

import re
import traceback
from pathlib import Path

from trainables.spec import LocusError

LENGTH = 400
"""The greatest length of a reason, in letters."""
LOST = "its node was lost"
KILLED = "its process was killed, from outside or because memory ran out"
CHANGED = "changed after this study was planned; run the study again to train with the new code"
DEATHS = {
    "node has died": LOST,
    "node was terminated": LOST,
    "node was preempted": LOST,
    "node it was running on is dead": LOST,
    "running low on memory": "its process was killed, because its node ran out of memory",
    "worker process has died": KILLED,
}
"""Words of Ray's messages about dead processes, and the sentence for each. The first that fits counts."""


class WorkError(LocusError):
    """A run that ended by an error; its text is one sentence."""


def sentence(error: Exception) -> str:
    """An error in one line: a user's mistake as it is, any other with the last line of the house or the user's file."""
    if isinstance(error, LocusError):
        return str(error)
    words = traceback.format_exception_only(error)[-1].strip().splitlines()[0]
    ours = [frame for frame in traceback.extract_tb(error.__traceback__) if "site-packages" not in frame.filename]
    return f"{words} ({Path(ours[-1].filename).name}, line {ours[-1].lineno})" if ours else words


def death(text: str) -> str | None:
    """The sentence for a dead process that a message of Ray's reports; None where it reports none."""
    return next((sentence for words, sentence in DEATHS.items() if words in text), None)


def reason(text: str) -> str:
    """A long error message in one sentence: the worker's own, else of a dead process, else its last line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()] or ["unknown error"]
    said = re.search(r"WorkError: (.+)", text)
    return (said[1] if said else death(text) or lines[-1])[:LENGTH]


def group_reason(error: Exception) -> str:
    """Why a worker group failed: a dead worker comes first, because the others then fail as they wait for it."""
    failures: dict[int, Exception] = getattr(error, "worker_failures", {})
    deaths = {rank: died for rank, failure in failures.items() if (died := death(str(failure)))}
    if deaths:
        rank = min(deaths)
        return f"worker {rank}: {deaths[rank]}"
    own = [failure for failure in failures.values() if isinstance(failure, WorkError)]
    return str(own[0]) if own else reason(str(error))


def lost(reason: str) -> bool:
    """Whether a run failed because a node went away, which does not count as an attempt."""
    return reason.endswith(LOST)


def changed(reason: str) -> bool:
    """Whether a run failed because its code was edited, which a second attempt cannot correct."""
    return reason.endswith(CHANGED)
