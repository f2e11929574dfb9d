"""What a job and its client say to each other: questions, facts in the job's output, and an archive of results.

A question travels in job.json. A fact is a line of JSON with a fixed beginning, among the lines for people. Ray takes
no metadata after a job was sent, and these facts are known later: the study's id there, the address of its MLflow run,
how it ended. A refusal and the answer to a question travel in the same way.

In the archive are study.json, the journal, the home's id, and each run's answer with the files of its probes. Files of
3,000 runs have the same words again and again, so they are compressed as one stream.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from search_spaces.study import Edition
from service.planning.run_options import RunOptions
from service.storage.facts import Adopted, Ended
from service.storage.home import Home
from service.storage.journal import read_on
from trainables.kept import cache_folder
from trainables.spec import LocusError, Spec

MARK = "locus-fact "
"""How the line of a fact begins."""


def tell(**facts: Any) -> None:
    """Prints facts. It writes once, so that the line of another thread does not come between."""
    sys.stdout.write(f"{MARK}{json.dumps(facts)}\n")
    sys.stdout.flush()


def told(lines: Iterable[str]) -> dict[str, Any]:
    """Returns the facts among a job's lines; a later one replaces an earlier one of its name.

    A line that was cut is none.
    """
    facts: dict[str, Any] = {}
    for line in filter(is_fact, lines):
        try:
            facts |= json.loads(line.removeprefix(MARK))
        except ValueError:
            continue
    return facts


def is_fact(line: str) -> bool:
    """Returns whether a line is for the client, and not for a person."""
    return line.startswith(MARK)


class Question(Spec):
    """A question in a home; None is the home of that cluster."""

    home: str | None = Field(default=None, kw_only=True)


class More(Question):
    """Asks the driver of a study for what a command wants beyond what it does: seeds, trials, concurrent runs."""

    kind: Literal["more"] = Field(default="more", init=False)
    edition: Edition
    options: RunOptions


class StopNow(Question):
    """Asks the driver of a study to end all runs now."""

    kind: Literal["stop-now"] = Field(default="stop-now", init=False)
    study: str


class EventsOf(Question):
    """Prints the events of a study, a line each. `run`: of one run; `follow`: until no driver runs the study."""

    kind: Literal["events"] = Field(default="events", init=False)
    study: str
    run: str | None = None
    follow: bool = False


class StatusOf(Question):
    """The state of a study, or of all in the home. `adopt`: answers of older code count."""

    kind: Literal["status"] = Field(default="status", init=False)
    study: str | None = None
    adopt: bool = False


class ResultOf(Question):
    """The files that the result of a study needs, as an archive."""

    kind: Literal["result"] = Field(default="result", init=False)
    study: str


AnyQuestion = Annotated[More | StopNow | EventsOf | StatusOf | ResultOf, Field(discriminator="kind")]


class Asked(Spec):
    """The content of a job that asks."""

    question: AnyQuestion


NAME = "result.tar.xz"
"""What an archive is called among MLflow's artifacts."""
PRESET: Final = 1
"""How hard xz compresses: 6 takes ten times as long for a quarter less."""
MOST = 4 * 2**30
"""The greatest size of an archive's files; 900 runs of eight epochs have 10 MB. Units: bytes."""
PIECE = 2**20
"""How much is unpacked at a time. Units: bytes."""


class ArchiveError(LocusError):
    """An archive that is not as it was packed."""


def pack(home: Home, id: str) -> bytes:
    """Returns the archive of a study of a home, as far as its journal goes now. A driver may run meanwhile."""
    folder = home.study(id)
    facts, end = read_on(folder.journal)
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:xz", preset=PRESET) as archive:
        files = [folder.study, home.root / "id"]
        known = {(fact.run, fact.code) for fact in facts if isinstance(fact, Ended | Adopted) and fact.code}
        for key, code in sorted(known):
            every = sorted((home.outcomes / key).glob(f"{code}.*"))
            files += [path for path in every if path.suffix in (".json", ".npz")]  # the answer, and what probes found
        for file in files:
            if file.is_file():
                archive.add(file, file.relative_to(home.root).as_posix(), recursive=False, filter=_nobodys)
        if folder.journal.exists():
            _add_journal(archive, home, folder.journal, end.offset)
    return content.getvalue()


def _add_journal(archive: tarfile.TarFile, home: Home, journal: Path, end: int) -> None:
    """Adds the journal's first bytes: it may have grown since the answers were listed."""
    member = _nobodys(archive.gettarinfo(journal, journal.relative_to(home.root).as_posix()))
    with journal.open("rb") as file:
        whole = file.read(end)
    member.size = len(whole)
    archive.addfile(member, io.BytesIO(whole))


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Returns a file without the name of its owner."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def digest(content: bytes) -> str:
    """Returns what an archive is known by."""
    return hashlib.sha256(content).hexdigest()


def fetched(content: bytes, origin: str) -> Home:
    """Returns an archive as a home on this machine. Its folder is named by its content: one that is there is complete.

    `origin` says where the weights stayed. Raises: ArchiveError for an archive that is damaged, or holds anything but
    files within its folder.
    """
    cache = cache_folder()
    if cache is None:
        raise ArchiveError("XDG_CACHE_HOME must name a folder for fetched results, for this user has no home folder")
    home = Home(cache / digest(content)[:16])
    if home.root.is_dir():
        return home
    cache.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=cache))
    try:
        unpack(content, draft)
        Home(draft).fetched.write_text(origin, encoding="utf-8")
        os.replace(draft, home.root)
    except OSError:
        if not home.root.is_dir():  # else another process was quicker
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return home


def unpack(content: bytes, folder: Path) -> None:
    """Unpacks an archive into a folder.

    Raises: ArchiveError, before a file is written, for an archive that is cut or too large; before a file leaves the
    folder or is no plain file.
    """
    try:
        _read_through(content)
        with tarfile.open(fileobj=io.BytesIO(content), mode="r:xz") as archive:
            archive.extractall(folder, filter=_plain_file)
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError) as error:
        raise ArchiveError(f"the archive must hold the files of a study, got {type(error).__name__}: {error}") from None


def _read_through(content: bytes) -> None:
    """Reads all of an archive, a piece at a time: only its end shows whether it was cut, and how large it is."""
    size = 0
    with lzma.open(io.BytesIO(content)) as stream:
        while piece := stream.read(PIECE):
            size += len(piece)
            if size > MOST:
                raise ArchiveError(f"the archive must hold at most {MOST / 2**30:.3g} GiB when unpacked, got more")


def _plain_file(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo:
    if not member.isfile() or member.issparse():  # a sparse file says any size of itself
        raise tarfile.SpecialFileError(member)
    return tarfile.data_filter(member, folder)
