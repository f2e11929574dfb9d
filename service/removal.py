"""Removes a study: its folder, its rows in MLflow, and the answers that no other study of the home uses."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from search_spaces.words import plural
from service.storage import editions
from service.storage.home import Home
from service.storage.journal import read
from service.tracking.experiment import forget as forget_in_experiment
from service.tracking.store import Store, look_up
from service.tracking.sync import check
from trainables.spec import LocusError


@dataclass(frozen=True)
class Forgettable:
    """What goes with a study: its folder, folders of answers, rows in MLflow. `shared`: how many answers stay."""

    home: Home
    id: str
    answers: tuple[Path, ...]
    shared: int
    store: Store | None

    def lines(self) -> list[str]:
        """What goes and what stays, in words."""
        folder = self.home.study(self.id).root
        found = [f"{folder} ({_size([folder])})"]
        if self.answers:
            found.append(f"{plural(len(self.answers), 'answer')} with weights ({_size(self.answers)})")
        if self.shared:
            found.append(f"kept: {plural(self.shared, 'answer')} that other studies use")
        if self.store:
            found.append(f"{plural(len(self.store.shown), 'run')} in MLflow")
        if uri := self.home.study(self.id).storage_uri:
            found.append(f"kept: the copies at {uri}")
        return found

    def remove(self) -> None:
        """Removes all of it. MLflow comes first: where it does not answer, nothing else is gone."""
        if self.store:
            self.store.delete(self.home.artifacts)
            forget_in_experiment(self.store)
        for folder in self.answers:
            shutil.rmtree(folder)
        shutil.rmtree(self.home.study(self.id).root)


def forgettable(home: Home, id: str, tracking: str | None = None) -> Forgettable:
    """What forgetting a study would remove. Nothing is removed yet.

    Raises: LocusError for an id that is not there, a study that runs, and an MLflow that does not answer.
    """
    edition = editions.stored(home, id)
    if driver := home.study(id).driver:
        where = f" {driver}" if driver.is_elsewhere() else ""
        raise LocusError(f"{id} must have ended to be forgotten, but a driver runs it{where}")
    check(home, tracking)
    mine = _keys(home, id)
    others = {key for other in home.ids() if other != id for key in _keys(home, other)}
    folders = [home.outcomes / key for key in sorted(mine - others)]
    shared = sum((home.outcomes / key).is_dir() for key in mine & others)
    answers = tuple(folder for folder in folders if folder.is_dir())
    return Forgettable(home, id, answers, shared, look_up(home, edition, tracking))


def _keys(home: Home, id: str) -> set[str]:
    """The keys of all runs that a study's journal names."""
    return {fact.run for fact in read(home.study(id).journal)[0] if hasattr(fact, "run")}


def _size(folders: list[Path] | tuple[Path, ...]) -> str:
    """The size of folders in words."""
    size = sum(file.stat().st_size for folder in folders for file in folder.rglob("*") if file.is_file())
    return f"{size / 2**20:.1f} MiB"
