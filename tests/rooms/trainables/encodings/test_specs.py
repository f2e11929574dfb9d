"""Encodings as specs: kinds, canonical form, and a user's own."""

import json
import os
import pickle
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.study import Ablation
from trainables.backbones import ViT
from trainables.encodings import (
    KINDS,
    PEG,
    Composed,
    Fourier,
    Learnable,
    NoEncoding,
    OwnEncoding,
    Sinusoidal,
    canonical,
)
from trainables.recipe import Recipe, Run
from trainables.source import load
from trainables.spec import SpecError

SPIRAL = '''"""Mine."""
from typing import Literal

from pydantic import Field

from trainables.encodings import EncodingSpec
from trainables.spec import require


class Spiral(EncodingSpec):
    """Turns."""

    kind: Literal["mine.py:Spiral"] = Field(default="mine.py:Spiral", init=False)
    turns: int = Field(default=2, gt=0, description="a positive number of turns")

    def check(self, shape):
        require(self.turns < shape.widths.dim, "encoding.turns", f"below {shape.widths.dim}", self.turns)
'''


def test_every_kind_can_be_named_alone(subtests) -> None:
    for kind in KINDS:
        with subtests.test(str(kind)):
            values = {"encoding.kind": kind}
            recipe = Recipe().put(values | ({"encoding.parts": [{"kind": "peg"}]} if kind == "composed" else {}))
            assert recipe.encoding.kind == ("peg" if kind == "composed" else kind)


leaves = st.sampled_from([NoEncoding(), Learnable(), Sinusoidal(), Fourier(gamma=2.0), PEG(), PEG(places=())])
trees = st.recursive(leaves, lambda inner: st.lists(inner, max_size=3).map(lambda parts: Composed(parts=tuple(parts))))


def active(encoding) -> list:
    if isinstance(encoding, Composed):
        return [leaf for part in encoding.parts for leaf in active(part)]
    return [] if encoding in (NoEncoding(), PEG(places=())) else [encoding]


@given(trees)
@settings(max_examples=60)
def test_canonical_form_keeps_the_active_parts_in_order(encoding) -> None:
    form = canonical(encoding)
    assert active(form) == active(encoding)
    assert canonical(form) == form
    kinds = {0: NoEncoding, 1: type(form)}
    assert isinstance(form, kinds.get(len(active(encoding)), Composed))


def test_the_unit_and_idle_parts_change_no_key() -> None:
    alone = Recipe(encoding=Fourier(gamma=3.0))
    composed = Recipe(encoding=Composed(parts=(NoEncoding(), Composed(parts=(Fourier(gamma=3.0),)), PEG(places=()))))
    assert composed == alone
    assert Run(composed, 1).key == Run(alone, 1).key
    assert Recipe(encoding=Composed(parts=(Learnable(), PEG()))).encoding.label == "learnable+peg"


def test_what_cannot_stand_is_refused_by_its_path(subtests) -> None:
    for values, sentence in [
        ({"encoding.kind": "peg", "encoding.places": [0]}, "encoding.places must be block indices from -1 to -1 in a"),
        ({"encoding.kind": "peg", "encoding.kernel": 4}, "encoding.kernel must be odd, got 4"),
        (
            {"encoding.kind": "sinusoidal", "model.embed_dim": 6, "model.num_heads": 1},
            "model.embed_dim must be divisible by 4 for sin",
        ),
        ({"encoding.kind": "fourier", "encoding.features": 7}, "encoding.features must be even, got 7"),
        ({"encoding.kind": "wavelet"}, "encoding.kind must be one of none, learnable, "),
    ]:
        with subtests.test(str(values)):
            with pytest.raises(SpecError) as caught:
                Recipe().put(values)
            assert str(caught.value).startswith(sentence)


def own(turns: int = 3, source: str = SPIRAL) -> Recipe:
    return Recipe(encoding=load("mine.py", source).Spiral(turns=turns))


def test_an_own_encoding_carries_its_source_and_its_checks() -> None:
    recipe = own()
    assert isinstance(recipe.encoding, OwnEncoding)
    assert (recipe.encoding.source, recipe.encoding.label, recipe.get("encoding.turns")) == (SPIRAL, "Spiral", 3)
    assert recipe.put({"encoding.turns": 5}).encoding.spec.turns == 5
    with pytest.raises(SpecError, match=r"turns must be a positive number of turns, got 0"):
        recipe.put({"encoding.turns": 0})
    with pytest.raises(SpecError, match=r"encoding\.turns must be below 64, got 64"):
        recipe.put({"encoding.turns": 64})


