"""Encodings compose by doing one after another, reserve channels beside each other, and as the papers compose them."""

import pytest
import torch

from trainables.backbones import ViT
from trainables.data import Digits
from trainables.encodings import (
    IRPE,
    PEG,
    Add,
    Composed,
    Concat,
    Extend,
    Fourier,
    Gabor,
    Learnable,
    NoEncoding,
    OwnEncoding,
    Parts,
    Relative,
    RelativeBias,
    ReservedChannels,
    Sinusoidal,
    Widths,
)
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Composition, Grid, Heads, PositionEncoding, Tokens
from trainables.encodings.relative import ClippedOffsets
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.spec import LocusError, SpecError
from trainables.training.init import init_weights

GRID = Grid(3, 5, prefix=1)
WIDTHS = Widths(dim=16, heads=2, head_dim=8)


def module(spec, seed=0):
    made = build(spec, WIDTHS, GRID, depth=2)
    init_weights(made, seed)
    return made


def acts(encoding, block):
    """What an encoding does with the tokens and heads of a block, as tensors."""
    stream = torch.Generator().manual_seed(7)
    content = 16 - encoding.reserved.tokens * (block == 0)
    t = encoding.tokens(Tokens(torch.randn(3, 16, content, generator=stream), GRID), block)
    q, k, v = torch.randn(3, 3, 2, 16, 8, generator=stream)
    h = encoding.heads(Heads(q, k, v, None, GRID), block)
    o = encoding.outputs(v, torch.rand(3, 2, 16, 16, generator=stream), GRID, block)
    terms = (h.bias, encoding.value_terms(h, block))
    return [t.x, h.q, h.k, h.v, o, *(term for term in terms if term is not None)]


def same(one, other):
    left, right = ([*acts(one, 0), *acts(one, 1)], [*acts(other, 0), *acts(other, 1)])
    return len(left) == len(right) and all(torch.equal(a, b) for a, b in zip(left, right, strict=True))


def test_the_empty_composition_is_the_unit(encoding):
    part, empty = module(encoding), Composition({})
    assert same(Composition({"a": empty, "b": part}), part)
    assert same(Composition({"a": part, "b": empty}), part)


def test_composition_is_associative(encoding):
    if encoding.shrinks:
        pytest.skip("nothing that is bound to a grid may follow")
    first, second, third = module(encoding), module(PEG()), module(Composed(parts=(Sinusoidal(), RelativeBias())))
    left = Composition({"x": Composition({"a": first, "b": second}), "c": third})
    right = Composition({"a": first, "x": Composition({"b": second, "c": third})})
    assert same(left, right)


def test_the_order_is_checked_through_nested_compositions():
    reserved, whole = Part(reserved=ReservedChannels(tokens=3)), Part()
    with pytest.raises(SpecError, match="got add before concat"):
        Composition({"x": Composition({"first": reserved, "add": whole}), "concat": reserved})


def test_order_matters():
    add, convolve = module(Sinusoidal()), module(PEG())
    assert not same(Composition({"a": add, "b": convolve}), Composition({"a": convolve, "b": add}))


def test_biases_add_up():
    both = module(Composed(parts=(RelativeBias(), RelativeBias(shared=True))))
    for parameter in both.parameters():
        torch.nn.init.normal_(parameter)
    *_, bias = acts(both, 1)
    own, shared = (acts(both.part(name), 1)[-1] for name in ("relative_bias", "relative_bias_2"))
    assert torch.equal(bias, own + shared)


def test_second_parts_of_a_kind_are_numbered():
    assert module(Composed(parts=(Fourier(), Learnable(), Fourier()))).parts == ("fourier", "learnable", "fourier_2")


class Part(PositionEncoding):
    def __init__(self, reserved=ReservedChannels(), modifies_qk=False, reads_qk=False):  # noqa: B008
        super().__init__()
        self.reserved, self.modifies_qk, self.reads_qk = reserved, modifies_qk, reads_qk


def test_parts_that_modify_q_and_k_come_before_those_that_read_them():
    modifies_qk, reads_qk = Part(modifies_qk=True), Part(reads_qk=True)
    Composition({"turn": modifies_qk, "term": reads_qk})
    with pytest.raises(SpecError, match=r"q and k change before they are read, got term before turn"):
        Composition({"term": reads_qk, "turn": modifies_qk})


def test_parts_that_reserve_channels_of_the_tokens_come_first():
    reserved, whole = Part(reserved=ReservedChannels(tokens=3)), Part()
    assert Composition({"concat": reserved, "other": reserved, "add": whole}).reserved == ReservedChannels(tokens=6)
    with pytest.raises(SpecError, match="got add before concat"):
        Composition({"add": whole, "concat": reserved})


@pytest.fixture
def toy(examples):
    source = examples["toys.py:Beside"][0].source

    def encoding(name: str, **knobs: int) -> OwnEncoding:
        return OwnEncoding(kind=f"toys.py:{name}", source=source, **knobs)

    return encoding


