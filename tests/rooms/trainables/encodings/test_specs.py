"""Encodings as specs: kinds, canonical form, a user's own, and those that declare their parameters."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.study import Ablation
from tests.journeys.files import SPIRAL as DECLARED_SPIRAL
from trainables.backbones import ViT
from trainables.encodings import (
    KINDS,
    PEG,
    Add,
    CodeSpec,
    Composed,
    Concat,
    Fourier,
    Grid,
    HeadsSpec,
    Learnable,
    NoEncoding,
    OwnEncoding,
    Param,
    ReservedChannels,
    Shape,
    Sinusoidal,
    Widths,
    canonical,
    linear,
    zeros,
)
from trainables.encodings.declared import count, trunc_normal, uniform, values
from trainables.recipe import Recipe, Run
from trainables.recipe.cost import estimate_cost
from trainables.recipe.model_torch import build_model
from trainables.source import load
from trainables.spec import LocusError, SpecError
from trainables.training.init import init_weights
from trainables.training.parameters import no_decay
from trainables.weights.transfer import at_size

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
    for fields, sentence in (
        ({"encoding.injection.nope": 1}, r"no field 'injection\.nope'; known: kind"),
        ({"encoding.kind": "toys.py:Tied"}, r"encoding\.kind must name an EncodingSpec in toys\.py, got 'Tied'"),
        ({"encoding.kind": "toy.py:Tide"}, r"encoding\.kind must name a file of the working folder, got 'toy\.py"),
    ):
        with pytest.raises(SpecError, match=sentence):
            Recipe().put({**kind, **fields})


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


OWN = """
from pydantic import Field
from trainables.encodings import CodeSpec, HeadsSpec, Param, linear, normal, zeros

class Hills(CodeSpec):
    kind: str = Field(default="declared.py:Hills", init=False)
    std: float = 0.5

    def params(self, dim, grid):
        table = Param((grid.patches, dim), normal(self.std), resample="grid")
        return {"heights": table, **linear("inner.mix", dim, dim)}

    def code(self, p, at):
        return at.prefixed(p.linear("inner.mix", p("heights")))

class Border(HeadsSpec):
    kind: str = Field(default="declared.py:Border", init=False)

    def params(self, widths, grid, depth):
        return {"edge": Param((depth, widths.heads), zeros())}

    def terms(self, p, at):
        outside = ((at.x == 0) | (at.y == 0)).to(at.xy.dtype)
        bias = p("edge")[:, :, None, None] * outside[None, None, None, :]
        return (bias.expand(-1, -1, at.grid.patches, -1),)

    def heads(self, h, terms, block):
        bias = h.q.new_zeros(1, h.q.shape[1], h.grid.tokens, h.grid.tokens)
        bias[:, :, h.grid.prefix :, h.grid.prefix :] = terms[0][block]
        return h.plus(bias)

class Silent(CodeSpec):
    kind: str = Field(default="declared.py:Silent", init=False)

class Clash(CodeSpec):
    kind: str = Field(default="declared.py:Clash", init=False)

    def params(self, dim, grid):
        return {"tokens": Param((dim,), normal(1.0))}

    def code(self, p, at):
        return p("tokens")

class Thin(CodeSpec):
    kind: str = Field(default="declared.py:Thin", init=False)

    def code(self, p, at):
        return at.prefixed(at.y[:, None])

class Flat(CodeSpec):
    kind: str = Field(default="declared.py:Flat", init=False)

    def params(self, dim, grid):
        return {"row": Param((1, dim), normal(1.0))}

    def code(self, p, at):
        return p("row")
