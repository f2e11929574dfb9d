"""Names the files of a home, the folder in which locus keeps all studies and answers, and the addresses of MLflow.

The names come from journals, which may be a stranger's: a name that leads out of its folder is refused. If a link (to a
larger disk, for example) is removed, the files that it leads to stay. If `outcomes`, `studies` or `artifacts` is a link
that leads out of the home, the files there may be another home's, and nothing is removed.

<home>/outcomes/<key>/<code>.json, .pt          answers, shared by all studies; <code>.<probe>.npz, what probes found
<home>/outcomes/.claims/<key>.<code>            a run that some driver trains now: a file that is locked
<home>/studies/<id>/study.json journal.jsonl control.json presence.json driver.log storage experiment lock drivers/
                    report/
<home>/studies/<id>/work/<key>/<code>/<attempt>/  what a worker leaves of a run that is not finished
<home>/id                                        the name that this home got for a shared MLflow, and where it lay then
<home>/mlflow.db, artifacts/                     the default tracking store
<home>/fetched                                   where the weights stayed, of a result that was fetched from elsewhere
<home>/data/                                     known data sets, decoded images in decoded/, and images that Python
                                                 handed over, arrays-<digest>.npz (or $LOCUS_DATA)

Logs, reports and lists of processes show an address of MLflow without its password.
"""

from __future__ import annotations

import atexit
import hashlib
import math
import os
import re
import shlex
import shutil
import tempfile
import threading
import uuid
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from filelock import FileLock, Timeout

from service.storage import plain_json
from service.storage.leases import DRIVERS, Holder, Host, at_work, at_work_elsewhere, newest
from trainables.spec import LocusError, SpecError, digest
from trainables.whole_files import rename_durably


def remove_member(within: Path, *names: str) -> None:
    """Removes the file, link or folder `within/names[0]/names[1]/...`, if it exists.

    Raises: LocusError for a name that leads out of `within`.
    """
    path = _member(within, names)
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def check_removable(within: Path, name: str) -> None:
    """Checks that `remove_member` can remove `within/name`, and removes nothing. Raises: LocusError if it cannot."""
    path, folders = _member(within, (name,)), [within]
    if path.is_dir() and not path.is_symlink():
        if path.is_mount():
            raise LocusError(f"{path} must be a folder or a link to be removed, got a mounted disk; unmount it first")
        folders += [Path(folder) for folder, _, _ in os.walk(path)]
    for folder in folders:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise LocusError(f"{folder} must be a folder that can be written to remove {path}; nothing was removed")


def _member(within: Path, names: tuple[str, ...]) -> Path:
    """Returns the path `within/names[0]/names[1]/...`, or that of the first link on the way."""
    path = within
    for name in names:
        if name in ("", ".", "..") or "/" in name or "\0" in name:
            raise LocusError(f"what is removed must lie directly in {path}, got the name {name!r}")
        path /= name
        if path.is_symlink():
            break
    return path


@dataclass
class StudyFolder:
    """The files of one edition of a study."""

    root: Path

    def __post_init__(self) -> None:
        self.study = self.root / "study.json"  # the edition, as resolved
        self.journal = self.root / "journal.jsonl"  # the ordered facts
        self.control = self.root / "control.json"  # what a command asks of the driver, until the driver has read it
        self.lock = self.root / "lock"  # the file that the driver locks
        self.drivers = self.root / DRIVERS  # the files in which drivers say that they run this study
        self.presence = self.root / "presence.json"  # what the driver tells other drivers of the home
        self.storage = self.root / "storage"  # the URI of `--storage`, where the last driver had one
        self.experiment = self.root / "experiment"  # the name of the MLflow experiment of the last driver
        self.log = self.root / "driver.log"  # the whole text of every failure
        self.report = self.root / "report"
        self.work_folders = self.root / "work"  # what workers leave of runs that are not finished

    @property
    def driven(self) -> bool:
        return self.driver is not None

    @property
    def driver(self) -> Holder | None:
        """The driver that runs this study now, here or on another host; None if none does. Cost: 0.1 s if one does."""
        try:
            if self.lock.exists():
                with FileLock(self.lock, timeout=0.1):  # who asks holds it for a moment, too
                    pass
        except Timeout:
            holder = newest(self.drivers)
            return holder if holder and not holder.ended else Holder(0, Host.here(), 0)
        except OSError:  # who can only read the home cannot ask for the lock
            return at_work(self.drivers)
        return at_work_elsewhere(self.drivers)

    @property
    def storage_uri(self) -> str | None:
        return self.storage.read_text(encoding="utf-8") if self.storage.exists() else None

    def add_to_log(self, text: str) -> None:
        with self.log.open("a", encoding="utf-8") as log:
            log.write(text)

    def work(self, key: str, code: str, attempt: int) -> Path:
        """Returns the folder of an unfinished run's checkpoints, the only folder that a worker writes."""
        return self.work_folders / key / code / str(attempt)


