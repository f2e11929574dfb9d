"""A code of one's own says how it enters, and is read, changed and known as the house's codes are."""

from pathlib import Path

import pytest

from trainables.backbones import build_model
from trainables.catalog import Composed, Fourier, OwnEncoding
from trainables.code import Codes
from trainables.encoding import Takes
from trainables.enters import Add, Concat
from trainables.recipe import Recipe, Run
from trainables.spec import SpecError

TOYS = (Path(__file__).parents[1] / "laws" / "toys.py").read_text()
TIDE = OwnEncoding(kind="toys.py:Tide", source=TOYS, height=2.0)
PLAIN = Recipe(encoding=TIDE)


def test_paths_lead_into_how_it_enters():
    beside = PLAIN.put({"encoding.enters.kind": "concat"})
    assert beside.encoding.enters == Concat()
    assert beside.get("encoding.enters.split") == 0.5
    quarter = beside.put({"encoding.enters.split": 0.25})
    assert quarter.encoding == OwnEncoding(kind="toys.py:Tide", source=TOYS, height=2.0, enters=Concat(split=0.25))
    assert Recipe.read(quarter.plain()) == quarter
    with pytest.raises(
        SpecError, match=r"encoding\.enters\.split must be a share of 64 channels that is a multiple of 2"
    ):
        beside.put({"encoding.enters.split": 0.3})


def test_the_way_it_enters_is_part_of_the_key_and_of_the_code():
    beside = PLAIN.put({"encoding.enters": Concat()})
    assert TIDE.identity() == {"kind": "toys.py:Tide", "height": 2.0}
    assert PLAIN.put({"encoding.enters": Add()}) == PLAIN
    assert Run(recipe=PLAIN, seed=0).key != Run(recipe=beside, seed=0).key
    assert "trainables/encodings/concatenation.py" in Codes()(beside).changed(Codes()(PLAIN))


def test_it_takes_channels_and_stands_among_others():
    recipe = PLAIN.put({"encoding": Composed(parts=(TIDE, Fourier())), "encoding.parts.0.enters.kind": "concat"})
    model = build_model(recipe)
    assert model.encoding.takes == Takes(tokens=32)
    assert model.encoding.part("Tide").slopes.shape == (32,)


def test_one_that_enters_nowhere_is_none():
    assert PLAIN.put({"encoding.enters.places": []}) == Recipe()


def test_its_module_must_be_a_code():
    text = TOYS.replace("class TideCode(Code)", "class TideCode(PositionEncoding)")
    recipe = Recipe(encoding=OwnEncoding(kind="toys.py:Tide", source=text))
    with pytest.raises(SpecError, match=r"Tide\.build of toys\.py:Tide must return a Code, got TideCode"):
        build_model(recipe)
