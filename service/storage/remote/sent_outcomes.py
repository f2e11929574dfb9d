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

    def source(self, key: str, name: str) -> str:
        """The URI of an answer's weights, which are sent where they are not there."""
        return self._copies.weights(key, name)