"""


def declared(name: str, **fields) -> Recipe:
    encoding = OwnEncoding(kind=f"declared.py:{name}", source=OWN, **fields)
    return Recipe(model=ViT(embed_dim=16, depth=2, num_heads=2), encoding=encoding)


@pytest.mark.parametrize(("name", "parameters"), [("Hills", 64 * 16 + 16 * 16 + 16), ("Border", 4)])
def test_an_own_encoding_is_counted_built_and_learns(name, parameters):
    recipe = declared(name)
    model = build_model(recipe)
    init_weights(model, 0)
    assert sum(value.numel() for value in model.encoding.parameters()) == parameters
    assert estimate_cost(recipe).parameters == sum(value.numel() for value in model.parameters())
    model(torch.randn(2, 3, 32, 32)).square().sum().backward()
    assert all(value.grad.any() for value in model.encoding.parameters())


def test_initial_values_decay_and_other_grids_follow_from_the_declaration():
    recipe = declared("Hills")
    model = build_model(recipe)
    init_weights(model, 0)
    part = model.encoding.Hills
    assert abs(float(part.heights.detach().std()) - 0.5) < 0.05
    assert part.get_parameter("inner.mix.weight").abs().max() <= 1 / 4
    decaying = {name for name, _ in part.named_parameters(prefix="encoding.Hills")} - no_decay(model)
    assert decaying == {"encoding.Hills.inner.mix.weight"}
    larger = at_size(model, recipe, 48).encoding.Hills
    assert larger.heights.shape == (144, 16)
    assert torch.equal(larger.get_parameter("inner.mix.weight"), part.get_parameter("inner.mix.weight"))
    assert abs(float((larger.heights.mean() - part.heights.mean()).detach())) < 0.05


def test_an_own_code_is_injected_as_the_listed_ones():
    recipe = declared("Hills").put({"encoding.injection.kind": "concat", "encoding.injection.split": 0.25})
    model = build_model(recipe)
    assert model.encoding.Hills.heights.shape == (64, 4)
    assert estimate_cost(recipe).parameters == sum(value.numel() for value in model.parameters())
    separate = declared("Hills").put({"encoding.injection": Add(places=("query", "key"), shared=False)})
    assert estimate_cost(separate).parameters == sum(value.numel() for value in build_model(separate).parameters())


def test_a_code_of_another_shape_is_refused():
    """torch would broadcast both: every channel, or every token, would get the same."""
    words = r"the code of declared\.py:{} must have the shape \(65, 16\): tokens, channels; got shape {}"
    with pytest.raises(SpecError, match=words.format("Thin", r"\(65, 1\)")):
        build_model(declared("Thin"))
    with pytest.raises(SpecError, match=words.format("Flat", r"\(1, 16\)")):
        build_model(declared("Flat"))(torch.randn(2, 3, 32, 32))


def test_what_is_missing_or_clashes_is_said():
    with pytest.raises(SpecError, match=r"Silent of declared\.py:Silent must have a method code\(p, at\), got none"):
        build_model(declared("Silent"))
    with pytest.raises(SpecError, match="declared parameter must be one that no module of torch uses, got 'tokens'"):
        build_model(declared("Clash"))


def test_counts_and_distributions():
    params = linear("mlp.0", 4, 3)
    assert {name: param.shape for name, param in params.items()} == {"mlp.0.weight": (3, 4), "mlp.0.bias": (3,)}
    assert [param.decay for param in params.values()] == [True, False]
    assert count(params) == 15
    assert not Param((2,), zeros()).decay
    stream, value = torch.Generator().manual_seed(0), torch.empty(1000, dtype=torch.float64)
    uniform(-2, 3)(value, stream)
    assert -2 <= value.min() < -1.9 < 2.9 < value.max() <= 3
    trunc_normal(1.5)(value, stream)
    assert value.abs().max() <= 2
    values([[1, 2], [3, 4]])(pair := torch.empty(2, 2), stream)
    assert pair.tolist() == [[1, 2], [3, 4]]


def test_a_declaration_that_says_nothing_has_no_parameters():
    assert CodeSpec.params(None, 8, Grid(2, 3)) == HeadsSpec.params(None, Widths(8, 2, 4), Grid(2, 3), 1) == {}
    spiral = load("mine.py", DECLARED_SPIRAL).Spiral()
    assert spiral.parameters(Shape(Widths(16, 2, 8), 1, 4, 4, 1)) == 2 * 16 + 16


WITHOUT_TORCH = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("torch", "timm", "torchvision"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import trainables.encodings
from service.cli import main
sys.argv = ["locus", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize(("verb", "shown"), [("plan", "4 runs to train"), ("show", "spiral")])
def test_a_study_with_an_own_encoding_is_planned_where_torch_is_not_installed(tmp_path, verb, shown):
    (tmp_path / "mine.py").write_text(DECLARED_SPIRAL)
    env = {**os.environ, "LOCUS_HOME": str(tmp_path / "home"), "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, verb, "./mine.py"], capture_output=True, text=True, cwd=tmp_path, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert shown in done.stdout