@dataclass
class Home:
    """The folder that holds all studies and answers."""

    root: Path

    def __post_init__(self) -> None:
        self.outcomes = self.root / "outcomes"
        self.claims = self.outcomes / ".claims"  # files that drivers lock while they train
        self.database = self.root / "mlflow.db"  # the database of the default MLflow store
        self.artifacts = self.root / "artifacts"  # the files of the default MLflow store
        self.fetched = self.root / "fetched"  # where this home was fetched from; no file if studies are run

    @classmethod
    def find(cls, given: str | Path | None = None) -> Home:
        """Returns the home: as given, else $LOCUS_HOME, else ~/.locus; always absolute."""
        return cls(Path(given or os.environ.get("LOCUS_HOME") or "~/.locus").expanduser().resolve())

    @property
    def option(self) -> str:
        """The option ` --home FOLDER` that a command needs to find this home; empty if it finds it without."""
        return "" if self.root == Home.find().root else f" --home {shlex.quote(str(self.root))}"

    @classmethod
    def usable(cls, given: str | Path | None = None) -> Home:
        """Returns the home that `find` returns. Raises: LocusError if it is no folder and cannot become one."""
        home = cls.find(given)
        if "::" in str(home.root):
            raise LocusError(f"home must be a path without '::', got {home.root}")
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
    def id(self) -> str | None:
        """The name that no other home has; None if it has no name yet. A home that was moved or copied has another."""
        try:
            name, _, root = (self.root / "id").read_text(encoding="utf-8").strip().partition("\n")
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        is_original = root == str(self.root) or self.fetched.exists()
        return name if is_original else digest([name, str(self.root)], 12)

    def named(self) -> str:
        """Returns the name of this home, after giving it one if needed; two processes at a time get the same name."""
        if self.id is None:
            draft = self.root / f".id.{os.getpid()}.{threading.get_ident()}"
            draft.write_text(f"{uuid.uuid4().hex[:12]}\n{self.root}\n", encoding="utf-8")
            try:
                os.link(draft, self.root / "id")
            except FileExistsError:
                pass
            except OSError:  # a disk without hard links, such as exFAT
                with FileLock(self.root / "id.lock"):
                    if self.id is None:
                        rename_durably(draft, self.root / "id")
            finally:
                draft.unlink(missing_ok=True)
        assert self.id is not None
        return self.id

    @property
    def tracking(self) -> str:
        """The URI of the default MLflow store. If the path has `?` or `%`, only this process can use the URI."""
        folder = _linked(self.root) if {"?", "%"} & {*str(self.root)} else self.root  # both mean something else there
        return f"sqlite:///{folder / self.database.name}"

    @property
    def data(self) -> Path:
        """The folder of data sets and of decoded images: $LOCUS_DATA, else `data` in this home."""
        return Path(os.environ.get("LOCUS_DATA") or self.root / "data").expanduser().resolve()

    def study(self, id: str) -> StudyFolder:
        return StudyFolder(self.root / "studies" / id)

    def others(self, id: str) -> list[str]:
        """Returns the ids of the other editions of the study that an id belongs to."""
        return [other for other in self.ids() if other != id and other.partition("@")[0] == id.partition("@")[0]]

    def ids(self) -> list[str]:
        """Returns the ids of all studies in this home, sorted by time: the one that ran last is at the end.

        A folder that this user cannot look into counts as a study.
        """
        began: dict[str, float] = {}
        with suppress(FileNotFoundError, NotADirectoryError):
            for name in os.listdir(self.root / "studies"):
                folder = self.study(name)
                try:  # a driver that begins writes the study; a copy of that file may be younger than the last fact
                    began[name] = min(folder.study.stat().st_mtime, _last_time(folder.journal))
                except PermissionError:
                    began[name] = 0.0
                except OSError:  # it is no folder, or has no study
                    continue
        return sorted(began, key=lambda id: began[id])


