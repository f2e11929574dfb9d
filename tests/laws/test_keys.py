"""Keys of recipes stay as they are, and the code of an answer names every file that computes it."""

from pathlib import Path

import pytest

from trainables.backbones import ViT
from trainables.encodings import (  # fmt: skip
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
    Relative,
    RelativeBias,
    Sinusoidal,
)
from trainables.encodings.irpe import Cross, Piecewise, Product
from trainables.encodings.relative import ClippedOffsets
from trainables.recipe import Recipe, Run
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import SpecError

ROOT = Path(__file__).parents[2]

PINNED = {
    "4ae6ce2b806e9c9a": Recipe(),
    "f52e6426964c7e46": Recipe(encoding=Learnable()),
    "8caa36f587500a69": Recipe(encoding=Learnable(std=0.5)),
    "54504d98f75c6fa6": Recipe(encoding=Sinusoidal()),
    "fc110971209a208b": Recipe(encoding=LearnableSinusoidal()),
    "1917c4a0a44b61b0": Recipe(encoding=Fourier()),
    "c6a693a9dea9e828": Recipe(encoding=Fourier(gamma=1.5, features=8, coordinates="unit")),
    "e659c21469e2b025": Recipe(encoding=RelativeBias(shared=True)),
    "5c1b72e07dc795f3": Recipe(encoding=PEG()),
    "8817b298a96e427f": Recipe(encoding=PEG(places=(-1, 0), kernel=5), model=ViT(depth=2, pool="avg")),
    "5d9d218a7f6674ca": Recipe(encoding=Composed(parts=(Learnable(), RelativeBias(shared=True)))),
}


@pytest.mark.parametrize("key", PINNED)
def test_keys_stay(key):
    assert Run(recipe=PINNED[key], seed=3).key == key


def test_who_changes_an_identity_changes_no_key():
    recipe = Recipe(encoding=Fourier(gamma=1.5))
    key = Run(recipe=recipe, seed=0).key
    said = recipe.identity()
    said["encoding"]["gamma"] = 9.0
    del said["data"]
    assert Run(recipe=recipe, seed=0).key == key
    assert recipe.identity()["encoding"]["gamma"] == 1.5


def test_a_nested_default_goes_unsaid():
    assert Learnable(injection=Add()).identity() == {"kind": "learnable"}
    assert IRPE(mapping=Product(), index=Piecewise()).identity() == {"kind": "irpe"}
    assert Learnable(injection=Concat()).identity() == {"kind": "learnable", "injection": {"kind": "concat"}}
    said = Relative(offsets=ClippedOffsets(reach=4), value=True).identity()
    assert said == {"kind": "relative", "offsets": {"kind": "clipped", "reach": 4}, "value": True}


def test_paths_reach_into_nested_specs():
    recipe = Recipe(encoding=Composed(parts=(Learnable(), IRPE())))
    put = recipe.put({"encoding.parts.1.index.beta": 5.0, "encoding.parts.0.injection.kind": "concat"})
    assert put.encoding.parts[1].index == Piecewise(beta=5.0)
    assert put.encoding.parts[0].injection == Concat()
    assert put.get("encoding.parts.0.injection.split") == 0.5
    assert Recipe.read(put.plain()) == put


def test_a_kind_and_a_path_into_what_it_begins_with():
    put = Recipe().put({"encoding.kind": "irpe", "encoding.index.alpha": 1.0, "encoding.mapping.kind": "cross"})
    assert put.encoding == IRPE(mapping=Cross(), index=Piecewise(alpha=1.0))
    values = {
        "encoding.parts.0.kind": "gabor",
        "encoding.parts.0.injection.kind": "extend",
        "encoding.parts.1.kernel": 5,
    }
    put = Recipe(encoding=Composed(parts=(Learnable(), PEG()))).put(values)
    assert put.encoding == Composed(parts=(Gabor(injection=Extend()), PEG(kernel=5)))
    with pytest.raises(SpecError, match=r"no field 'encoding\.index\.ratio'; known: kind, alpha, beta, gamma"):
        Recipe().put({"encoding.kind": "irpe", "encoding.index.ratio": 1.0})


def test_knobs_by_position_leave_out_how_a_code_enters():
    assert Fourier(3.0) == Fourier(gamma=3.0)
    assert Concat(0.25) == Concat(split=0.25)
    assert Extend(4, shared=False) == Extend(channels=4, shared=False)


def files(encoding) -> set[str]:
    """The files of the folder of encodings that compute an encoding, beside those of every training."""
    codes = CodeDigests()
    return {*codes.files(Recipe(encoding=encoding))} - {*codes.files(Recipe())}


def test_files_that_compute_an_encoding():
    assert files(Learnable()) == files(Learnable(injection=Concat())) == {"encodings/learnable.py"}
    assert files(Sinusoidal()) == files(LearnableSinusoidal()) == {"encodings/sinusoidal.py"}
    assert files(IRPE()) == {f"encodings/{name}.py" for name in ("irpe", "irpe_torch", "pair_lookup_torch")}
    assert files(Composed(parts=(PEG(), Gabor()))) == files(PEG()) | files(Gabor())