def test_an_own_encoding_is_named_by_its_knobs_not_by_its_source() -> None:
    edited = own(source=SPIRAL.replace("# none", "") + "\nSPARE = 1\n")
    assert Run(own(), 0).key == Run(edited, 0).key
    assert Run(own(), 0).key != Run(own(turns=4), 0).key
    assert Run(own(turns=2), 0).key == Run(Recipe().put({"encoding": own(2).encoding}), 0).key


def test_two_versions_of_a_file_do_not_mix() -> None:
    first, second = own(), own(source=SPIRAL.replace("default=2", "default=9"))
    assert first.put({"encoding.turns": 3}).encoding.spec.turns == 3
    assert type(first.encoding.spec) is not type(second.encoding.spec)
    assert (
        Recipe().put({"encoding": {"kind": "mine.py:Spiral", "source": second.encoding.source}}).get("encoding.turns")
        == 9
    )


def test_an_own_kind_takes_the_text_that_is_meant(tmp_path, monkeypatch) -> None:
    """A value takes its own class's text; a word that of the file being loaded, of the folder, or loaded last."""

    def named() -> str:
        arms = Ablation(arms={"named": {"encoding.kind": "newer.py:Spiral"}}, baseline="named").arms
        return arms["named"]["encoding.source"]

    monkeypatch.chdir(tmp_path)
    text = SPIRAL.replace("mine.py", "newer.py")
    with pytest.raises(SpecError, match=r"encoding.kind must name a file of the working folder, got 'newer.py:Spiral'"):
        named()
    older, newer = load("newer.py", text), load("newer.py", text.replace("default=2", "default=7"))
    assert "default=7" in Recipe(encoding=newer.Spiral()).encoding.source
    assert "default=2" in Recipe(encoding=older.Spiral()).encoding.source
    assert "default=7" in named()
    (tmp_path / "newer.py").write_text(text.replace("default=2", "default=8"))
    assert "default=8" in named()
    study = (
        "from search_spaces.study import Ablation\nplan = Ablation({'a': {'encoding.kind': 'newer.py:Spiral'}}, 'a')\n"
    )
    loading = load("newer.py", text.replace("default=2", "default=9") + study)
    assert "default=9" in loading.plan.arms["a"]["encoding.source"]


def test_an_own_encoding_reaches_a_fresh_process(tmp_path) -> None:
    run = Run(own().put({"model.embed_dim": 32}), 4)
    (tmp_path / "run.pickle").write_bytes(pickle.dumps(run))
    (tmp_path / "run.json").write_text(json.dumps(run.plain()))
    code = (
        "import json, pickle, sys; from trainables.recipe import Run\n"
        "one = pickle.load(open(sys.argv[1] + '/run.pickle', 'rb'))\n"
        "two = Run.read(json.load(open(sys.argv[1] + '/run.json')))\n"
        "assert one == two\n"
        "print(one.key, two.recipe.encoding.spec.turns, two.recipe.encoding.label)"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, cwd=os.getcwd()
    ).stdout
    assert shown.split() == [run.key, "3", "Spiral"]


def test_a_class_of_another_name_is_refused() -> None:
    with pytest.raises(SpecError, match=r"encoding.kind must name an EncodingSpec in mine.py, got 'Snail'"):
        OwnEncoding(kind="mine.py:Snail", source=SPIRAL)
    with pytest.raises(SpecError, match=r"Spiral.kind in yours.py must be 'yours.py:Spiral', got 'mine.py:Spiral'"):
        OwnEncoding(kind="yours.py:Spiral", source=SPIRAL)


def test_blocks_bound_the_places_of_a_peg() -> None:
    assert Recipe(model=ViT(depth=3), encoding=PEG(places=(-1, 1))).encoding.places == (-1, 1)
    with pytest.raises(SpecError, match=r"block indices from -1 to 1 in a model of depth 3, got \[2\]"):
        Recipe(model=ViT(depth=3), encoding=PEG(places=(2,)))