def _last_time(journal: Path) -> float:
    """Returns the time of a journal's last whole line, in seconds since 1970; infinity if it has none. Cost: 30 us."""
    try:
        with journal.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2**16))
            end = file.read()
        return float(plain_json(end[: end.rfind(b"\n") + 1].splitlines()[-1])["time"])
    except (OSError, ValueError, LookupError, TypeError):
        return math.inf


@cache
def _linked(folder: Path) -> Path:
    """Returns a link to a folder, which is removed when this process ends."""
    temporary = Path(tempfile.mkdtemp(prefix="locus-home-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    link = temporary / "home"
    link.symlink_to(folder)
    return link


SECRETS = ("password", "passwd", "pwd", "token", "secret")
"""The names of the parts of an address's query that hold a secret."""


def tracking_uri(given: str | None = None) -> str | None:
    """Returns the URI of MLflow: as given, else $MLFLOW_TRACKING_URI. Raises: SpecError if it holds credentials."""
    uri = given or os.environ.get("MLFLOW_TRACKING_URI")
    if uri and uri.startswith(("http://", "https://")) and has_secrets(uri):
        raise SpecError(
            "the address of MLflow must hold no credentials, for it is printed and stored; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    return uri


def experiment_name(given: str | None = None) -> str | None:
    """Returns the name of the MLflow experiment: as given, else $MLFLOW_EXPERIMENT_NAME, else None."""
    return given or os.environ.get("MLFLOW_EXPERIMENT_NAME") or None


def default_experiment(study: str) -> str:
    """Returns the name of the MLflow experiment of a study if the user chooses none."""
    return f"locus/{study}"


def place_in_words(home: Home, id: str, tracking: str | None = None, experiment: str | None = None) -> str:
    """Returns, in words, the store and the experiment in which MLflow will show a study. MLflow is not asked."""
    store = without_secrets(tracking) if tracking else str(home.database)
    folder = home.study(id)
    has_file = folder.experiment.exists()
    name = folder.experiment.read_text(encoding="utf-8") if has_file else default_experiment(id.partition("@")[0])
    return f"MLflow: {store}, experiment {experiment_name(experiment) or name}"


def has_secrets(uri: str) -> bool:
    """Returns whether an address holds the name of a user, or a secret in its query."""
    parts = urlsplit(uri)
    return "@" in parts.netloc or bool({*SECRETS} & {name.lower() for name in parse_qs(parts.query)})


def has_options(uri: str) -> bool:
    """Returns whether a storage's URI may hold a secret: in a query, a chain (`::`) or a user (Azure has none)."""
    parts = urlsplit(uri)
    user, at, _ = parts.netloc.rpartition("@")
    has_user = bool(at) and (":" in user or not parts.scheme.startswith("abfs"))
    return "::" in uri or bool(parts.query) or has_user


def without_secrets(text: str) -> str:
    """Returns a text with `***` in place of each password and secret in its addresses."""
    text = re.sub(r"(://[^/\s:@]*):[^\s]*@", r"\1:***@", text)
    return re.sub(rf"([?&](?:{'|'.join(SECRETS)})=)[^&\s'\"]*", r"\1***", text, flags=re.IGNORECASE)


WRITTEN = "files.json"
"""The file beside a report's page that lists the files written with it, each with the SHA-256 of its content.

While a page is being written, the list contains the name of this file itself.
"""


def content_digest(content: str | bytes) -> str:
    """Returns the SHA-256 of a file's content, in hex digits."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def written(folder: Path) -> dict[str, Any]:
    """Returns the digests of the files that the last report wrote into a folder, by file name; empty without a list."""
    try:
        digests = plain_json((folder / WRITTEN).read_bytes())
    except (OSError, ValueError):
        return {}
    return digests if isinstance(digests, dict) else {}


def as_written(folder: Path) -> dict[str, bool]:
    """Returns, for each file of a report, whether its content is unchanged; empty while a report is being written."""
    if not (folder / WRITTEN).exists():
        return {}
    digests, sound = written(folder), {}
    for name, known_by in digests.items():
        try:
            sound[name] = bool(content_digest((folder / name).read_bytes()) == known_by)
        except (OSError, ValueError):
            sound[name] = False
    if WRITTEN in digests or digests != written(folder):
        return {}
    return sound or {WRITTEN: False}
