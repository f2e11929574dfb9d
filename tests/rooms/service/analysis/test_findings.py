"""Each kind of finding has one sentence, pinned here; which finding a study makes is tested where it is made."""

import re

import pytest

from service.analysis.catalog import SENTENCES
from service.analysis.findings import finding

FOUND: dict[str, tuple[dict[str, object], str]] = {}
"""By kind, values and the sentence that they make."""


def test_every_kind_has_its_sentence_here() -> None:
    assert [*FOUND] == [*SENTENCES]


@pytest.mark.parametrize("kind", FOUND)
def test_a_finding_reads_so(kind) -> None:
    values, sentence = FOUND[kind]
    assert str(finding(kind, **values)) == sentence


@pytest.mark.parametrize("kind", [kind for kind in FOUND if kind.startswith("headline.")])
def test_a_first_sentence_is_short(kind) -> None:
    """It has 25 words and two numbers at most; the name of a trial is a word. Here its parts are the longest."""
    plain = re.sub(r"#\w+ \([^)]*\)|“[^”]*”", "NAME", FOUND[kind][1])
    assert len(plain.split()) <= 25
    assert len(re.findall(r"\d[\d.,]*", plain)) <= 2
    assert re.fullmatch(r"[^.]*(\.\d[^.]*)*\.", plain), "one sentence"


def test_a_value_must_be_there_and_used() -> None:
    with pytest.raises(KeyError, match="partner"):
        str(finding("part.above"))
    with pytest.raises(ValueError, match="values must be used by the sentence, got other"):
        str(finding("part.above", partner="peg", other=1))
