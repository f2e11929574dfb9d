"""What a job tells its client: facts in the job's output, and an archive of a study's result.

A fact is a line of JSON with a fixed beginning, among the lines for people. Ray takes no metadata after a job was sent,
and these facts are known later: the study's id there, the address of its MLflow run, how it ended. A refusal and an
archive travel in the same way.

In the archive are study.json, the journal, the home's id, and each run's answer with the files of its probes. Files of
3,000 runs have the same words again and again, so they are compressed as one stream.
"""

from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from service.storage.facts import Ended
from service.storage.home import Home
from service.storage.journal import read_on
from trainables.kept import cache_folder
from trainables.spec import LocusError

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
        known = {(fact.run, fact.code) for fact in facts if isinstance(fact, Ended)}
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


def fetched(content: bytes, origin: str) -> Home:
    """Unpacks an archive into a home on this machine, beside what was fetched from the same home before.

    `origin` says where the weights stayed. Raises: ArchiveError for an archive that is damaged, or holds anything but
    files within its folder.
    """
    cache = cache_folder()
    if cache is None:
        raise ArchiveError("XDG_CACHE_HOME must name a folder for fetched results, for this user has no home folder")
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".draft-", dir=cache) as draft:
        unpack(content, Path(draft))
        id = Path(draft) / "id"
        home = Home(cache / hashlib.sha256(id.read_bytes() if id.is_file() else b"").hexdigest()[:16])
        home.root.mkdir(exist_ok=True)
        home.fetched.write_text(origin, encoding="utf-8")
        files = [path for path in Path(draft).rglob("*") if path.is_file()]
        for path in sorted(files, key=lambda path: path.suffix == ".jsonl"):  # a journal comes after its answers
            target = home.root / path.relative_to(draft)
            target.parent.mkdir(parents=True, exist_ok=True)
            os.replace(path, target)
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
