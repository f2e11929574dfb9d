"""The code that counts: revisions of the kinds in use, and the syntax trees of a user's own files."""

import pytest

from trainables.backbones import CaiT, ViT
from trainables.encodings import PEG, Fourier, OwnEncoding, Rotary
from trainables.recipe import FromTrial, Recipe, revisions
from trainables.recipe.revisions import Code, code_of, require_code
from trainables.spec import LocusError

OWN = """from trainables.encodings import EncodingSpec


class Spiral(EncodingSpec):
    kind: str = "mine.py:Spiral"
    turns: int = 2
"""
FOURIER = Recipe().put({"encoding.kind": "fourier"})


def own(text: str) -> Recipe:
    return Recipe(encoding=OwnEncoding(kind="mine.py:Spiral", source=text))


def test_a_raised_revision_is_other_code_of_the_recipes_that_use_the_kind(monkeypatch, subtests) -> None:
    composed = {"kind": "composed", "parts": [{"kind": "fourier"}, {"kind": "peg"}]}
    taught = {"model.pool": "distilled", "teacher": {"kind": "from_trial", "values": {"encoding.kind": "peg"}}}
    start = FromTrial(values={"encoding.kind": "peg"}, part="backbone").plain()
    for kind, values, counts in [
        (Fourier, {"encoding.kind": "fourier"}, True),
        (Fourier, {"encoding": composed}, True),
        (PEG, {"encoding": composed}, True),
        (Fourier, {"encoding.kind": "peg"}, False),
        (CaiT, {"model.kind": "cait"}, True),
        (CaiT, {}, False),
        (ViT, {}, True),
        (PEG, taught, True),
        (PEG, {"init": start}, True),
        (type(Recipe().optimizer), {}, True),
    ]:
        with subtests.test(f"{kind.__name__} {values}"), monkeypatch.context() as patch:
            recipe = Recipe().put(values)
            before = code_of(recipe)
            patch.setattr(kind, "REVISION", kind.REVISION + 1)
            said = f"{kind.__name__} {kind.REVISION}, not {kind.REVISION - 1}"
            assert code_of(recipe).changed(before) == ([said] if counts else [])
            assert (code_of(recipe).digest != before.digest) == counts


def test_the_loop_counts_for_all(monkeypatch) -> None:
    before = code_of(FOURIER)
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    assert code_of(FOURIER).changed(before) == [f"loop {revisions.LOOP}, not {revisions.LOOP - 1}"]


def test_a_first_revision_is_left_out(monkeypatch) -> None:
    """So a kind or a node that is added later is no other code of what was trained before."""
    monkeypatch.setattr(revisions, "LOOP", 1)
    monkeypatch.setattr(Fourier, "REVISION", 1)
    assert "Fourier" not in code_of(FOURIER).revisions
    monkeypatch.setattr(Fourier, "REVISION", 3)
    assert code_of(FOURIER).revisions["Fourier"] == 3


def test_own_code_counts_by_its_syntax_tree() -> None:
    code = code_of(own(OWN))
    assert "mine.py" in code.revisions
    assert code == code_of(own(OWN + "\n# a comment\n"))
    assert code_of(own(OWN + "\nONE = 1\n")).changed(code) == ["mine.py"]
    assert code.changed(code_of(Recipe())) == ["mine.py"]


@pytest.mark.parametrize(
    "text",
    [
        "from service import Rotary",
        "import trainables.encodings as E\nturn = E.Rotary",
        "from trainables.encodings.rotary import rotated",
        "from trainables.encodings import KINDS\nturn = KINDS['rotary']",
        "from service import *\n\nclass Turned(Rotary):\n    pass",
    ],
)
def test_a_kind_that_an_own_file_names_counts(monkeypatch, text: str) -> None:
    recipe, plain = own(f"{text}\n{OWN}"), own(OWN)
    before = code_of(recipe), code_of(plain)
    monkeypatch.setattr(Rotary, "REVISION", Rotary.REVISION + 1)
    assert code_of(recipe).changed(before[0]) == [f"Rotary {Rotary.REVISION}, not {Rotary.REVISION - 1}"]
    assert code_of(plain) == before[1]


def test_every_version_of_an_own_file_counts() -> None:
    """A parent's encoding may be of another text than the child's."""
    other, kind = OWN + "\nONE = 1\n", "mine.py:Spiral"

    def code(child: str, parent: str) -> str:
        values = {"encoding.kind": kind, "encoding.source": parent}
        start = {"kind": "from_trial", "values": values, "part": "backbone"}
        return code_of(Recipe().put({"encoding": {"kind": kind, "source": child}, "init": start})).digest

    texts = [(OWN, OWN), (OWN, other), (other, OWN), (other, other)]
    assert len({code(*pair) for pair in texts}) == 4


def test_a_worker_with_other_code_refuses_to_train() -> None:
    require_code(FOURIER, code_of(FOURIER))
    planned = Code({**code_of(FOURIER).revisions, "Fourier": 7})
    must = rf"^a worker must have the code of the driver, got Fourier {Fourier.REVISION}, not 7: run the study again$"
    with pytest.raises(LocusError, match=must):
        require_code(FOURIER, planned)
