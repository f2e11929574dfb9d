"""Where everything lies: one folder that the driver keeps, and the name of every file in it.

<home>/outcomes/<key>/<code>.json, .pt          answers, shared by all studies
<home>/studies/<id>/study.json journal.jsonl driver.log lock report/ work/<key>/<code>/<attempt>/
<home>/mlflow.db, artifacts/                     the default tracking store
<home>/data/                                     known data sets, and decoded images in decoded/ (or $LOCUS_DATA)
"""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from trainables.spec import LocusError


def tracking_uri(given: str | None = None) -> str | None:
    """The URI of MLflow: as given, else $MLFLOW_TRACKING_URI; None for the store in the home."""
    return given or os.environ.get("MLFLOW_TRACKING_URI")


@dataclass(frozen=True)
class StudyFolder:
    """The files of one edition of a study."""

    root: Path

    @property
    def study(self) -> Path:
        """The edition, as resolved."""
        return self.root / "study.json"

    @property
    def journal(self) -> Path:
        """The ordered facts."""
        return self.root / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """The lock file of the one writer."""
        return self.root / "lock"

    @property
    def log(self) -> Path:
        """The whole text of every failure."""
        return self.root / "driver.log"

    @property
    def report(self) -> Path:
        """The folder of the report and its figures."""
        return self.root / "report"

    def work(self, key: str, code: str, attempt: int) -> Path:
        """Checkpoints of an unfinished run: the only folder that a worker writes."""
        return self.root / "work" / key / code / str(attempt)


@dataclass(frozen=True)
class Home:
    """The folder that holds all studies and answers."""

    root: Path

    @classmethod
    def find(cls, given: str | Path | None = None) -> Home:
        """The home: as given, else $LOCUS_HOME, else ~/.locus; always absolute."""
        return cls(Path(given or os.environ.get("LOCUS_HOME") or "~/.locus").expanduser().resolve())

    @classmethod
    def usable(cls, given: str | Path | None = None) -> Home:
        """The home, which is a folder or can become one: nothing is left where it is not there.

        Raises: LocusError where it can neither be read nor made.
        """
        home = cls.find(given)
        if home.root.is_dir():
            return home
        above = next(folder for folder in home.root.parents if folder.exists())
        try:
            if home.root.exists():
                raise FileExistsError(f"{home.root} is a file")
            os.rmdir(tempfile.mkdtemp(prefix=".locus-", dir=above))
        except OSError as error:
            why = error.strerror or str(error)
            raise LocusError(f"home must be a folder that can be written, got {home.root} ({why})") from None
        return home

    @property
    def outcomes(self) -> Path:
        """The folder of all answers."""
        return self.root / "outcomes"

    @property
    def tracking(self) -> str:
        """The URI of the default MLflow store."""
        return f"sqlite:///{self.root / 'mlflow.db'}"

    @property
    def artifacts(self) -> Path:
        """Where the default MLflow store keeps artifacts."""
        return self.root / "artifacts"

    @property
    def data(self) -> Path:
        """The folder of known data sets and of decoded images: $LOCUS_DATA, else `data` in this one."""
        return Path(os.environ.get("LOCUS_DATA") or self.root / "data").expanduser().resolve()

    def study(self, id: str) -> StudyFolder:
        """The folder of an edition's id."""
        return StudyFolder(self.root / "studies" / id)

    def others(self, id: str) -> list[str]:
        """The ids of the other editions of a study."""
        return [other for other in self.ids() if other != id and other.partition("@")[0] == id.partition("@")[0]]

    def ids(self) -> list[str]:
        """The ids of all studies here, the latest one last."""
        found = [path.parent for path in (self.root / "studies").glob("*/study.json")]
        return [path.name for path in sorted(found, key=lambda path: (path / "study.json").stat().st_mtime)]
