"""How names, counts, durations and values of recipes are written in sentences, tables and MLflow.

One function for each, so that a value reads the same wherever it is shown. The source of a user's own file is never
shown as a value: `mine.py:Spiral turns=3` is shown in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from search_spaces.space import Above, Choice, Domain, Integer, Real, Space, Subset
from trainables.own import is_own
from trainables.recipe.looked_up import FOUND
from trainables.spec import Spec


def quoted(name: str) -> str:
    """Returns a name in a sentence: names of arms may hold commas and blanks."""
    return f"“{name}”"


def plural(count: int, noun: str) -> str:
    """Writes a count with its noun: `1 seed`, `3 seeds`, `2 counts of seeds`."""
    first, space, rest = noun.partition(" of ")
    return f"{count:,} {first}{'' if count == 1 else 's'}{space}{rest}"


def listed(words: list[str]) -> str:
    """Joins words: `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def duration(seconds: float) -> str:
    """Writes seconds as `3 h 05 min`, `4 min 10 s`, `12 s`, `3.2 s`."""
    whole = round(seconds)
    if whole >= 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    if whole >= 60:
        return f"{whole // 60} min {whole % 60:02d} s"
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:.1f} s"


def clock(seconds: float) -> str:
    """Returns a duration for people: 03:10, 2:05:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"


def rough_time(minutes: float) -> str:
    """Writes minutes as `4.3 s`, `28 min`, `2.2 h`, `150 h`: two digits, as another machine may need the time, too."""
    seconds = 60 * minutes
    whole = (max(minutes, 1.0), "min") if minutes < 89.5 else (minutes / 60, "h")
    amount, unit = (seconds, "s") if seconds < 59.5 else whole
    return f"{float(f'{amount:.2g}'):,g} {unit}"


def value_words(value: Any, *, digits: int = 6, between: str = ", ") -> str:
    """Returns a value of a recipe in words: a number in few digits, a list joined, a node by its kind and its values.

    `digits`: of a float. `between`: what joins the entries of a list.
    """
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.{digits}g}"
    if isinstance(value, Spec):
        value = value.identity()
    if isinstance(value, Mapping):
        return _node(value, digits)
    if isinstance(value, tuple | list):
        return between.join(value_words(item, digits=digits) for item in value) or "none"
    return str(value)


def without_sources(values: Mapping[str, Any]) -> dict[str, Any]:
    """Returns plain values, or `{path: value}`, without the text of the user's own files.

    What was read from a path of images is left out, too.
    """
    own = {path.removesuffix("kind") + "source" for path, value in values.items() if _names_own(path, value)}
    omitted = FOUND if {"data", "data.path"} & {*values} else ()
    return {path: _cleaned(value) for path, value in values.items() if path not in own and path not in omitted}


def setting_words(values: Mapping[str, Any]) -> list[str]:
    """Writes `{path: value}` as `path = value`, one string per path."""
    return [f"{path} = {value_words(value)}" for path, value in without_sources(values).items()]


def domain_words(domain: Domain) -> str:
    """Says what a search may try: `0.1 to 40, on a log scale`, `one of 1, 2`."""
    match domain:
        case Choice():
            return f"one of {value_words(domain.options)}"
        case Subset():
            return f"any of {value_words(domain.of)}"
        case Integer():
            steps = f", in steps of {domain.step}" if domain.step > 1 else ""
            return f"{domain.low} to {domain.high}{steps}"
        case Real():
            return _real_words(domain)
        case Above():
            return _real_words(domain.factor, f" times {domain.other}")


def space_words(space: Space) -> dict[str, str]:
    """Says what a search may try, by path: `{"encoding.gamma, if encoding.kind is fourier": "0.1 to 40"}`."""
    return {opened_words(path, given): domain_words(domain) for path, domain, given in space.opened()}


def opened_words(name: str, given: tuple[str, str] | None) -> str:
    """Returns the name of a searched path, and what opens it: `encoding.gamma, if encoding.kind is fourier`."""
    return f"{name}, if {given[0]} is {given[1]}" if given else name


def _real_words(real: Real, of: str = "") -> str:
    ends = f"{value_words(real.low)} to {value_words(real.high)}{of}"
    scale = ", on a log scale" if real.log else ""
    return ends + scale + (f", {real.points} points on a grid" if real.points else "")


@dataclass(frozen=True)
class Setting:
    """One value of a recipe, and its default where it differs."""

    path: str
    value: str
    default: str | None


def configuration(recipe: Spec, path: str = "", default: Any = None) -> Iterator[Setting]:
    """Yields every value of a recipe by its path. The text of a user's own file is left to study.json.

    A field of a user's own class, and the kind of a node that has no default, differ from theirs: they have none.
    """
    for name in recipe.fields():
        if name == "source":
            continue
        value, field = getattr(recipe, name), type(recipe).model_fields.get(name)
        usual = field.get_default(call_default_factory=True) if field and not field.is_required() else None
        if name == "kind":
            usual = getattr(default, "kind", None)
        here = f"{path}.{name}" if path else name
        if isinstance(value, Spec):
            yield from configuration(value, here, usual)
        elif isinstance(value, tuple) and value and isinstance(value[0], Spec):
            for number, part in enumerate(value):
                yield from configuration(part, f"{here}.{number}")
        else:
            given = field is None or field.is_required() or value != usual
            yield Setting(here, value_words(value), value_words(usual) if given else None)


MOST_LETTERS = 200
"""How long the name of an arm may be; names are heads of tables, and tags in MLflow."""


def is_name(text: str) -> bool:
    """Returns whether a text can name an arm: one line of letters that can be printed, none too long for a table."""
    return bool(text.strip()) and text.isprintable() and len(text) <= MOST_LETTERS


def shortened(text: str) -> str:
    """Returns a text as a sentence shows it: at most 60 letters, line breaks and the like as Python writes them."""
    plain = text if text.isprintable() else ascii(text)[1:-1]
    return plain if len(plain) <= 60 else f"{plain[:57]}..."


def short(values: dict[str, Any]) -> str:
    """Returns a point in few characters: `gamma=2.31`."""
    plain = without_sources(values)
    lasts = [path.rpartition(".")[2] for path in plain]
    names = [last if lasts.count(last) == 1 else path for path, last in zip(plain, lasts, strict=True)]
    words = (value_words(value, digits=3, between="+") for value in plain.values())
    return " ".join(f"{name}={word}" for name, word in zip(names, words, strict=True)) or "base"


_DIGEST = re.compile(r"(?<![^.])(sha256|digest)$")
"""The end of the path of what tells the content of a file or a folder; that of its path ends alike."""


def placeless(value: Any) -> Any:
    """Returns plain values without what changes no result: texts of the user's own files, paths of known content."""
    if isinstance(value, dict):
        own = {name.removesuffix("kind") + "source" for name, kind in value.items() if is_own(kind)}
        digests = [name for name, item in value.items() if isinstance(item, str) and _DIGEST.search(name)]
        files = {_DIGEST.sub("path", name) for name in digests}
        return {name: placeless(item) for name, item in value.items() if name not in own | files}
    return [placeless(item) for item in value] if isinstance(value, list | tuple) else value


def _names_own(path: str, value: Any) -> bool:
    return path.rpartition(".")[2] == "kind" and is_own(value)


def _cleaned(value: Any) -> Any:
    if isinstance(value, Spec):
        return value.identity()
    if isinstance(value, Mapping):
        return without_sources(value)
    return [_cleaned(item) for item in value] if isinstance(value, tuple | list) else value


def _node(values: Mapping[str, Any], digits: int) -> str:
    plain = without_sources(values)
    kind = [str(plain.pop("kind"))] if "kind" in plain else []
    return " ".join([*kind, *(f"{name}={_inner(value, digits)}" for name, value in plain.items())])


def _inner(value: Any, digits: int) -> str:
    text = value_words(value, digits=digits)
    return f"({text})" if isinstance(value, Mapping | list) and text != "none" else text
