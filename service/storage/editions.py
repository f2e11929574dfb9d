"""Finds and stores editions: an edition is a study at one budget. Its id never gets another definition."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from search_spaces import library
from search_spaces.study import Ablation, Edition
from search_spaces.words import value_words
from service.storage import plain_json
from service.storage.home import Home
from trainables.own import is_own
from trainables.sentence import did_you_mean
from trainables.spec import LocusError
from trainables.trusted import UntrustedError
from trainables.whole_files import sealed, unsealed, write_whole


def carried(home: Home, id: str) -> dict[tuple[str, str], None]:
    """Returns the (name, text) of each file of code that a study's definition, journal or answers carry, as keys."""

    def values_in(path: Path, *, is_sealed: bool) -> list[Any]:
        values = []
        with suppress(OSError):
            content = path.read_bytes()
            for part in [unsealed(content) or b""] if is_sealed else content.splitlines():
                with suppress(ValueError):
                    values.append(plain_json(part))
        return values

    files = home.study(id)
    values = [*values_in(files.study, is_sealed=True), *values_in(files.journal, is_sealed=False)]
    runs = {value["run"] for value in values if isinstance(value, dict) and isinstance(value.get("run"), str)}
    for path in home.outcomes.glob("*/*.json"):
        if path.parent.name in runs:
            values += values_in(path, is_sealed=True)
    return dict.fromkeys(source for value in values for source in sources(value))


def has_own(edition: Edition) -> bool:
    """Returns whether a definition holds a class of a user, whose files may change while the definition stays."""
    return any(True for _ in sources(edition.plain()))


def sources(value: Any) -> Iterator[tuple[str, str]]:
    """Yields the name of each file of user code in a plain value (of JSON types), and the text of that file."""
    if isinstance(value, list):
        for item in value:
            yield from sources(item)
    if not isinstance(value, dict):
        return
    for name, item in value.items():
        beside = value.get(f"{name.removesuffix('kind')}source")
        if name.endswith("kind") and is_own(item) and isinstance(beside, str):
            yield item.partition(":")[0], beside
        yield from sources(item)


class EditionError(LocusError):
    """The error for an id that nobody has run, and for a definition that differs from the one stored under its id."""


class DamagedError(EditionError):
    """The error for a study's definition whose file was changed after locus wrote it."""


def stored(home: Home, id: str) -> Edition:
    """Returns the edition that the home stores under an id.

    Raises: EditionError for an id that is not in this home, and for a file that is damaged, of another version of
    locus, or of another id.
    """
    ids = home.ids()
    if id not in ids:  # a name such as ../x would lead out of the home
        hint = did_you_mean(id, ids)
        raise EditionError(f"no study {id!r} in {home.root}; known: {', '.join(ids) or 'none yet'}{hint}")
    path = home.study(id).study
    content = unsealed(path.read_bytes())
    if content is None:
        raise DamagedError(
            f"{path} is damaged (its bytes differ from the digest at its end); run the study again to write this file "
            "again; its answers still count"
        )
    try:
        edition = Edition.read_text(content.decode())
    except UntrustedError:
        raise
    except LocusError as error:
        raise EditionError(
            f"{path} cannot be read ({error}); use the locus that wrote it, or start the study again under another "
            "name (--as WORD)"
        ) from None
    if edition.id != id:  # a copy: what is done to it would be done to the study that it was copied from
        raise EditionError(
            f"{path} must be of {id}, got the study {edition.id}; give the folder that name again, or move it out of "
            f"{path.parent.parent}"
        )
    return edition


def latest(home: Home, name: str) -> str:
    """Returns the id that a name means: the name if it is an id, else the id of its latest edition.

    Raises: EditionError if the home has no edition of that name.
    """
    ids = home.ids()
    named = [id for id in ids if id == name or id.partition("@")[0] == name]
    if name in ids:
        return name
    if not named:
        near = did_you_mean(name, dict.fromkeys(near for id in ids for near in (id.partition("@")[0], id)))
        raise EditionError(
            f"no study {name!r} was run in {home.root}; known: {', '.join(ids) or 'none yet'} (locus run NAME starts "
            f"one){near}"
        )
    return named[-1]


def only(home: Home, name: str) -> str:
    """Returns the id that a name means, for a command that cannot be undone. Raises: EditionError unless it is one."""
    several = [id for id in home.ids() if id.partition("@")[0] == name]
    if len(several) > 1:
        raise EditionError(f"{name} must name one version, got {len(several)}: {', '.join(several)}")
    return latest(home, name)


