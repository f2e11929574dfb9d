"""Keys of recipes stay as they are, and the code of an answer names every file that computes it."""

from pathlib import Path

import pytest

from trainables.catalog import (
    IRPE,
    PEG,
    Add,
    Composed,
    Concat,
    Extend,
    Fourier,
    Gabor,
    Learnable,
    LearnableSinusoidal,
    Parts,
    Relative,
    RelativeBias,
    Sinusoidal,
)  # fmt: skip
from trainables.code import Codes, encoding_files
from trainables.encodings import ENTRIES, MODULES
from trainables.indices import Clipped, Cross, Piecewise, Product
from trainables.recipe import Recipe, Run, ViT
from trainables.spec import SpecError

ROOT = Path(__file__).parents[2]

PINNED = {
    "7dc4202e4e7c96c9": Recipe(),
    "56364064dd9b2455": Recipe(encoding=Learnable()),
    "933e6cf00e7404b9": Recipe(encoding=Learnable(std=0.5)),
    "57fdd907181f23c9": Recipe(encoding=Sinusoidal()),
    "8bf992341e4c8f15": Recipe(encoding=LearnableSinusoidal()),
    "13ebb2335c10ea75": Recipe(encoding=Fourier()),
    "3e4779af7ce10624": Recipe(encoding=Fourier(gamma=1.5, features=8, coordinates="unit")),
    "1958716d983fb200": Recipe(encoding=RelativeBias(shared=True)),
    "dbfcbca67e579c51": Recipe(encoding=PEG()),
    "59128a865eb4608f": Recipe(encoding=PEG(places=(-1, 0), kernel=5), model=ViT(depth=2, read_out="mean")),
    "e492ed746c15c58f": Recipe(encoding=Composed(parts=(Learnable(), RelativeBias(shared=True)))),
}


@pytest.mark.parametrize("key", PINNED)
def test_keys_stay(key):
    assert Run(recipe=PINNED[key], seed=3).key == key


def test_a_nested_default_goes_unsaid():
    assert Learnable(enters=Add()).identity() == {"kind": "learnable"}
    assert IRPE(mapping=Product(), index=Piecewise()).identity() == {"kind": "irpe"}
    assert Learnable(enters=Concat()).identity() == {"kind": "learnable", "enters": {"kind": "concat"}}
    said = Relative(offsets=Clipped(reach=4), value=True).identity()
    assert said == {"kind": "relative", "offsets": {"kind": "clipped", "reach": 4}, "value": True}


def test_paths_reach_into_nested_specs():
    recipe = Recipe(encoding=Composed(parts=(Learnable(), IRPE())))
    put = recipe.put({"encoding.parts.1.index.beta": 5.0, "encoding.parts.0.enters.kind": "concat"})
    assert put.encoding.parts[1].index == Piecewise(beta=5.0)
    assert put.encoding.parts[0].enters == Concat()
    assert put.get("encoding.parts.0.enters.split") == 0.5
    assert Recipe.read(put.plain()) == put


def test_a_kind_and_a_path_into_what_it_begins_with():
    put = Recipe().put({"encoding.kind": "irpe", "encoding.index.alpha": 1.0, "encoding.mapping.kind": "cross"})
    assert put.encoding == IRPE(mapping=Cross(), index=Piecewise(alpha=1.0))
    values = {"encoding.parts.0.kind": "gabor", "encoding.parts.0.enters.kind": "extend", "encoding.parts.1.kernel": 5}
    put = Recipe(encoding=Composed(parts=(Learnable(), PEG()))).put(values)
    assert put.encoding == Composed(parts=(Gabor(enters=Extend()), PEG(kernel=5)))
    with pytest.raises(SpecError, match=r"no field 'encoding\.index\.ratio'; known: kind, alpha, beta, gamma"):
        Recipe().put({"encoding.kind": "irpe", "encoding.index.ratio": 1.0})


def test_knobs_by_position_leave_out_how_a_code_enters():
    assert Fourier(3.0) == Fourier(gamma=3.0)
    assert Concat(0.25) == Concat(split=0.25)
    assert Extend(4, shared=False) == Extend(channels=4, shared=False)


def test_files_that_compute_an_encoding():
    assert encoding_files(Learnable()) == {"encodings/absolute.py", "resample.py"}
    twice = Learnable(enters=Add(blocks=2))
    assert encoding_files(twice) == encoding_files(Learnable()) | {"encodings/addition.py"}
    assert encoding_files(IRPE()) == {"encodings/irpe.py", "encodings/lookup.py"}
    assert "encodings/logit_parts.py" in encoding_files(Gabor(enters=Parts()))
    assert "encodings/concatenation.py" not in encoding_files(Composed(parts=(PEG(), Gabor())))
    files = {f"encodings/{name.partition(':')[0]}.py" for name in [*MODULES.values(), *ENTRIES.values()]}
    there = {f"encodings/{path.name}" for path in (ROOT / "trainables" / "encodings").glob("*.py")}
    assert there - files == {"encodings/__init__.py", "encodings/lookup.py"}


def test_the_way_of_entering_is_part_of_the_code():
    codes = Codes()
    plain, beside = (codes(Recipe(encoding=Learnable(enters=how))) for how in (Add(), Concat()))
    assert "trainables/encodings/concatenation.py" in plain.changed(beside)
