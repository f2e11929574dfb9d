"""A study's part of its experiment: its views, and its place in the experiment's description.

Studies of one family share an experiment. Its description is made of what the tags of the views say of their studies.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from search_spaces.study import Edition
from service.tracking.notes import experiment_note
from service.tracking.store import Store
from service.tracking.views import NAMES, PREFIX, name, runs_page, views

NOTE = "mlflow.note.content"


def describe(store: Store, edition: Edition, began: float) -> None:
    """Brings the experiment's tags up to date. `began`: when the study began, in seconds since 1970."""
    tags = views(store.home, edition.id, edition.study, began, store.metrics())
    store.describe({**tags, NOTE: _note(store, store.experiment_tags() | tags)})


def forget(store: Store) -> None:
    """Removes a study's views from the experiment and its description."""
    mine = {f"{PREFIX}{name(store.home, store.study, level)}" for level in NAMES}
    left = {tag: value for tag, value in store.experiment_tags().items() if tag not in mine}
    store.describe({**dict.fromkeys(mine), NOTE: _note(store, left)})


def _note(store: Store, tags: dict[str, str]) -> str | None:
    """The description; None where no study is left."""
    studies = sorted(_studies(store, tags), key=lambda found: -found[0])
    homes = Counter(study for _, _, study, _, _ in studies)
    named = [
        (f"{study} (home {home})" if homes[study] > 1 else study, question, link)
        for _, home, study, question, link in studies
    ]
    return experiment_note(named) if named else None


def _studies(store: Store, tags: dict[str, str]) -> Iterator[tuple[int, str, str, str, str]]:
    """When each study began, its home, id, question and the link to its trials. A user's own view says no study."""
    for tag, value in tags.items():
        if tag.startswith(PREFIX) and tag.endswith(".trials"):
            said = json.loads(value)
            if {"study", "home"} <= said.keys():
                link = f"#{runs_page(store)}&viewStateShareKey={tag.removeprefix(PREFIX)}"
                yield said["createdAt"], said["home"], said["study"], said["question"], link
