"""The answers of a home, each of which is also sent to a storage."""

from __future__ import annotations

from pathlib import Path

from service.storage.outcomes import Answered, Outcomes
from service.storage.remote.copies import Copies


class SentOutcomes(Outcomes):
    """The answers of a home whose copies are at a storage. What writes one raises StorageError, too."""

    def __init__(self, copies: Copies) -> None:
        super().__init__(copies.home)
        self._copies = copies

    def put(self, answered: Answered, weights: Path | None) -> None:
        """Writes an answer as `Outcomes.put` does, and sends a copy."""
        super().put(answered, weights)
        self._copies.keep(answered)

    def usable(self, key: str, code: str, *, whole: bool, older: bool) -> Answered | None:
        """The answer of a run as `Outcomes.usable` gives it, from the storage too: another home may have sent it."""
        found = super().usable(key, code, whole=whole, older=older)
        if found is None and self._copies.fetch_answers_of(key):
            found = super().usable(key, code, whole=whole, older=older)
        return found

    def source(self, key: str, name: str) -> str:
        """The URI of an answer's weights, which are sent where they are not there."""
        return self._copies.weights(key, name)
