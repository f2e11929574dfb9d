"""Each kind of finding has one sentence: `sentences.txt` has all of them, written from values that are made up here.

Which finding a study makes is tested where it is made. `python -m tests.rooms.service.analysis.test_findings` writes
the file.
"""

import re
from pathlib import Path
from string import Formatter

import pytest

from service.analysis.findings import OPTIONAL, finding, sentences

FILE = Path(__file__).with_name("sentences.txt")
BY_FILTER: dict[str, object] = {
    "plural": 3, "fixed": 0.95123, "number": 0.5, "signed": -0.0123, "beside": -0.0123, "count": 85802, "more": -1200,
    "percent": 0.8, "level": 0.009375, "p": 0.0126, "two": 3.104, "short": 0.01, "scores": [0.98, 0.97], "clock": 130,
    "between": (0.9, 0.98), "metric": "val/accuracy", "confidence": 0.95, "names": ["peg", "none"], "minutes": 96,
    "listed": ["A", "B", "C"], "commas": ["A", "B"], "semicolons": ["A", "B"], "small": "No trial is best.",
}  # fmt: skip
"""A value for each way of writing it; what is written as it is has its own name."""
LONGEST: dict[str, object] = {
    "trial": finding("part.point", label="r7", name="gamma=2.31"),
    "images": finding("part.images", count=1000),
    "beside": finding("part.not above", partner="none"),
    "missing": [finding("part.not begun", count=6), finding("part.stale", count=5)],
    "trials": ["“A”", "“B”", "“C”", finding("part.more trials", count=2)],
}
"""The longest parts of a first sentence."""
OF_LENGTHS = {
    "headline.best so far": {"name": "peg", "metric": "test/accuracy", "score": 0.9, "beside": LONGEST["beside"]},
    "headline.take": {"name": "peg", "partner": "none", "gap": 0.0123},
    "headline.all level": {"name": "peg"},
    "headline.another above": {"name": "peg", "other": "none"},
}
"""The longest of the first sentences where trials have several lengths."""


def fields(sentence: str) -> list[tuple[str, str]]:
    return [
        (name, spec.partition(" ")[0]) for _, name, spec, _ in Formatter().parse(sentence) if name and spec is not None
    ]


def values(kind: str) -> dict[str, object]:
    longest = LONGEST if kind.startswith("headline.") else {}
    made = {name: longest.get(name, BY_FILTER.get(spec, name)) for name, spec in fields(sentences()[kind])}
    return made | {"trials": 4} if kind == "headline.too easy" else made


def written(kind: str) -> str:
    return str(finding(kind, **values(kind)))


def test_each_kind_has_its_sentence() -> None:
    assert FILE.read_text(encoding="utf-8").splitlines() == [f"{kind}: {written(kind)}" for kind in sentences()]


FIRST = [written(kind) for kind in sentences() if kind.startswith("headline.")]
FIRST += [
    str(finding("headline.trained, rising", epochs=160, found=finding(kind, **of, images=finding("part.these images"))))
    for kind, of in OF_LENGTHS.items()
]


@pytest.mark.parametrize("sentence", FIRST)
def test_a_first_sentence_is_short(sentence) -> None:
    """It has 25 words and two numbers at most; the name of a trial is a word."""
    plain = re.sub(r"#\w+ \([^)]*\)|“[^”]*”", "NAME", sentence)
    assert len(plain.split()) <= 25
    assert len(re.findall(r"\d[\d.,]*", plain)) <= 2
    assert re.fullmatch(r"[^.]*(\.\d[^.]*)*\.", plain), "one sentence"


def test_a_piece_in_brackets_is_left_out_if_a_value_of_it_is_not_given() -> None:
    for kind, sentence in sentences().items():
        optional = {name for piece in OPTIONAL.findall(sentence) for name, _ in fields(piece)}
        needed = {name: value for name, value in values(kind).items() if name not in optional}
        short = str(finding(kind, **needed))
        assert short == str(finding(kind, **needed, **dict.fromkeys(optional)))
        assert len(short) < len(written(kind)) if optional else short == written(kind)


def test_a_value_must_be_there_and_used() -> None:
    with pytest.raises(KeyError, match="partner"):
        str(finding("part.above"))
    with pytest.raises(ValueError, match="values must be used by the sentence, got other"):
        str(finding("part.above", partner="peg", other=1))


if __name__ == "__main__":
    FILE.write_text("".join(f"{kind}: {written(kind)}\n" for kind in sentences()), encoding="utf-8")
