"""Claims are closed forms that read as sentences and travel as JSON."""

import pytest
from pydantic import TypeAdapter

from search_spaces.claim import AtChance, AtLeast, Better, Claim, Equivalent
from trainables.spec import SpecError


@pytest.mark.parametrize(
    ("claim", "sentence"),
    [
        (AtLeast("best", 0.99), "“best” reaches at least 0.99"),
        (AtChance("none", 0.05), "“none” stays at chance, within 0.05"),
        (Better("fourier", "learnable"), "“fourier” is better than “learnable”"),
        (Better("fourier", "learnable", 0.01), "“fourier” is better than “learnable” by more than 0.01"),
        (Equivalent("fourier", "peg", margin=0.02), "“fourier” equals “peg” within 0.02"),
        (Better("peg", "learnable", image_size=48), "“peg” is better than “learnable” at 48 px"),
        (AtChance("none", image_size=48), "“none” stays at chance, within 0.03 at 48 px"),
    ],
)
def test_a_claim_reads_as_a_sentence_and_travels(claim, sentence: str) -> None:
    assert str(claim) == sentence
    assert TypeAdapter(Claim).validate_json(claim.model_dump_json()) == claim


def test_an_equivalence_needs_a_margin() -> None:
    with pytest.raises(SpecError, match=r"margin must be a positive margin, got 0"):
        Equivalent("fourier", "peg", margin=0)