def of_name(home: Home, name: str) -> Edition | None:
    """Returns the latest edition of a study that is not in the library.

    It returns None if the library has a study of this name, or this home has no edition of it.
    Raises: EditionError if the working folder has a file of that name, which may hold another study.
    """
    if name in library.names() or not any(id.partition("@")[0] == name for id in home.ids()):
        return None
    id = latest(home, name)
    if Path(f"{name}.py").is_file():
        raise EditionError(f"{name} may be ./{name}.py or {id}, which {home.root} holds: type one of the two")
    return stored(home, id)


def of_id(home: Home, id: str) -> Edition:
    """Returns the edition of an id: from the library, else from this home. Raises: EditionError if neither has it."""
    name, _, rest = id.partition("@")
    if name in library.names() and rest in library.find(name).budgets:
        return library.find(name).at(rest)
    if id in home.ids():
        return stored(home, id)
    named = [f"{name}@{budget}" for budget in library.find(name).budgets] if name in library.names() else []
    hint = did_you_mean(id, [*home.ids(), *named])
    raise EditionError(f"no study {id!r} in {home.root} (locus status lists all){hint}")


def resolve_edition(edition: Edition, home: Home) -> Edition:
    """Returns the edition to run: the given one, with the order of arms that the home has stored for it.

    The journal numbers arms (the settings that the study compares) in the stored order, so new arms come last. If a
    person named the arms to run, the stored arms stay, with their claims and published numbers: the number of arms
    never falls. A class of the user is read from its files again, which may be newer than the object in memory.
    Raises: EditionError, which says the difference, if the stored definition is another one.
    """
    edition = Edition.read(edition.plain()) if has_own(edition) else edition
    if edition.id not in home.ids():
        return edition
    try:
        before = stored(home, edition.id)
    except DamagedError:  # answers are known by their content, so those of another definition do not count
        return edition
    study, plan, plan_before = edition.study, edition.study.plan, before.study.plan
    if isinstance(plan, Ablation) and isinstance(plan_before, Ablation) and [*plan.arms] != [*plan_before.arms]:
        keep = edition.some_arms or before.some_arms
        changed: dict[str, Any] = {"plan": plan.following(plan_before, keep=keep)}
        if keep:
            left = {*before.study.names()} - {*study.names()}
            claims = [claim for claim in before.study.claims if left & {*claim.names}]
            published = [entry for entry in before.study.published if entry.who in left]
            changed |= {"claims": (*study.claims, *claims), "published": (*study.published, *published)}
        edition = edition.model_copy(update={"study": study.model_copy(update=changed), "some_arms": keep})

    now = edition.definition
    for name in edition.study.plan.arms:
        if name not in before.study.plan.arms:
            now["plan"]["arms"].pop(name)
    changes = list(_differences(before.definition, now))
    if changes:
        more = f" and {len(changes) - 3} more" if len(changes) > 3 else ""
        raise EditionError(
            f"{edition.id} has another definition here: {'; '.join(changes[:3])}{more}. "
            'version="WORD" starts another version'
        )
    return edition


def with_fewer_arms(edition: Edition, home: Home) -> Edition:
    """Returns the edition, with the id of the latest stored one that differs from it only by fewer arms, if any."""
    definition, arms, ids = edition.definition, {*edition.study.plan.arms}, home.ids()
    for id in [] if edition.id in ids else reversed(ids):
        if id.startswith(f"{edition.study.name}@{edition.budget}~"):
            with suppress(LocusError):
                before = stored(home, id)
                common = {name: definition["plan"]["arms"][name] for name in before.study.plan.arms if name in arms}
                if before.definition == {**definition, "plan": {**definition["plan"], "arms": common}}:
                    return edition.model_copy(update={"mark": before.mark})
    return edition


def save_edition(edition: Edition, home: Home) -> None:
    """Writes the result of `resolve_edition` to the folder of its study."""
    write_whole(home.study(edition.id).study, sealed(edition.plain()))


def _differences(before: Any, now: Any, path: str = "") -> Iterator[str]:
    """Yields a sentence for each value that differs between two definitions; `path` leads to the value."""
    if isinstance(before, dict) and isinstance(now, dict):
        for name in sorted({*before, *now}):
            yield from _differences(before.get(name), now.get(name), f"{path}.{name}" if path else name)
    elif before != now:
        texts = ["the default" if value is None else value_words(value) for value in (before, now)]
        was, is_now = (text if len(text) <= 60 else text[:57] + "..." for text in texts)
        yield f"{path} was {was}, is {is_now}"
