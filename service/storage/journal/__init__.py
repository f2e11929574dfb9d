"""The journal of a study: its ordered facts, one JSON line each, written by one driver at a time.

All decisions and measurements of a study are here, and what is to be done next follows from them. Facts that another
process or a later decision relies on are fsynced (`planned`, `stopped`, `failed`, `ended` and so on). A measurement is
only flushed, because its epoch can be trained again. A torn last line is dropped, and reported.
"""

from service.storage.journal.facts import (
    FORM,
    Adopted,
    Confirms,
    Counts,
    Ended,
    Exhausted,
    Fact,
    FailedWith,
    Measured,
    Opened,
    Planned,
    Started,
    StoppedAt,
    Tuned,
)
from service.storage.journal.reading import (
    FormError,
    JournalError,
    Place,
    UnfitError,
    read,
    read_lines,
    read_on,
    remedy,
)
from service.storage.journal.writing import Journal, cut

__all__ = [
    "FORM", "Adopted", "Confirms", "Counts", "Ended", "Exhausted", "Fact", "FailedWith", "FormError", "Journal",
    "JournalError", "Measured", "Opened", "Place", "Planned", "Started", "StoppedAt", "Tuned", "UnfitError", "cut",
    "read", "read_lines", "read_on", "remedy",
]  # fmt: skip
