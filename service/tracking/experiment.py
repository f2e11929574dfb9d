"""A study's part of its experiment: its views, and its line in the experiment's description.

Studies of one family share an experiment. Each keeps its own line in a tag, and the description is made of all lines.
"""

from __future__ import annotations

from search_spaces.study import Edition
from service.tracking.notes import experiment_note
from service.tracking.store import Store
from service.tracking.views import NAMES, PREFIX, name, runs_page, views

NOTE = "mlflow.note.content"
LINE = "locus.study."
"""Begins the tags that hold a study's line."""


def describe(store: Store, edition: Edition, began: float) -> None:
    """Brings the experiment's tags up to date. `began`: when the study began, in seconds since 1970."""
    there = store.experiment_tags()
    tags = views(edition.id, edition.study, began, store.metrics()) | {_tag(edition.id): _line(store, edition)}
    store.describe({**tags, NOTE: _note(store, there | tags)})


def forget(store: Store) -> None:
    """Removes a study's views and its line from the experiment."""
    there = store.experiment_tags()
    mine = [_tag(store.study), *(f"{PREFIX}{name(store.study, level)}" for level in NAMES)]
    left = {tag: value for tag, value in there.items() if tag not in mine}
    store.describe({**dict.fromkeys(mine), NOTE: _note(store, left)})


def _tag(id: str) -> str:
    return LINE + name(id, "line")


def _line(store: Store, edition: Edition) -> str:
    """A study's id, its question, and a link to each view."""
    page = f"#{runs_page(store)}&viewStateShareKey="
    found = ", ".join(f"[{words}]({page}{name(edition.id, level)})" for level, words in NAMES.items())
    return f"**{edition.id}**: {edition.study.question} {found}"


def _note(store: Store, tags: dict[str, str]) -> str:
    return experiment_note(store.family, {tag: value for tag, value in tags.items() if tag.startswith(LINE)})
