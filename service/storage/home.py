"""Where everything lies: one folder that the driver keeps, the name of every file in it, and where MLflow shows it.

The names come from journals, which may be a stranger's: a name that leads anywhere else is refused. A link (to a larger
disk, for example) is unlinked; what it leads to stays. If `outcomes`, `studies` or `artifacts` is a link that leads out
of the home, what lies there may be another home's, and nothing is removed.

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

An address of MLflow is shown without its password, in logs, reports and lists of processes.
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
    """Removes what names lead to in a folder, if it is there. Raises: LocusError for a name that leads out."""
    path = _member(within, names)
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)


def check_removable(within: Path, name: str) -> None:
    """Looks whether `remove_member` can remove what lies in a folder under a name. Raises: LocusError if it cannot."""
    path, folders = _member(within, (name,)), [within]
    if path.is_dir() and not path.is_symlink():
        if path.is_mount():
            raise LocusError(f"{path} must be a folder or a link to be removed, got a mounted disk; unmount it first")
        folders += [Path(folder) for folder, _, _ in os.walk(path)]
    for folder in folders:
        if not os.access(folder, os.W_OK | os.X_OK):
            raise LocusError(f"{folder} must be a folder that can be written to remove {path}; nothing was removed")


def _member(within: Path, names: tuple[str, ...]) -> Path:
    """Returns the path of names in a folder; of a link on the way, the link itself."""
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
        self.lock = self.root / "lock"  # of the one writer
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
        """The driver that runs this study now, here or on another host. Cost: 0.1 s where one does."""
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
        self.database = self.root / "mlflow.db"  # of the default MLflow store
        self.artifacts = self.root / "artifacts"  # of the default MLflow store
        self.fetched = self.root / "fetched"  # where this home was fetched from; no file if studies are run

    @classmethod
    def find(cls, given: str | Path | None = None) -> Home:
        """Returns the home: as given, else $LOCUS_HOME, else ~/.locus; always absolute."""
        return cls(Path(given or os.environ.get("LOCUS_HOME") or "~/.locus").expanduser().resolve())

    @property
    def option(self) -> str:
        """What a command needs to find this home, with a blank before it; nothing for the usual one."""
        return "" if self.root == Home.find().root else f" --home {shlex.quote(str(self.root))}"

    @classmethod
    def usable(cls, given: str | Path | None = None) -> Home:
        """Returns the home, which is a folder or can become one. Raises: LocusError if it cannot."""
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
        """The name that no other home has; None before it has one. A home that was moved or copied has another name."""
        try:
            name, _, root = (self.root / "id").read_text(encoding="utf-8").strip().partition("\n")
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        is_original = root == str(self.root) or self.fetched.exists()
        return name if is_original else digest([name, str(self.root)], 12)

    def named(self) -> str:
        """Returns the name of this home. A home without a name gets one; two that ask together get the same."""
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
        """The URI of the default MLflow store. If the path has `?` or `%`, it holds for this process alone."""
        folder = _linked(self.root) if {"?", "%"} & {*str(self.root)} else self.root  # both mean something else there
        return f"sqlite:///{folder / self.database.name}"

    @property
    def data(self) -> Path:
        """The folder of known data sets and of decoded images: $LOCUS_DATA, else `data` in this one."""
        return Path(os.environ.get("LOCUS_DATA") or self.root / "data").expanduser().resolve()

    def study(self, id: str) -> StudyFolder:
        return StudyFolder(self.root / "studies" / id)

    def others(self, id: str) -> list[str]:
        return [other for other in self.ids() if other != id and other.partition("@")[0] == id.partition("@")[0]]

    def ids(self) -> list[str]:
        """Returns the ids of all studies here, the one that ran last at the end.

        A folder that this user cannot look into counts as one.
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
    """Returns when the last whole line of a journal was written; infinity if none says so. Cost: 30 us."""
    try:
        with journal.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 2**16))
            end = file.read()
        return float(plain_json(end[: end.rfind(b"\n") + 1].splitlines()[-1])["time"])
    except (OSError, ValueError, LookupError, TypeError):
        return math.inf


@cache
def _linked(folder: Path) -> Path:
    temporary = Path(tempfile.mkdtemp(prefix="locus-home-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    link = temporary / "home"
    link.symlink_to(folder)
    return link


SECRETS = ("password", "passwd", "pwd", "token", "secret")
"""Parts of a query that hold a secret."""


def tracking_uri(given: str | None = None) -> str | None:
    """Returns the URI of MLflow: as given, else $MLFLOW_TRACKING_URI. Raises: SpecError for one with credentials."""
    uri = given or os.environ.get("MLFLOW_TRACKING_URI")
    if uri and uri.startswith(("http://", "https://")) and has_secrets(uri):
        raise SpecError(
            "the address of MLflow must hold no credentials, for it is printed and stored; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    return uri


def experiment_name(given: str | None = None) -> str | None:
    """Returns the MLflow experiment that was chosen: as given, else $MLFLOW_EXPERIMENT_NAME; None if none was."""
    return given or os.environ.get("MLFLOW_EXPERIMENT_NAME") or None


def default_experiment(study: str) -> str:
    """Returns the MLflow experiment of a study where none was chosen: a name that nobody else uses."""
    return f"locus/{study}"


def place_in_words(home: Home, id: str, tracking: str | None = None, experiment: str | None = None) -> str:
    """Returns where MLflow shows an edition of a study once it is run, as a plan says it. MLflow is not asked."""
    store = without_secrets(tracking) if tracking else str(home.database)
    folder = home.study(id)
    has_file = folder.experiment.exists()
    name = folder.experiment.read_text(encoding="utf-8") if has_file else default_experiment(id.partition("@")[0])
    return f"MLflow: {store}, experiment {experiment_name(experiment) or name}"


def has_secrets(uri: str) -> bool:
    """Returns whether an address names a user, or a secret in its query."""
    parts = urlsplit(uri)
    return "@" in parts.netloc or bool({*SECRETS} & {name.lower() for name in parse_qs(parts.query)})


def has_options(uri: str) -> bool:
    """Returns whether a storage's URI has parts that may hold a secret: query, chain, user (Azure: a container)."""
    parts = urlsplit(uri)
    user, at, _ = parts.netloc.rpartition("@")
    has_user = bool(at) and (":" in user or not parts.scheme.startswith("abfs"))
    return "::" in uri or bool(parts.query) or has_user


def without_secrets(text: str) -> str:
    """Returns a text in which the password of every address is `***`."""
    text = re.sub(r"(://[^/\s:@]*):[^\s]*@", r"\1:***@", text)
    return re.sub(rf"([?&](?:{'|'.join(SECRETS)})=)[^&\s'\"]*", r"\1***", text, flags=re.IGNORECASE)


WRITTEN = "files.json"
"""Beside the page of a report: the names of the files that were written with it, each with the SHA-256 of its content.

It names itself while a page is being written.
"""


def content_digest(content: str | bytes) -> str:
    """Returns what a file's content is known by."""
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def written(folder: Path) -> dict[str, Any]:
    """Returns what an earlier page wrote, by name. A file that a user has changed since is not ours any more."""
    try:
        digests = plain_json((folder / WRITTEN).read_bytes())
    except (OSError, ValueError):
        return {}
    return digests if isinstance(digests, dict) else {}


def as_written(folder: Path) -> dict[str, bool]:
    """Returns whether each file of a report is there as it was written; nothing while one is being written."""
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
