"""What holds of every encoding, listed or a user's own: it learns, is computed once, in float32, and is counted."""

from itertools import product

import pytest
import torch
from torch.nn.functional import cross_entropy

from trainables.backbones import Swin, ViT
from trainables.backbones.vit import DEIT_TINY
from trainables.data import RedGreen
from trainables.encodings import (
    IRPE,
    KINDS,
    PEG,
    Add,
    ALiBi,
    Composed,
    Fourier,
    Gabor,
    Learnable,
    LearnableSinusoidal,
    NoEncoding,
    OwnEncoding,
    Parts,
    RelativeBias,
    Rotary,
    Sinusoidal,
    Widths,
    canonical,
    irpe_torch,
    parts_of,
)
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads, Tokens
from trainables.encodings.irpe import Cross
from trainables.recipe import FromFile, NoTeacher, Recipe, TaughtByTrial
from trainables.recipe.cost import estimate_cost
from trainables.recipe.model_torch import build_model
from trainables.training.init import init_weights
from trainables.training.loop import build_model_with_weights
from trainables.training.parameters import no_decay


def test_every_kind_has_an_example(examples):
    assert {kind for kind in examples if ".py:" not in kind} == {*KINDS}
    assert all(
        kind in {part.kind for part in parts_of(spec)} or spec.kind == kind
        for kind, specs in examples.items()
        for spec in specs
    )


