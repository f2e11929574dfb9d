"""A home that was copied or moved: its own MLflow store follows it, and a copy touches nothing of its original.

MLflow notes the whole path of each run's files. So after a move the paths are those of the old place, and in a copy
those of the original. They are brought up to date in the database's own tables, for MLflow has no call for it.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import quote
from uuid import uuid4

from filelock import FileLock

from service.storage.home import Home
from service.tracking.databases import check_file, in_a_sentence, is_there
from service.tracking.store import HOME, MARK, NOTE, WRITTEN, fingerprint
from service.tracking.views import PREFIX, renamed

PLACES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)
"""Where MLflow's tables hold a path of files."""


def settle(home: Home) -> str:
    """Lets a copied or a moved home be one of its own, once; what was done, in a sentence. Call it before a study runs.

    A copy gets a name of its own, so that on a shared MLflow the runs of its original are not taken for its own.
    Raises: MlflowError if the home's own database cannot be read.
    """
    original, (name, place) = home.original, home.known_as
    if name is None or place is None or not (original or home.moved_from):
        return ""
    check_file(home.tracking)
    new = uuid4().hex[:12] if original else name
    with FileLock(home.root / "mlflow.lock"):
        try:
            if is_there(home.tracking):
                _follow(home, place, name, new)
            else:
                home.name_anew(new)
        except sqlite3.Error as error:
            raise in_a_sentence(error, f"sqlite:///{home.database}") from None
    if original:
        return f"this home is a copy of {place}: it has an id of its own now, and nothing of it is written there"
    return f"this home was moved here from {place}: MLflow's files are those that lie here now"


def _follow(home: Home, place: Path, name: str, new: str) -> None:
    """Changes the database and the home's name together: neither, where one of them fails."""
    with closing(sqlite3.connect(f"file:{quote(str(home.database))}?mode=rw", uri=True)) as base, base:
        _move_files(base, place, home.root)
        if new != name:
            _rename(base, name, new)
        home.name_anew(new)


def _move_files(base: sqlite3.Connection, old: Path, new: Path) -> None:
    """Lets every path of files that lay in the old home be the one in the new home."""
    before, after = old.as_uri(), new.as_uri()
    for table, column in PLACES:
        base.execute(
            f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR substr({column}, 1, ?) = ?",
            (after, len(before) + 1, before, len(before) + 1, f"{before}/"),
        )


def _rename(base: sqlite3.Connection, old: str, new: str) -> None:
    """Lets the runs and the views of a copy be those of its own name."""
    base.execute("UPDATE tags SET value = ? WHERE key = ? AND value = ?", (new, HOME, old))
    for experiment, tags in _tags(base).items():
        for key, value in tags.items():
            for kind in (PREFIX, MARK):
                if key.startswith(f"{kind}{old}."):
                    text = renamed(value, old, new) if kind == PREFIX else value
                    base.execute(
                        "UPDATE experiment_tags SET key = ?, value = ? WHERE experiment_id = ? AND key = ?",
                        (f"{kind}{new}.{key.removeprefix(f'{kind}{old}.')}", text, experiment, key),
                    )
        for key, value in _note(tags, old, new):
            base.execute(
                "UPDATE experiment_tags SET value = ? WHERE experiment_id = ? AND key = ?", (value, experiment, key)
            )


def _tags(base: sqlite3.Connection) -> dict[int, dict[str, str]]:
    found: dict[int, dict[str, str]] = {}
    for experiment, key, value in base.execute("SELECT experiment_id, key, value FROM experiment_tags"):
        found.setdefault(experiment, {})[key] = value
    return found


def _note(tags: dict[str, str], old: str, new: str) -> Iterator[tuple[str, str]]:
    """The description with the new name, where locus wrote it."""
    note = tags.get(NOTE, "")
    if fingerprint(note) in tags.get(WRITTEN, "").split():
        text = note.replace(old, new)
        yield NOTE, text
        yield WRITTEN, fingerprint(text)
