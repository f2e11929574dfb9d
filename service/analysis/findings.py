"""A finding is data: a kind, with its numbers and names. `catalog.txt` has the sentence of each kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from string import Formatter
from typing import Any

from search_spaces.words import clock, listed, plural, quoted, rough_time
from service.analysis.format import between, fixed, metric_words, number, p_text, percent, signed, whole_percent

CATALOG = Path(__file__).with_name("catalog.txt")


@cache
def sentences() -> dict[str, str]:
    """Returns the sentence of each kind of finding, as `catalog.txt` has it."""
    lines = CATALOG.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" = ", 1) for line in lines if line and not line.startswith("#"))


@dataclass(frozen=True)
class Finding:
    """One thing that was found, or that a user may do next, as data from which a sentence is made.

    `kind` names the sentence; `values` has the numbers, the names and the inner findings that stand in it.
    """

    kind: str
    values: Mapping[str, object]

    def __str__(self) -> str:
        return _Sentence().filled(sentences()[self.kind], self.values)


def finding(kind: str, **values: object) -> Finding:
    """Returns the finding of a kind that the catalog lists, with these values."""
    return Finding(kind, values)


def _capital(part: object) -> str:
    """Returns a part with a capital letter, to begin a sentence; a part that begins with a path keeps its small one."""
    text = str(part)
    return text if "." in text.partition(" ")[0] else text[:1].upper() + text[1:]


FILTERS: dict[str, Callable[[Any], str]] = {
    "fixed": fixed,
    "number": number,
    "signed": signed,
    "beside": lambda gap: f"{fixed(abs(gap))} {'above' if gap >= 0 else 'below'}",
    "between": between,
    "confidence": percent,
    "count": lambda count: f"{count:,}",
    "more": lambda count: f"{abs(count):,} {'more' if count > 0 else 'fewer'}",
    "percent": whole_percent,
    "level": lambda level: f"{level:.3g}",
    "p": p_text,
    "two": lambda value: f"{value:.2f}",
    "metric": metric_words,
    "short": lambda value: f"{value:g}",
    "scores": lambda scores: ", ".join(map(fixed, sorted(scores))),
    "quoted": quoted,
    "names": lambda names: listed([quoted(name) for name in names]),
    "listed": lambda parts: listed([*map(str, parts)]),
    "commas": lambda parts: ", ".join(map(str, parts)),
    "semicolons": lambda parts: "; ".join(map(str, parts)),
    "capital": _capital,
    "small": lambda part: str(part)[:1].lower() + str(part)[1:],
    "clock": clock,
    "minutes": rough_time,
}
"""The functions by which a sentence writes values: `{mean:fixed}`. Beside them, `{seeds:plural seed}` counts a noun."""


OPTIONAL = re.compile(r"\[([^][]*)\]")
"""A piece of a sentence in brackets, which is left out if one of its values is None."""


class _Sentence(Formatter):
    """Fills a sentence with values.

    Raises: KeyError for a value that is missing; ValueError for one that the sentence does not use.
    """

    def format_field(self, value: Any, format_spec: str) -> str:
        """Returns the text of one value."""
        if format_spec.startswith("plural "):
            return plural(value, format_spec.removeprefix("plural "))
        return FILTERS[format_spec](value) if format_spec else "" if value is None else str(value)

    def filled(self, sentence: str, values: Mapping[str, object]) -> str:
        """Returns the sentence with its values, without the optional pieces whose values are None."""

        def names(text: str) -> set[str]:
            return {name for _, name, *_ in self.parse(text) if name}

        if unused := {*values} - names(sentence):
            raise ValueError(f"values must be used by the sentence, got {', '.join(sorted(unused))}")
        given = {name for name, value in values.items() if value is not None}
        whole = OPTIONAL.sub(lambda piece: piece[1] if names(piece[1]) <= given else "", sentence)
        return self.vformat(whole, (), values)