def test_every_parameter_learns(encoding, make, images):
    model = make(encoding)
    before = {name: value.clone() for name, value in model.encoding.named_parameters()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    cross_entropy(model(images), torch.tensor([0, 2, 1, 2])).backward()
    learning = {name: value for name, value in model.encoding.named_parameters() if value.requires_grad}
    for name, value in learning.items():
        assert value.grad is not None, name
        assert torch.equal(value.grad != 0, reached(model.encoding, name)), name
    optimizer.step()
    for name, value in model.encoding.named_parameters():
        assert torch.equal(value, before[name]) == (name not in learning), name


def reached(encoding, name):
    """Which entries of a parameter some pair of patches names: tables keep rows for offsets that a small grid lacks."""
    part, leaf = encoding.part(name.split(".")[0]), name.rpartition(".")[2]
    entries = torch.ones_like(encoding.get_parameter(name), dtype=torch.bool)
    if isinstance(part, irpe_torch.IRPE):
        rows = entries.movedim(-2 if leaf == "v" else -1, -1)
        for mapped, index in enumerate(part.get_buffer("ids")):
            rows[:, mapped, ..., unnamed(index, rows.shape[-1])] = False
    elif leaf == "vectors":
        entries[:, unnamed(part.keys.get_buffer("index"), entries.shape[1])] = False
    return entries


def unnamed(index, count):
    return [number for number in range(count) if number not in index]


def shuffled(images, seed=3):
    """The images with their patches in another order, each as it was."""
    order = torch.randperm(15, generator=torch.Generator().manual_seed(seed))
    patches = images.unflatten(3, (5, 4)).unflatten(2, (3, 4)).permute(0, 2, 4, 1, 3, 5).flatten(1, 2)
    return patches[:, order].unflatten(1, (3, 5)).permute(0, 3, 1, 4, 2, 5).flatten(4, 5).flatten(2, 3)


def test_shuffled_patches_are_told_apart_only_with_position(encoding, make, images):
    model = make(encoding, spread=True).eval()
    with torch.no_grad():
        apart = (model(images) - model(shuffled(images))).abs().amax()
    assert apart < 1e-12 if encoding.is_noop else apart > 1e-4


def test_the_class_token_depends_on_position(encoding, make, images):
    model = make(encoding, "token", spread=True)
    with torch.no_grad():
        apart = (model(images) - model(shuffled(images))).abs().amax()
    assert apart < 1e-12 if encoding.is_noop else apart > 1e-6


def test_gradients_are_finite(encoding, make, images):
    for half in (False, True):
        model = make(encoding, "token", spread=True).float()
        with torch.autocast("cpu", torch.bfloat16, enabled=half):
            loss = cross_entropy(model(images.float()).float(), torch.tensor([0, 2, 1, 2]))
        loss.backward()
        assert loss.isfinite(), half
        for name, value in model.named_parameters():
            assert value.grad is None or value.grad.isfinite().all(), (half, name)


@pytest.mark.parametrize("spec", [
    IRPE(on=("q", "k", "v")), IRPE(mode="bias", on=("q", "k")), IRPE(mapping=Cross(), shared_heads=False),
    RelativeBias(),
], ids=["irpe", "irpe bias", "irpe cross", "relative_bias"])  # fmt: skip
def test_tables_at_zero_change_nothing(spec, make, images):
    model, plain = make(spec, "token"), make(NoEncoding(), "token")
    for block in [*model.blocks, *plain.blocks]:
        block.attn.fused_attn = False
    assert torch.equal(*(one.output(one.features(images)) for one in (model, plain)))


def test_nothing_stays_behind_when_the_model_moves(encoding, make, images):
    """On a device that holds no numbers: every tensor that a forward pass needs is a parameter or a buffer."""
    model = make(encoding, "token").to("meta")
    assert model(images.to("meta")).device.type == "meta"


def test_state_travels(encoding, make, images):
    one, other = make(encoding, seed=1, spread=True), make(encoding, seed=2)
    assert not torch.equal(one(images), other(images))
    other.load_state_dict(one.state_dict())
    assert torch.equal(one(images), other(images))


def test_two_models_of_one_spec_share_nothing(encoding, make, images):
    one, other = make(encoding), make(encoding)
    expected = other(images)
    for value in [*one.parameters(), *one.buffers()]:
        value.data.zero_()
    assert torch.equal(other(images), expected)
    tensors = [[value.data_ptr() for value in [*model.parameters(), *model.buffers()]] for model in (one, other)]
    assert not {*tensors[0]} & {*tensors[1]}


def test_names_begin_with_the_kind_and_parts_that_do_nothing_have_none(encoding, make):
    padded, model = Composed(parts=(NoEncoding(), encoding, PEG(places=()))), make(encoding)
    assert canonical(padded) == canonical(encoding)
    assert [*make(padded).state_dict()] == [*model.state_dict()]
    kinds = [part.label for part in encoding.parts] if isinstance(encoding, Composed) else [encoding.label]
    for name, _ in model.encoding.named_parameters(prefix="encoding"):
        assert name.split(".")[1] in {kind + suffix for kind in kinds for suffix in ("", "_2")}, name


def test_only_maps_decay(encoding, make):
    model = make(encoding, "token")
    decaying = {name for name, _ in model.named_parameters()} - no_decay(model)
    maps = {"qkv.weight", "proj.weight", "fc1.weight", "fc2.weight", "head.weight", "mlp.0.weight", "mlp.2.weight"}
    assert all(any(name.endswith(end) for end in maps) for name in decaying)


def test_fresh_values_do_not_depend_on_the_global_generator(encoding, make):
    torch.manual_seed(1)
    one = make(encoding)
    torch.manual_seed(2)
    other = make(encoding)
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_a_spec_declares_what_its_module_modifies_and_reads(encoding, make):
    """So that an order that cannot work is refused before anything is built."""
    if encoding.kind.startswith("toys.py:"):
        pytest.skip("an own spec need not declare it; its module does")
    module = make(encoding).encoding
    parts = encoding.parts if isinstance(encoding, Composed) else (encoding,)
    assert module.modifies_qk == any(part.modifies_qk for part in parts)
    assert module.reads_qk == any(part.reads_qk for part in parts)


GRID, WIDTHS = Grid(14, 11, prefix=1), Widths(16, 2, 8)
CODES = [
    *(Fourier(gamma=gamma) for gamma in (0.1, 0.3, 2.5, 40.0)),
    Fourier(gamma=0.1, coordinates="unit"),
    Sinusoidal(),
    LearnableSinusoidal(),
    Gabor(),
    Learnable(),
]


def code_and_gradients(spec, half, made=None):
    """The code, and the gradients of a random sum of it, with or without bfloat16 around."""
    made = build(spec, WIDTHS, GRID, 2)
    init_weights(made, 0)
    with torch.autocast("cpu", torch.bfloat16, enabled=half):
        code = made.tokens(Tokens(torch.zeros(2, GRID.tokens, 16), GRID), 0).x[0]
    weight = torch.randn(code.shape, generator=torch.Generator().manual_seed(1))
    learned = list(made.parameters())
    return code, torch.autograd.grad((code * weight).sum(), learned) if learned else ()


@pytest.mark.parametrize("spec", CODES, ids=str)
def test_a_code_under_bfloat16_is_the_code(spec):
    (plain, right), (half, left) = (code_and_gradients(spec, enabled) for enabled in (False, True))
    assert half.dtype == torch.float32
    assert torch.allclose(half, plain, rtol=0, atol=1e-6)
    for mine, theirs in zip(left, right, strict=True):
        assert torch.allclose(mine, theirs, rtol=0, atol=1e-6 * float(theirs.abs().max()))


@pytest.mark.parametrize("gamma", [0.1, 40.0])
def test_a_code_in_float32_is_that_in_float64(gamma):
    """What bfloat16 did to phases was an error of up to 26 % of the code at gamma 0.1."""
    made = build(Fourier(gamma=gamma), WIDTHS, GRID, 2)
    init_weights(made, 0)
    with torch.autocast("cpu", torch.bfloat16):
        half = made.tokens(Tokens(torch.zeros(2, GRID.tokens, 16), GRID), 0).x
    exact = made.double().tokens(Tokens(torch.zeros(2, GRID.tokens, 16).double(), GRID), 0).x
    assert exact.dtype == torch.float64
    assert torch.allclose(half.double(), exact, rtol=0, atol=1e-4 * float(exact.detach().abs().max()))


def test_learned_sines_start_as_the_fixed_ones_under_bfloat16():
    (fixed, _), (learned, _) = (code_and_gradients(spec, True) for spec in (Sinusoidal(), LearnableSinusoidal()))
    rounded = 4 * GRID.tokens * torch.finfo(torch.float32).eps  # of phases up to so many radians; bfloat16: 2**16 times
    assert torch.allclose(learned, fixed, rtol=0, atol=rounded)


def test_the_fixed_sines_are_exact_in_a_model_in_float64():
    made = build(Sinusoidal(), WIDTHS, GRID, 2).double()
    x = made.tokens(Tokens(torch.zeros(2, GRID.tokens, 16).double(), GRID), 0).x
    at = torch.arange(11, dtype=torch.float64)
    assert torch.allclose(x[0, 1:12, 2], (at * 10000.0**-0.25).sin(), rtol=0, atol=1e-15)


@pytest.mark.parametrize("spec", [Rotary(), Rotary(form="mixed"), ALiBi()], ids=str)
def test_angles_and_biases_are_in_float32_under_bfloat16(spec):
    made = build(spec, WIDTHS, GRID, 2)
    init_weights(made, 0)
    q = torch.randn(2, 2, 2, GRID.tokens, 8, generator=torch.Generator().manual_seed(1))
    plain = made.heads(Heads(q[0], q[1], q[1], None, GRID), 1)
    with torch.autocast("cpu", torch.bfloat16):
        half = made.heads(Heads(q[0], q[1], q[1], None, GRID), 1)
    assert torch.allclose(half.q, plain.q, rtol=0, atol=1e-6)
    assert plain.bias is None or torch.equal(half.bias, plain.bias)
    low = made.heads(Heads(*(part.bfloat16() for part in (q[0], q[1], q[1])), None, GRID), 1)
    assert low.q.dtype == torch.bfloat16
    assert torch.allclose(low.q.float(), plain.q, rtol=0.02, atol=0.02)


@pytest.mark.parametrize(("spec", "method", "calls"), [
    (Fourier(injection=Add(places=("query", "key", "value"))), "code", 1),
    (Gabor(injection=Parts(parts=(1, 4))), "code", 1),
    (Gabor(injection=Parts(parts=(1, 4), shared=False)), "code", 8),
    (Composed(parts=(Fourier(injection=Add(blocks=4)), Fourier())), "code", 2),
    (Rotary(form="mixed"), "terms", 1),
    (Rotary(), "terms", 0),
    (Sinusoidal(injection=Add(places=("query", "key"))), "code", 0),
], ids=str)  # fmt: skip
def test_what_blocks_share_is_computed_once_a_forward(spec, method, calls, monkeypatch):
    """In four blocks. What depends on no parameter is computed when the model is built."""
    model = build_model(Recipe(model=ViT(depth=4, embed_dim=16, num_heads=2), encoding=spec))
    counted = count(type(spec.parts[0] if isinstance(spec, Composed) else spec), method, monkeypatch)
    images = torch.randn(2, 3, 32, 32)
    model(images)
    assert len(counted) == calls
    model(images)
    assert len(counted) == 2 * calls, "the next forward computes it again"


def test_stages_share_a_code_among_their_blocks(monkeypatch):
    spec = Fourier(injection=Add(blocks=2))
    model = build_model(Recipe(model=Swin(), encoding=spec))
    counted = count(Fourier, "code", monkeypatch)
    model(torch.randn(2, 3, 32, 32))
    assert len(counted) == 2, "one for each of two stages"


def count(cls, method, monkeypatch):
    counted, whole = [], getattr(cls, method)

    def counting(self, *args):
        counted.append(self)
        return whole(self, *args)

    monkeypatch.setattr(cls, method, counting)
    return counted


def test_a_shared_code_learns_from_all_its_places():
    """The gradient is the sum of those of separate codes with the same values."""
    shared, separate = (
        build_model(Recipe(model=ViT(depth=3), encoding=Gabor(injection=Add(places=("query", "key"), shared=flag))))
        for flag in (True, False)
    )
    for model in (shared, separate):
        init_weights(model, 0)
        model.double()
    codes = list(separate.encoding.gabor.children())
    assert len(codes) == 6
    for code in codes:
        code.load_state_dict(shared.encoding.gabor.state_dict())
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    one, other = shared(images), separate(images)
    assert torch.equal(one, other)
    for out in (one, other):
        out.square().sum().backward()
    for name, value in shared.encoding.gabor.named_parameters():
        total = sum(code.get_parameter(name).grad for code in codes)
        assert torch.allclose(value.grad, total, rtol=1e-10, atol=1e-14), name


OWN = """
from torch import nn
import torch
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import PositionEncoding

class Table(EncodingSpec):
    kind: str = "own.py:Table"
    def build(self, widths, grid, depth):
        return Module(widths, grid)

class Module(PositionEncoding):
    decay = ("mix.weight",)
    def __init__(self, widths, grid):
        super().__init__()
        self.table = nn.Parameter(torch.zeros(grid.tokens, widths.dim))
        self.mix = nn.Linear(widths.dim, widths.dim)
    def init_parameter(self, name, value, stream):
        value.normal_(generator=stream)
"""


def test_tables_of_own_encodings_do_not_decay_unless_declared():
    own = OwnEncoding(kind="own.py:Table", source=OWN)
    model = build_model(Recipe(encoding=Composed(parts=(own, Fourier()))))
    decaying = {name for name, _ in model.encoding.named_parameters(prefix="encoding")} - no_decay(model)
    assert decaying == {"encoding.Table.mix.weight", "encoding.fourier.mlp.0.weight", "encoding.fourier.mlp.2.weight"}


UNCOUNTED = ("toys.py:Spiral", "toys.py:Beside", "toys.py:Marker")
"""Encodings of one's own that do not say how many parameters they have."""


SIZE = (3, 12, 20)
TEACHERS = {"distilled": TaughtByTrial(values={})}


def test_what_learns_is_counted(encoding, monkeypatch):
    monkeypatch.setattr(RedGreen, "size", property(lambda self: SIZE))
    if encoding.kind in UNCOUNTED:
        pytest.skip("it does not count")
    model = ViT(embed_dim=16, num_heads=2, depth=2)
    parts = ("all", "position+head") if encoding.trainable_parameters(model.shapes(SIZE)[0]) else ("all",)
    for pool, learns in product(("token", "avg", "gap", "distilled"), parts):
        model = ViT(embed_dim=16, num_heads=2, depth=2, mlp_ratio=2.5, pool=pool)
        recipe = Recipe(model=model, encoding=encoding, trainable=learns, teacher=TEACHERS.get(pool, NoTeacher()))
        built = [(value.numel(), value.requires_grad) for value in build_model_with_weights(recipe, 0).parameters()]
        weight = estimate_cost(recipe)
        assert weight.parameters == sum(count for count, _ in built)
        assert weight.learnt == sum(count for count, learning in built if learning)


def own(form, *places):
    return Gabor(form=form, injection=Add(places=places, shared=False))


IN_QK, IN_V = own("gabor+edge", "query", "key"), own("edge", "value")


@pytest.mark.parametrize(("spec", "count"), [
    (IN_QK, 64_512),
    (Composed(parts=(IN_QK, IN_V)), 78_336),
    (Composed(parts=(IN_QK, IN_V, PEG(frozen=True))), 78_336),
    (Learnable(injection=Add(places=("query", "key"), shared=False)), 907_776),
])  # fmt: skip
def test_published_counts_of_what_learns(spec, count, monkeypatch):
    """Gabor paper, table 3: DeiT-Ti frozen, position alone learns."""
    monkeypatch.setattr(RedGreen, "size", property(lambda self: (3, 224, 224)))
    recipe = Recipe(model=DEIT_TINY, encoding=spec, init=FromFile("w.pt", "0" * 64, "backbone"))
    assert estimate_cost(recipe.put({"trainable": "position"})).learnt == count
    frozen = 192 * 10 if isinstance(spec, Composed) and len(spec.parts) == 3 else 0
    assert estimate_cost(recipe).learnt == estimate_cost(recipe).parameters - frozen
