"""What a shell completes behind an option, for the study that the command names. It writes nothing.

Completion runs your own file only if a command has run the same text before.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin

import typer
from typer._click.shell_completion import CompletionItem, add_completion_class, split_arg_string
from typer._completion_classes import BashComplete

from search_spaces import library
from trainables.errors import LocusError

if TYPE_CHECKING:
    from search_spaces.study import Study


def budgets(ctx: typer.Context, incomplete: str) -> list[str]:
    """The budgets of the study."""
    study = _study(ctx)
    return _begun(study.budgets if study else (), incomplete)


def arms(ctx: typer.Context, incomplete: str) -> list[str]:
    """The arms of the study, behind those that are named already."""
    plan = getattr(_study(ctx), "plan", None)
    before, comma, _ = incomplete.rpartition(",")
    named = before.split(",")
    return _begun([f"{before}{comma}{arm}" for arm in getattr(plan, "arms", ()) if arm not in named], incomplete)


def presets(incomplete: str) -> list[str]:
    """The published ways of training."""
    from search_spaces.presets import PRESETS

    return _begun(PRESETS, incomplete)


def settings(ctx: typer.Context, incomplete: str) -> list[str]:
    """The paths of the study's recipe; behind `=`, what a path may be, or what it is."""
    study = _study(ctx)
    if study is None:
        return []
    path, equals, _ = incomplete.partition("=")
    if equals:
        return _begun([f"{path}={value}" for value in _values(study, path)], incomplete)
    from search_spaces.words import configuration

    found = _begun([f"{one.path}=" for one in configuration(study.base)], incomplete)
    if len(found) == 1:  # with a second one, the shell adds no blank behind `=`
        found += [f"{found[0]}{value}" for value in _values(study, found[0][:-1])]
    return found


def _values(study: Study, path: str) -> Iterator[str]:
    from trainables.recipe import kinds

    node, _, name = path.rpartition(".")
    try:
        owner, value = study.base.get(node) if node else study.base, study.base.get(path)
    except LocusError:
        return
    known = kinds.nodes().get(node, {}) if name == "kind" else {}
    field = type(owner).model_fields.get(name)
    legal = [*known] or [*_choices(field.annotation if field else None)]
    yield from legal or [value if isinstance(value, str) else json.dumps(value, default=lambda spec: spec.plain())]


def _choices(annotation: Any) -> Iterator[str]:
    """The words among which a field chooses."""
    if annotation is bool:
        yield from ("true", "false")
    elif get_origin(annotation) is Literal:
        yield from map(str, get_args(annotation))
    else:
        for part in get_args(annotation):
            yield from _choices(part)


def _study(ctx: typer.Context) -> Study | None:
    """The study that the command names; None for one that is not known, or whose code nobody has run here."""
    name = str(ctx.params.get("name") or [*ctx.args, ""][0])  # typer has not read it where an option lacks its value
    try:
        return library.find(name) if name in library.names() or _is_known(name) else None
    except (LocusError, OSError):
        return None


def _is_known(name: str) -> bool:
    """Whether a command has run the text of a file before."""
    from trainables.source import sha256_of
    from trainables.trusted import known

    path, dot, _ = name.partition(".py")
    file = Path(f"{path}{dot}")
    return bool(dot) and file.is_file() and sha256_of(file.name, file.read_text()) in known()


def _begun(names: Any, incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]


BREAKS = "=:@"
"""Where bash begins a new word, although a path, a value or an id goes on."""


class Bash(BashComplete):
    """As typer's, but for words that bash has cut at `BREAKS`: `encoding.kind=fourier`, `fourier-gamma@cpu`."""

    def get_completion_args(self) -> tuple[list[str], str]:
        place = int(os.environ["COMP_CWORD"])
        words = split_arg_string(os.environ["COMP_WORDS"])[: place + 1]
        whole: list[str] = []
        for word in words + [""] * (place + 1 - len(words)):
            if whole and (word in [*BREAKS] or whole[-1][-1:] in [*BREAKS]):
                whole[-1] += word
            else:
                whole.append(word)
        self.begun = re.sub(f"[^{BREAKS}]*$", "", whole[-1])
        return whole[1:-1], whole[-1]

    def format_completion(self, item: CompletionItem) -> str:
        return re.sub(r"([^\w@%+=:,./~-])", r"\\\1", str(item.value).removeprefix(self.begun))


def complete_whole_words() -> None:
    """Gives typer the completion of bash that knows words which bash cuts."""
    add_completion_class(Bash, "bash")
