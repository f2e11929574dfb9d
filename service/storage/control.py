"""What a command asks of a driver that runs: a file in the study's folder, which the driver reads and removes."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Literal

from search_spaces.roles import MOST_SEEDS, MOST_TRIALS
from service.storage.home import StudyFolder
from trainables.spec import Field, Spec
from trainables.whole_files import write_whole


class Control(Spec):
    """Changes of a study while it runs; None changes nothing.

    `seeds`, `trials`: counts, which only rise. `max_concurrent`: how many runs train together from now on. `stop`: each
    run ends after its epoch, or all end now.
    """

    seeds: int | None = Field(default=None, ge=1, le=MOST_SEEDS)
    trials: int | None = Field(default=None, ge=1, le=MOST_TRIALS)
    max_concurrent: int | None = Field(default=None, ge=1)
    stop: Literal["after the epoch", "now"] | None = None

    def given(self) -> dict[str, Any]:
        """What is to change."""
        return {name: value for name, value in dict(self).items() if value is not None}


def ask(folder: StudyFolder, asked: Control) -> None:
    """Leaves a request for the driver, beside what it has not read yet."""
    before = _read(folder.control) or Control()
    write_whole(folder.control, Control(**{**before.given(), **asked.given()}).model_dump_json())


def take(folder: StudyFolder) -> Control | None:
    """The request that was left, which is removed; None without one, or where it cannot be read. Cost: 10 us."""
    taken = folder.control.with_suffix(".taken")
    try:
        os.replace(folder.control, taken)
    except FileNotFoundError:
        return None
    found = _read(taken)
    taken.unlink(missing_ok=True)
    return found


def _read(path: Path) -> Control | None:
    try:
        return Control.model_validate_json(path.read_bytes())
    except (OSError, ValueError):
        return None