def test_concat_makes_the_patch_embedding_narrower(toy, make, images):
    concat = make(toy("Beside", tokens=6), "token")
    assert concat.patch_embed.proj.weight.shape == (10, 3, 4, 4)
    assert concat.cls_token.shape == (1, 1, 10)
    assert concat.encoding.Beside.tables["tokens"].shape == (16, 6)
    added = make(Learnable(), "token")
    counts = [sum(value.numel() for value in model.parameters()) for model in (added, concat)]
    assert (
        counts[0] - counts[1] == 6 * (3 * 4 * 4 + 1) + 6 + 16 * 10
    )  # patch weights and biases, class, a narrower table


def test_concat_is_addition_of_what_fills_other_channels(toy, make, images):
    """[content, position] = [content, 0] + [0, position]: the same numbers as a table in a model of full width."""
    concat, added = make(toy("Beside", tokens=6), "token", spread=True), make(Learnable(), "token")
    state = {name: value for name, value in concat.state_dict().items() if not name.startswith("encoding.")}
    for name in ("patch_embed.proj.weight", "patch_embed.proj.bias", "cls_token"):
        full = torch.zeros_like(dict(added.named_parameters())[name])
        place = (..., slice(10)) if name == "cls_token" else (slice(10),)
        full[place] = state[name]
        state[name] = full
    table = torch.cat([torch.zeros(16, 10), concat.encoding.Beside.tables["tokens"]], dim=1)
    added.load_state_dict({**state, "encoding.learnable.table": table})
    assert torch.allclose(concat(images), added(images), rtol=0, atol=1e-12)


def test_channels_a_head_make_the_projection_narrower(toy, make, images):
    model = make(toy("Beside", q=3, k=3, v=1))
    assert model.blocks[1].attn.qkv.weight.shape == (2 * (5 + 5 + 7), 16)
    assert model(images).shape == (4, 3)


def test_extra_channels_add_their_product_at_the_scale_of_the_head(toy, make, images):
    model, plain = make(toy("Beside", extra=4), spread=True), make(NoEncoding())
    heads = {}
    tables = model.encoding.Beside.tables
    hook = model.blocks[0].attn.qkv.register_forward_hook(lambda _, __, out: heads.setdefault("qkv", out))
    seen = model.blocks[0].attn.proj.register_forward_pre_hook(lambda _, inputs: heads.setdefault("o", inputs[0]))
    model(images)
    q, k, v = heads["qkv"].reshape(4, 15, 3, 2, 8).permute(2, 0, 3, 1, 4)
    logits = (q @ k.mT + tables["q"] @ tables["k"].T) / 8**0.5
    expected = (logits.softmax(3) @ v).transpose(1, 2).flatten(2)
    assert torch.allclose(heads["o"], expected, rtol=0, atol=1e-12)
    assert plain.blocks[0].attn.scale == 8**-0.5
    hook.remove(), seen.remove()


def test_outputs_see_the_weights(toy, make, images):
    """Marks of a place reach a query by its weights, so rows that sum to one add a mean of marks."""
    model = make(toy("Marker"), spread=True)
    with torch.no_grad():
        before = model(images)
        model.encoding.Marker.marks.zero_()
        plain = make(NoEncoding())
        plain.load_state_dict(model.state_dict(), strict=False)
        assert torch.allclose(model(images), plain(images), rtol=0, atol=1e-12)
        model.encoding.Marker.marks.fill_(0.3)
        assert not torch.allclose(model(images), before)


@pytest.mark.parametrize(("knobs", "complaint"), [
    ({"tokens": 16}, "fewer than the 16 channels of the tokens, got 16"),
    ({"q": 8}, "fewer than the 8 channels of q a head, got 8"),
    ({"v": 9}, "fewer than the 8 channels of v a head, got 9"),
])  # fmt: skip
def test_reserving_too_many_channels_is_an_error(toy, make, knobs, complaint):
    with pytest.raises(SpecError, match=f"encoding must reserve {complaint}"):
        make(toy("Beside", **knobs))


def test_parts_together_may_reserve_too_many(toy, make):
    with pytest.raises(SpecError, match="got 18"):
        make(Composed(parts=(toy("Beside", tokens=9), toy("Beside", tokens=9))))


def test_two_parts_reserve_channels_beside_each_other(toy, make, images):
    model = make(Composed(parts=(toy("Beside", tokens=4), toy("Beside", tokens=2), Learnable())))
    assert model.patch_embed.proj.weight.shape[0] == 10
    assert [*model.encoding.parts] == ["Beside", "Beside_2", "learnable"]
    assert [model.encoding.part(name).seen_dim for name in ("Beside", "Beside_2")] == [14, 16]
    assert model(images).shape == (4, 3)


