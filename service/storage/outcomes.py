"""Answers, known by the question (a run's key) and by the code that gave them; all studies share them.

Only Completed and Diverged are answers. A file is written once, whole.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import Field

from service.storage.home import Home
from service.storage.whole_files import rename_durably, write_whole
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigest
from trainables.recipe.outcome import Answer, Diverged
from trainables.spec import LocusError, Spec


class Answered(Spec):
    """One file of outcomes: the run, the code that trained it, how it ended, and where.

    `environment` is recorded and shown where mixed; it does not decide. `ended` is the time of day in seconds.
    """

    run: Run
    code: CodeDigest
    outcome: Answer
    environment: dict[str, Any] = Field(default_factory=dict)
    ended: float = 0.0


class Outcomes:
    """The answers of a home."""

    def __init__(self, home: Home) -> None:
        self.folder = home.outcomes

    def path(self, key: str, code: str) -> Path:
        """The file of an answer."""
        return self.folder / key / f"{code}.json"

    def weights(self, key: str, code: str) -> Path:
        """The file of an answer's weights: a state dict."""
        return self.folder / key / f"{code}.pt"

    def get(self, key: str, code: str, *, whole: bool = False) -> Answered | None:
        """The answer of a run's key by a code, or None; `whole`: None too where its weights are gone."""
        path = self.path(key, code)
        answered = Answered.read(json.loads(path.read_text())) if path.exists() else None
        if answered is None or not whole or isinstance(answered.outcome, Diverged):
            return answered
        return answered if self.weights(key, code).exists() else None

    def of(self, key: str) -> list[Answered]:
        """Every answer of a key, the newest last."""
        paths = sorted((self.folder / key).glob("*.json"), key=lambda path: path.stat().st_mtime)
        return [Answered.read(json.loads(path.read_text())) for path in paths]

    def find(self, start: str) -> list[Answered]:
        """The answers of the run whose key begins so. Raises: LocusError for none or several."""
        keys = sorted(path.name for path in self.folder.glob(f"{start}*"))
        if len(keys) != 1:
            raise LocusError(f"{start!r} must name one run, got {len(keys)}{': ' + ', '.join(keys) if keys else ''}")
        return self.of(keys[0])

    def put(self, answered: Answered, weights: Path | None) -> None:
        """Keeps an answer; its weights first, so that an answer is never without them. One that is there stays."""
        key, code = answered.run.key, answered.code.digest
        if weights is not None:
            rename_durably(weights, self.weights(key, code))
        if not self.path(key, code).exists():
            write_whole(self.path(key, code), json.dumps(answered.plain(), indent=1))
