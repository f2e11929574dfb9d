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
    """Returns the sentence of each kind, as the catalog has it."""
    lines = CATALOG.read_text(encoding="utf-8").splitlines()
    return dict(line.split(" = ", 1) for line in lines if line and not line.startswith("#"))


@dataclass(frozen=True)
class Finding:
    """What was found, or what to do next. `values`: numbers, names, and findings that a sentence holds as its parts."""

    kind: str
    values: Mapping[str, object]

    def __str__(self) -> str:
        return _Sentence().filled(sentences()[self.kind], self.values)


def finding(kind: str, **values: object) -> Finding:
    """Returns a finding of a kind of the catalog."""
    return Finding(kind, values)


def _capital(part: object) -> str:
    """Returns a part that begins a sentence; a path keeps its small letter."""
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
"""How a sentence writes a value: `{mean:fixed}`; `{seeds:plural seed}` counts a noun."""


OPTIONAL = re.compile(r"\[([^][]*)\]")


class _Sentence(Formatter):
    """Raises: KeyError for a value that is missing; ValueError for one that the sentence does not use."""

    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.startswith("plural "):
            return plural(value, format_spec.removeprefix("plural "))
        return FILTERS[format_spec](value) if format_spec else "" if value is None else str(value)

    def filled(self, sentence: str, values: Mapping[str, object]) -> str:
        def names(text: str) -> set[str]:
            return {name for _, name, *_ in self.parse(text) if name}

        if unused := {*values} - names(sentence):
            raise ValueError(f"values must be used by the sentence, got {', '.join(sorted(unused))}")
        given = {name for name, value in values.items() if value is not None}
        whole = OPTIONAL.sub(lambda piece: piece[1] if names(piece[1]) <= given else "", sentence)
        return self.vformat(whole, (), values)
