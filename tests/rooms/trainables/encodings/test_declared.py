"""Encodings that declare their parameters: what follows from a declaration, and that no torch is needed to plan one."""

import os
import subprocess
import sys

import pytest
import torch

from tests.journeys.files import SPIRAL
from trainables.backbones import ViT
from trainables.encodings import Add, CodeSpec, Grid, HeadsSpec, OwnEncoding, Param, Shape, Widths, linear, zeros
from trainables.encodings.declared import count, trunc_normal, uniform, values
from trainables.recipe import Recipe
from trainables.recipe.cost import estimate_cost
from trainables.recipe.model_torch import build_model
from trainables.source import load
from trainables.spec import SpecError
from trainables.training.init import init_weights
from trainables.training.parameters import no_decay
from trainables.weights.transfer import at_size

OWN = """
from pydantic import Field
from trainables.encodings import CodeSpec, HeadsSpec, Param, linear, normal, zeros

class Hills(CodeSpec):
    kind: str = Field(default="own.py:Hills", init=False)
    std: float = 0.5

    def params(self, dim, grid):
        table = Param((grid.patches, dim), normal(self.std), resample="grid")
        return {"heights": table, **linear("inner.mix", dim, dim)}

    def code(self, p, at):
        return at.prefixed(p.linear("inner.mix", p("heights")))

class Border(HeadsSpec):
    kind: str = Field(default="own.py:Border", init=False)

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
    kind: str = Field(default="own.py:Silent", init=False)

class Clash(CodeSpec):
    kind: str = Field(default="own.py:Clash", init=False)

    def params(self, dim, grid):
        return {"tokens": Param((dim,), normal(1.0))}

    def code(self, p, at):
        return p("tokens")

class Thin(CodeSpec):
    kind: str = Field(default="own.py:Thin", init=False)

    def code(self, p, at):
        return at.prefixed(at.y[:, None])

class Flat(CodeSpec):
    kind: str = Field(default="own.py:Flat", init=False)

    def params(self, dim, grid):
        return {"row": Param((1, dim), normal(1.0))}

    def code(self, p, at):
        return p("row")
"""


def own(name: str, **fields) -> Recipe:
    encoding = OwnEncoding(kind=f"own.py:{name}", source=OWN, **fields)
    return Recipe(model=ViT(embed_dim=16, depth=2, num_heads=2), encoding=encoding)


@pytest.mark.parametrize(("name", "parameters"), [("Hills", 64 * 16 + 16 * 16 + 16), ("Border", 4)])
def test_an_own_encoding_is_counted_built_and_learns(name, parameters):
    recipe = own(name)
    model = build_model(recipe)
    init_weights(model, 0)
    assert sum(value.numel() for value in model.encoding.parameters()) == parameters
    assert estimate_cost(recipe).parameters == sum(value.numel() for value in model.parameters())
    model(torch.randn(2, 3, 32, 32)).square().sum().backward()
    assert all(value.grad.any() for value in model.encoding.parameters())


def test_initial_values_decay_and_other_grids_follow_from_the_declaration():
    recipe = own("Hills")
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
    recipe = own("Hills").put({"encoding.injection.kind": "concat", "encoding.injection.split": 0.25})
    model = build_model(recipe)
    assert model.encoding.Hills.heights.shape == (64, 4)
    assert estimate_cost(recipe).parameters == sum(value.numel() for value in model.parameters())
    separate = own("Hills").put({"encoding.injection": Add(places=("query", "key"), shared=False)})
    assert estimate_cost(separate).parameters == sum(value.numel() for value in build_model(separate).parameters())


def test_a_code_of_another_shape_is_refused():
    """torch would broadcast both: every channel, or every token, would get the same."""
    words = r"the code of own\.py:{} must have the shape \(65, 16\): tokens, channels; got shape {}"
    with pytest.raises(SpecError, match=words.format("Thin", r"\(65, 1\)")):
        build_model(own("Thin"))
    with pytest.raises(SpecError, match=words.format("Flat", r"\(1, 16\)")):
        build_model(own("Flat"))(torch.randn(2, 3, 32, 32))


def test_what_is_missing_or_clashes_is_said():
    with pytest.raises(SpecError, match=r"Silent of own\.py:Silent must have a method code\(p, at\), got none"):
        build_model(own("Silent"))
    with pytest.raises(SpecError, match="declared parameter must be one that no module of torch uses, got 'tokens'"):
        build_model(own("Clash"))


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
    spiral = load("mine.py", SPIRAL).Spiral()
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
    (tmp_path / "mine.py").write_text(SPIRAL)
    env = {**os.environ, "LOCUS_HOME": str(tmp_path / "home"), "PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_TORCH, verb, "./mine.py"], capture_output=True, text=True, cwd=tmp_path, env=env
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert shown in done.stdout
