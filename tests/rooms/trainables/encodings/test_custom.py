"""An own code declares how it is injected, and is read, changed and identified as the listed codes are."""

import sys
from pathlib import Path

import pytest

from trainables.encodings import Add, Composed, Concat, Fourier, OwnEncoding, ReservedChannels
from trainables.recipe import Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.source import load
from trainables.spec import LocusError, SpecError

TOYS = (Path(__file__).parents[3] / "laws" / "toys.py").read_text()
TIDE = OwnEncoding(kind="toys.py:Tide", source=TOYS, height=2.0)
PLAIN = Recipe(encoding=TIDE)


def test_paths_lead_into_its_injection():
    beside = PLAIN.put({"encoding.injection.kind": "concat"})
    assert beside.encoding.injection == Concat()
    assert beside.get("encoding.injection.split") == 0.5
    quarter = beside.put({"encoding.injection.split": 0.25})
    assert quarter.encoding == OwnEncoding(kind="toys.py:Tide", source=TOYS, height=2.0, injection=Concat(split=0.25))
    assert Recipe.read(quarter.plain()) == quarter
    with pytest.raises(
        SpecError, match=r"encoding\.injection\.split must be a share of 64 channels that is a multiple of 2"
    ):
        beside.put({"encoding.injection.split": 0.3})


def test_a_kind_and_what_lies_in_it_are_put_together(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toys.py").write_text(TOYS)
    kind = {"encoding.kind": "toys.py:Tide", "encoding.height": 2.0}
    beside = PLAIN.put({"encoding.injection.kind": "concat", "encoding.injection.split": 0.25})
    for injection in ({"kind": "concat", "split": 0.25}, Concat(split=0.25)):
        assert Recipe().put({**kind, "encoding.injection": injection}) == beside
    assert Recipe().put({**kind, "encoding.injection.kind": "concat", "encoding.injection.split": 0.25}) == beside
    for values, sentence in (
        ({"encoding.injection.nope": 1}, r"no field 'injection\.nope'; known: kind"),
        ({"encoding.kind": "toys.py:Tied"}, r"encoding\.kind must name an EncodingSpec in toys\.py, got 'Tied'"),
        ({"encoding.kind": "toy.py:Tide"}, r"encoding\.kind must name a file of the working folder, got 'toy\.py"),
    ):
        with pytest.raises(SpecError, match=sentence):
            Recipe().put({**kind, **values})


def test_its_injection_is_part_of_the_key():
    beside = PLAIN.put({"encoding.injection": Concat()})
    assert TIDE.identity() == {"kind": "toys.py:Tide", "height": 2.0}
    assert PLAIN.put({"encoding.injection": Add()}) == PLAIN
    assert Run(recipe=PLAIN, seed=0).key != Run(recipe=beside, seed=0).key


def test_it_reserves_channels_and_composes():
    recipe = PLAIN.put({"encoding": Composed(parts=(TIDE, Fourier())), "encoding.parts.0.injection.kind": "concat"})
    model = build_model(recipe)
    assert model.encoding.reserved == ReservedChannels(tokens=32)
    assert model.encoding.part("Tide").slopes.shape == (32,)


def test_one_without_places_is_none():
    assert PLAIN.put({"encoding.injection.places": []}) == Recipe()


def test_its_module_must_be_a_code():
    text = TOYS.replace("class TideCode(Code)", "class TideCode(PositionEncoding)")
    recipe = Recipe(encoding=OwnEncoding(kind="toys.py:Tide", source=text))
    with pytest.raises(SpecError, match=r"Tide\.build of toys\.py:Tide must return a Code, got TideCode"):
        build_model(recipe)


def test_an_object_of_its_class_is_put_with_the_text_of_its_file():
    tide = load("toys.py", TOYS).Tide(height=2.0)
    assert Recipe().put({"encoding": tide}) == Recipe(encoding=tide) == PLAIN


def test_its_file_may_not_use_a_module_that_lies_beside_it(tmp_path, monkeypatch):
    """Its code would count for no answer, and be missing on other machines."""
    (tmp_path / "heights.py").write_text("HEIGHT = 2.0\n")
    monkeypatch.syspath_prepend(tmp_path)
    text = f"import heights\n{TOYS}\nHEIGHT = heights.HEIGHT\n"
    with pytest.raises(SpecError, match=r"^toys\.py must use installed packages only, got heights: put its code into "):
        Recipe(encoding=OwnEncoding(kind="toys.py:Tide", source=text))
    with pytest.raises(SpecError, match="got heights"):
        Recipe().put({"encoding": load("toys.py", text).Tide()})
    monkeypatch.undo()
    monkeypatch.delitem(sys.modules, "heights")
    monkeypatch.chdir(tmp_path)  # from which the command imports nothing
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    must = r"No module named 'heights'; it must use installed packages only: put the code of heights\.py into toys\.py$"
    with pytest.raises(LocusError, match=must):
        load("toys.py", f"import heights\n# from the working folder\n{TOYS}")
