"""What a person reads where a value is not legal: one sentence with a path, from pydantic's error.

`encoding.gamma must be a positive length in patches, got 0`. A word that is nearly right is named.
"""

from __future__ import annotations

import difflib
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unicodedata import normalize

from pydantic import BaseModel, ValidationError

OWN = "own"
"""Stands for the kinds of the user's own in a list of kinds."""

PAPERS = {"rope": "rotary", "sincos": "sinusoidal", "ape": "learnable", "rpe": "relative", "cpe": "peg", "cpvt": "peg"}
"""What papers call some kinds."""


def look_alikes(names: Iterable[str]) -> list[str]:
    """Returns names that the eye cannot tell apart, as Python escapes them: "'a' and 'a '", for each group of them."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(normalize("NFKC", name).strip(), []).append(name)
    return [" and ".join(map(ascii, same)) for same in alike.values() if len(same) > 1]


def sentence_of(cls: type[BaseModel], error: ValidationError) -> str:
    """Returns the sentence of the first error that pydantic found in a value of a class."""
    errors = error.errors(include_url=False)
    detail = errors[0]
    if legal := _of_several(errors):
        detail = {**detail, "loc": detail["loc"][:-1], "type": "several", "msg": legal}
    steps = list(_walk(cls, detail["loc"]))
    path = ".".join(step.name for step in steps if step.name)
    value, context = detail["input"], detail.get("ctx", {})
    node = steps[-1].annotation if steps else cls
    match detail["type"]:
        case "require":
            return f"{_join(path, context['path'])} must be {context['must']}, got {context['got']}"
        case "extra_forbidden":
            owner = steps[-1].owner
            return no_field(path, known(owner) if owner else [])
        case "missing" if path == "kind":
            return f'{cls.__name__}.kind must be declared, as in kind: str = "mine.py:{cls.__name__}", got nothing'
        case "missing":
            return f"{path} must be given"
        case "union_tag_not_found" if isinstance(value, Mapping):
            return f"{_join(path, 'kind')} must be given"
        case "union_tag_invalid":
            kinds, tag = _kinds(node), context["tag"]
            users = ["or file.py:Class"] * any(tag_of(member) == OWN for member in models(node))
            must = ", ".join(kinds + users)
            return f"{_join(path, 'kind')} must be one of {must}, got {tag!r}{did_you_mean(tag, kinds)}"
        case "union_tag_not_found" | "model_attributes_type" | "model_type":
            return _no_node(path or cls.__name__, node, value)
        case "dict_type" if _kinds(node) and typing.get_origin(steps[-1].annotation) is not dict:
            return _no_node(path or cls.__name__, node, value)
        case "literal_error":
            options = [word.strip("' ") for word in context["expected"].replace(" or ", ", ").split(",")]
            hint = did_you_mean(value, options)
        case _:
            hint = ""
    description = steps[-1].legal if steps else None
    message = detail["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    must = description or message.replace("a valid integer", "an integer").replace("a valid ", "a ")
    return f"{path or cls.__name__} must be {must}, got {short(value)}{hint}"


PLAIN = {"bool": "a boolean", "int": "a number", "float": "a number", "str": "a word"}
"""The plain types, as the last step of an error's location names them where several are legal."""


def _of_several(errors: Sequence[Mapping[str, Any]]) -> str:
    """Returns what may stand where a value is of none of several plain types; nothing if the first error is another."""
    if not (loc := errors[0]["loc"]) or loc[-1] not in PLAIN:
        return ""
    legal = [error["loc"][-1] for error in errors if error["loc"][:-1] == loc[:-1] and error["loc"][-1] in PLAIN]
    if len(legal) < 2:
        return ""
    *others, last = dict.fromkeys(PLAIN[error] for error in legal)
    return f"{', '.join(others)} or {last}" if others else last


def _no_node(path: str, node: Any, value: object) -> str:
    """Returns the sentence for a value where a node must be: the nodes there are, in Python or JSON as the value is."""
    kinds = _kinds(node)
    if isinstance(value, str) and kinds:
        near = next(iter(difflib.get_close_matches(value, kinds, n=1)), "")
        example = f'; did you mean {path}.kind={near}, or {{"kind": "{near}"}}?' if near else ""
        return f"{path} must be a node with a kind ({', '.join(kinds)}), got {short(value)}{example}"
    names = [member.__name__ for member in models(node) if tag_of(member) != OWN]
    return f"{path} must be {'one of ' * (len(names) > 1)}{', '.join(names)}, got {short(value)}"


def no_field(path: str, names: list[str]) -> str:
    """Returns the sentence for a path that leads nowhere; `names` are the fields of the node where it ends."""
    listed = f"; known: {', '.join(names)}" if names else ""
    return f"no field '{path}'{listed}{did_you_mean(path.rpartition('.')[2], names)}"


def did_you_mean(word: object, names: Iterable[str]) -> str:
    """Returns `; did you mean gamma?` if one of the names is near a word and none is the word; else nothing."""
    names = [*names]
    if not isinstance(word, str) or word in names:
        return ""
    near = [PAPERS[word]] if PAPERS.get(word) in names else difflib.get_close_matches(word, names, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def near_path(path: Path) -> str:
    """Suggests, as `did_you_mean` does, what lies beside a file or folder that is not there, of the same ending."""
    try:
        beside = [each.name for each in path.parent.iterdir() if each.suffix == path.suffix and each != path]
    except OSError:
        return ""
    near = difflib.get_close_matches(path.name, beside, n=1)
    return f"; did you mean {path.with_name(near[0])}?" if near else ""


def known(cls: type[BaseModel]) -> list[str]:
    """Returns the fields of a class, `kind` first, those given by name alone last."""
    fields = cls.model_fields
    return sorted(fields, key=lambda name: (name != "kind", bool(fields[name].kw_only)))


def _kinds(node: Any) -> list[str]:
    """Returns the kinds that a node may have, the user's own apart."""
    return [str(tag) for member in models(node) if (tag := tag_of(member)) not in (None, OWN)]


@dataclass(frozen=True)
class _Step:
    """A step of a pydantic location.

    `name`: in our path, or ''. `owner`: the class in which the name stands. `legal`: what may stand there.
    `annotation`: the type there.
    """

    name: str
    owner: type[BaseModel] | None
    legal: str | None
    annotation: Any


def _walk(cls: Any, loc: tuple[int | str, ...]) -> Iterator[_Step]:
    annotation: Any = cls
    for step in loc:
        members = [*models(annotation)]
        tagged = [member for member in members if tag_of(member) == step]
        if tagged:
            annotation = tagged[0]
            yield _Step("", annotation, None, annotation)
            continue
        owner = next((member for member in members if step in member.model_fields), members[0] if members else None)
        field = owner.model_fields.get(step) if owner is not None and isinstance(step, str) else None
        annotation = field.annotation if field else annotation
        yield _Step(str(step), owner, field.description if field else None, annotation)


def tag_of(cls: type[BaseModel]) -> Any:
    """Returns the kind of a class, `OWN` for a user's own, None for a class without kinds."""
    field = cls.model_fields.get("kind")
    if field is None:
        return None
    return OWN if field.is_required() else field.default


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Yields every model class named in a type annotation."""
    if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
        if issubclass(annotation, BaseModel):
            yield annotation
        return
    for argument in typing.get_args(annotation):
        yield from models(argument)


def _join(path: str, rest: str) -> str:
    return f"{path}.{rest}" if path and rest else path or rest


def short(value: object) -> str:
    """Returns a value as it was given, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
