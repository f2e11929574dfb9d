"""A study's part of its experiment: its views, and its place in the experiment's description.

Editions of a study share an experiment, and so do homes on one server. Its description is made of what the tags of the
views say of their studies. A description that locus did not write stays as it is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from search_spaces.study import Edition
from service.tracking.row_words import experiment_note
from service.tracking.store import NOTE, WRITTEN, Store, fingerprint
from service.tracking.views import NAMES, PREFIX, name, runs_page, views


def describe(store: Store, edition: Edition, began: float) -> None:
    """Brings the experiment's tags up to date. `began`: when the study began, in seconds since 1970."""
    tags = views(store.home, edition.id, edition.study, began, store.metrics())
    there = store.experiment_tags()
    store.describe({**tags, **_description(there, _note(there | tags, store.experiment))})
    for place in store.left:
        _leave(store, place)
    store.left.clear()


def forget(store: Store) -> None:
    """Removes a study's views from every experiment that shows it, and its part of their descriptions."""
    for place in (store.experiment, *store.left):
        _leave(store, place)


def _leave(store: Store, place: str) -> None:
    mine = {f"{PREFIX}{name(store.home, store.study, level)}" for level in NAMES}
    there = store.experiment_tags(place)
    left = {tag: value for tag, value in there.items() if tag not in mine}
    store.describe({**dict.fromkeys(mine), **_description(there, _note(left, place))}, place)
    store.unmark(place)


def _description(there: dict[str, str], note: str | None) -> dict[str, str | None]:
    """The tags of a new description; none if a person wrote the one that is there.

    The fingerprints of both come first, so that a crash before the second call makes none of it a person's.
    """
    known = there.get(WRITTEN, "").split()
    old, new = fingerprint(there.get(NOTE, "")), fingerprint(note or "")
    if old not in known or (old == new and known == [new]):
        return {}
    return {WRITTEN: new if old == new else f"{old} {new}", NOTE: note}


def _note(tags: dict[str, str], place: str) -> str | None:
    """The description of an experiment; None if no study is left."""
    studies = sorted(_studies(tags, runs_page(place)), key=lambda found: -found[0])
    homes = Counter(study for _, _, study, _, _ in studies)
    named = [
        (f"{study} (home {home})" if homes[study] > 1 else study, question, link)
        for _, home, study, question, link in studies
    ]
    return experiment_note(named) if named else None


def _studies(tags: dict[str, str], page: str) -> Iterator[tuple[int, str, str, str, str]]:
    """When each study began, its home, id, question and the link to its trials. A user's own view says no study."""
    for tag, value in tags.items():
        if tag.startswith(PREFIX) and tag.endswith(".trials"):
            said = json.loads(value)
            if {"study", "home"} <= said.keys():
                link = f"#{page}&viewStateShareKey={tag.removeprefix(PREFIX)}"
                yield said["createdAt"], said["home"], said["study"], said["question"], link
