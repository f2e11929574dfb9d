"""Encodings that reserve channels of the content, append channels to the heads, or act after the softmax."""

import pytest
import torch

from trainables.encodings import Composed, Learnable, NoEncoding, OwnEncoding
from trainables.spec import LocusError, SpecError


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