def test_an_encoding_that_builds_something_else_is_an_error(make):
    source = (
        "from trainables.encodings import EncodingSpec\n"
        "class Wrong(EncodingSpec):\n    kind: str = 'w.py:Wrong'\n"
        "    def build(self, widths, grid, depth):\n        return 3\n"
        "class Bare(EncodingSpec):\n    kind: str = 'w.py:Bare'\n"
    )
    with pytest.raises(SpecError, match=r"Wrong\.build of w\.py:Wrong must return a PositionEncoding, got int"):
        make(OwnEncoding(kind="w.py:Wrong", source=source))
    with pytest.raises(SpecError, match=r"Bare of w\.py:Bare must have a method build"):
        make(OwnEncoding(kind="w.py:Bare", source=source))


def test_intermediates_are_refused(make, images):
    with pytest.raises(LocusError, match="without their position"):
        make(NoEncoding()).forward_intermediates(images)


def test_a_flag_that_nothing_reads_is_refused():
    """In a spec and in a module; names of other values, and those that begin with an underscore, are one's own."""
    head = "from typing import ClassVar\nfrom trainables.encodings import HeadsSpec\n"
    head += "from trainables.encodings.encoding_torch import PositionEncoding\n"
    spec = "class One(HeadsSpec):\n    kind: str = 'w.py:One'\n    {}\n"
    module = "class Two(PositionEncoding):\n    {}\n"
    for text, said in (
        (spec.format("accept_fewer_queries: ClassVar[bool] = True"), "accepts_fewer_queries, got accept_fewer_queries"),
        (module.format("reads_weight = True"), "reads_weights, got reads_weight"),
    ):
        with pytest.raises(LocusError, match=rf"^w\.py, line \d+: a flag of .* is read, such as {said}$"):
            OwnEncoding(kind="w.py:One", source=head + text)
    for flag in ("modifies_qk = True", "reads_qk: ClassVar[bool] = True", "most: ClassVar[int] = 3", "_mine = True"):
        OwnEncoding(kind="w.py:One", source=head + spec.format(flag) + module.format("frozen = True"))


QUERY_KEY = Add(places=("query", "key"), shared=False)
EDGE_IN_VALUE = Gabor(form="edge", injection=Add(places=("value",), shared=False))

COMPOSITIONS = {
    "LE + PEG": Composed(parts=(Learnable(), PEG(places=(0,)))),
    "LE + RPE, shared": Composed(parts=(Learnable(), RelativeBias(shared=True))),
    "LE + RPE, Shaw": Composed(parts=(Learnable(), Relative(offsets=ClippedOffsets(reach=8)))),
    "4 PEG + LE": Composed(parts=(Learnable(), PEG(places=(0, 1, 2, 3)))),
    "separable PEGs": PEG(places=(0, 1, 2, 3, 4), form="separable"),
    "LE at six places": Learnable(injection=Add(blocks=6, shared=False)),
    "G+E in q, k, E in v": Composed(parts=(Gabor(injection=QUERY_KEY), EDGE_IN_VALUE)),
    "part 4, E in v": Composed(parts=(Gabor(injection=Parts(parts=(1, 4), shared=False)), EDGE_IN_VALUE)),
    "parts 2, 3": Gabor(injection=Parts(parts=(1, 2, 3), shared=False)),
    "m appended channels": Composed(parts=(Gabor(injection=Extend(channels=16, shared=False)), EDGE_IN_VALUE)),
    "LE in q, k": Learnable(injection=QUERY_KEY),
    "the first three blocks": Gabor(injection=Add(places=("query", "key"), blocks=3, shared=False)),
    "APE + iRPE": Composed(parts=(Learnable(), IRPE(on=("q", "k", "v")))),
    "concat": Learnable(injection=Concat()),
    "concat in q, k, v": Learnable(injection=Concat(places=("query", "key", "value"))),
    "PEG on q, k": PEG(places=(0,), into="query_key"),
    "appended channels and iRPE": Composed(parts=(Gabor(injection=Extend(channels=2)), IRPE(on=("q", "k")))),
}


@pytest.mark.parametrize("pool", ["token", "gap"])
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions(name, pool):
    model = ViT(embed_dim=24, num_heads=3, depth=7, patch_size=2, pool=pool)
    recipe = Recipe(data=Digits(), model=model, encoding=COMPOSITIONS[name])
    assert Recipe.read(recipe.plain()) == recipe
    built = build_model(recipe).double()
    for value in built.parameters():
        torch.nn.init.normal_(value, std=0.2)
    images = torch.randn(2, 1, 8, 8, dtype=torch.float64)
    mirrored = images.unflatten(3, (4, 2)).flip(3).flatten(3)
    assert (built(images) - built(mirrored)).abs().max() > 1e-8
    built(images).square().sum().backward()
    assert all(value.grad.isfinite().all() for value in built.parameters())
