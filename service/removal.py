"""Removes a study: its folder, its rows in MLflow, and the answers that no other study of the home uses."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from search_spaces.words import plural
from service.storage import editions
from service.storage.facts import KEY
from service.storage.home import Home, check_removable, remove_member
from service.storage.journal import read
from service.tracking.store import Store, look_up
from service.tracking.sync import check
from service.tracking.views import leave
from trainables.spec import LocusError


@dataclass(frozen=True)
class Forgettable:
    """Names what is removed with a study: its folder, its answers (stored outcomes of runs) and its rows in MLflow.

    `answers` are the keys of the answers that no other study uses. `shared` counts the answers that stay because other
    studies use them. `store` has the rows; it is None if MLflow does not show the study.
    """

    home: Home
    id: str
    answers: tuple[str, ...]
    shared: int
    store: Store | None

    def lines(self) -> list[str]:
        """Returns lines that name what would be removed, and what would be kept, with sizes."""
        folder = self.home.study(self.id).root
        lines = [f"{folder} ({_size([folder])})"]
        if self.answers:
            size = _size([self.home.outcomes / key for key in self.answers])
            lines.append(f"{plural(len(self.answers), 'answer')} with weights ({size})")
        if self.shared:
            lines.append(f"kept: {plural(self.shared, 'answer')} that other studies use")
        if self.store:
            lines.append(f"{plural(len(self.store.shown), 'run')} in MLflow")
        links = [folder, *(self.home.outcomes / key for key in self.answers)]
        lines += [f"kept: {path.resolve()}, to which {path} is a link" for path in links if path.is_symlink()]
        if uri := self.home.study(self.id).storage_uri:
            lines.append(f"kept: the copies at {uri}")
        return lines

    def remove(self) -> int:
        """Removes the study, and returns the number of answers that stay because another study began to use them.

        The rows in MLflow are removed first: if MLflow does not answer, nothing else is gone. Raises: LocusError,
        before anything is removed, where a driver runs the study now, and for a folder that cannot be removed.
        """
        home, folder, free = self.home, self.home.study(self.id), set(self.answers)
        _refuse_driven(home, self.id)
        with ExitStack() as locks:
            try:  # so that no driver begins
                locks.enter_context(FileLock(folder.lock, timeout=0))
            except Timeout:
                raise LocusError(
                    f"{self.id} must have ended to be forgotten, but a driver began it; nothing was removed"
                ) from None
            _check_removable(home, self.id, self.answers)
            if self.store:
                self.store.delete(home.artifacts)
                leave(self.store)

            # last: MLflow may take long, and other studies may begin; from here on no driver can claim an answer
            for claim in sorted(home.claims.glob("*.*")):
                key = claim.name.partition(".")[0]
                if key in free:
                    try:
                        locks.enter_context(FileLock(claim, timeout=0))
                    except Timeout:
                        free.remove(key)
            going = free - _used(home, self.id)
            for key in going:
                remove_member(home.outcomes, key)
            remove_member(folder.root.parent, self.id)
        return len(self.answers) - len(going)


def forgettable(home: Home, id: str, tracking: str | None = None) -> Forgettable:
    """Returns what forgetting a study would remove. Raises: LocusError if `remove` could not remove it."""
    edition = editions.stored(home, id)
    _refuse_driven(home, id)
    check(home, tracking)
    mine, others = {fact.run for fact in read(home.study(id).journal)[0] if hasattr(fact, "run")}, _used(home, id)
    present = {key for key in mine if (home.outcomes / key).is_dir()}
    answers = tuple(sorted(present - others))
    _check_removable(home, id, answers)
    return Forgettable(home, id, answers, len(present & others), look_up(home, edition, tracking))


def _check_removable(home: Home, id: str, answers: Sequence[str]) -> None:
    """Refuses to remove folders that lie outside the home, or cannot be removed. Raises: LocusError."""
    studies = home.study(id).root.parent
    for folder in (studies, home.outcomes, home.artifacts):
        if not folder.resolve().is_relative_to(home.root.resolve()):
            raise LocusError(
                f"{folder} must lie in its home for a study to be forgotten, got a link to {folder.resolve()}, "
                "which other homes may have, too; nothing was removed"
            )
    check_removable(studies, id)
    for key in answers:
        check_removable(home.outcomes, key)


def _refuse_driven(home: Home, id: str) -> None:
    """Refuses to forget a study while a driver runs it. Raises: LocusError."""
    if driver := home.study(id).driver:
        where = f" {driver}" if driver.is_elsewhere() else ""
        raise LocusError(f"{id} must have ended to be forgotten, but a driver runs it{where}; nothing was removed")


def _used(home: Home, id: str) -> set[str]:
    """Returns everything that looks like a key of a run in the journals of all studies but `id`.

    A line that cannot be read counts, too. So do journals that were set aside, because their studies take these answers
    again, and the copies that the client of a cloud drive makes (`journal (1).jsonl`).
    Raises: LocusError for a study whose folder cannot be read, such as a link to a disk that is away.
    """
    used, journal = set[bytes](), home.study(id).journal.stem
    for folder in sorted(path for path in (home.root / "studies").iterdir() if path.name != id):
        try:
            files = [file for file in folder.iterdir() if file.name.startswith(journal)]
            used.update(key for file in files for key in re.findall(KEY.encode(), file.read_bytes()))
        except NotADirectoryError:
            continue
        except OSError as error:
            raise LocusError(
                f"{folder} must be there, so that its study keeps its answers, got {error.strerror}; move it out of "
                f"{folder.parent} if it is not needed; nothing was removed"
            ) from None
    return {key.decode() for key in used}


def _size(folders: list[Path]) -> str:
    """Returns the size of folders in words. Files behind links are not counted, because they stay."""
    files = (file for folder in folders if not folder.is_symlink() for file in folder.rglob("*"))
    size = sum(file.lstat().st_size for file in files if file.is_file())
    return f"{size / 2**20:.1f} MiB"
