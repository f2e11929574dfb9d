"""Claims are closed forms that read as sentences and travel as JSON."""

import pytest
from pydantic import TypeAdapter

from search_spaces.claim import (
    AtChance,
    AtLeast,
    Better,
    Claim,
    Equivalent,
    KeepsMore,
    NoWorse,
    ProbeAlike,
    ProbeAsAlike,
    ProbeBetween,
    ProbeRising,
    Rising,
)
from trainables.spec import SpecError


def test_a_claim_reads_as_a_sentence_and_travels(subtests) -> None:
    for claim, sentence in [
        (AtLeast("best", 0.99), "the typical seed of “best” reaches at least 0.99"),
        (AtChance("none", 0.05), "“none” stays at chance, within 0.05"),
        (
            Better("a", "b", of="seeds that train"),
            "the typical seed that trains of “a” is better than that of “b”",
        ),
        (Better("a", "b", 0.01), "the typical seed of “a” is better than that of “b” by more than 0.01"),
        (Equivalent("fourier", "peg", margin=0.02), "the typical seed of “fourier” equals that of “peg” within 0.02"),
        (Better("a", "b", image_size=48), "the typical seed of “a” is better than that of “b” at 48 px"),
        (NoWorse("a", "b", 0.01), "the typical seed of “a” is no worse than that of “b”, within 0.01"),
        (Rising(("a", "b"), 0.01), "the score rises along “a” and “b” by more than 0.01 a step"),
        (
            ProbeBetween("none", "direction", "accuracy", 0.45, 0.55),
            "“none”: direction probe (accuracy) before training is from 0.45 to 0.55",
        ),
        (
            ProbeBetween("sinusoidal", "distance", "r2", 0.99, None, when="after"),
            "“sinusoidal”: distance probe (r2) after training is at least 0.99",
        ),
        (
            ProbeBetween("random", "distance", "r2", None, 0.1),
            "“random”: distance probe (r2) before training is at most 0.1",
        ),
        (
            ProbeRising(("a", "b", "c"), "distance", "r2", 0.01, when="after"),
            "the distance probe (r2) after training rises along “a”, “b” and “c” by more than 0.01 a step",
        ),
        (
            ProbeAlike("a", "b", "similarity", "maps", 0.8, None, when="after"),
            "“a” and “b”: the correlation of their similarity probe (maps) after training is at least 0.8",
        ),
        (
            ProbeAsAlike("a", "b", "attention_maps", "maps", -0.1, None, when="after"),
            "“a” and “b”: the correlation of their attention_maps probe (maps) after training, less that of two seeds "
            "of “b”, is at least -0.1",
        ),
        (KeepsMore("peg", "table", 64, 0.1), "“peg” keeps more of its score than “table” by more than 0.1 at 64 px"),
        (AtChance("none", image_size=48), "“none” stays at chance, within 0.03 at 48 px"),
    ]:
        with subtests.test(str(claim)):
            assert str(claim) == sentence
            assert TypeAdapter(Claim).validate_json(claim.model_dump_json()) == claim


def test_a_claim_that_says_nothing_is_refused(subtests) -> None:
    for make, said in [
        (lambda: NoWorse("a", "b"), "margin must be given"),
        (lambda: NoWorse("a", "b", 0), "margin must be a positive margin, got 0"),
        (lambda: Equivalent("a", "b", margin=0), "margin must be a positive margin, got 0"),
        (lambda: AtLeast("a", 0.9, of="good seeds"), "of must be 'all seeds', or 'seeds that train'"),
        (lambda: Rising(("a",)), r"who must be a list of two names or more, got \('a',\)"),
        (lambda: Rising(("a", "b", "a")), r"who must be without doubles, got \['a', 'b', 'a'\]"),
        (lambda: Rising(("a", "b"), -0.1), "margin must be a margin of 0 or more, got -0.1"),
        (lambda: ProbeAlike("a", "a", "d", "maps", 0.8, None), "than must be another trial than who, got 'a'"),
        (lambda: ProbeAlike("a", "b", "d", "maps", None, None), "low must be a number where high is none, got None"),
        (lambda: ProbeRising(("a", "a"), "d", "r2"), r"who must be without doubles, got \['a', 'a'\]"),
        (lambda: ProbeRising(("a",), "d", "r2"), r"who must be a list of two names or more, got \('a',\)"),
        (lambda: ProbeBetween("a", "d", "r2", None, None), "low must be a number where high is none, got None"),
        (lambda: ProbeBetween("a", "d", "r2", 0.5, 0.5), r"low must be less than high \(0.5\), got 0.5"),
    ]:
        with subtests.test(str(make)), pytest.raises(SpecError, match=said):
            make()
