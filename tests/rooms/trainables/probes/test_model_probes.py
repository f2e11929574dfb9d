"""What probes see of a model: its codes, its attention, the terms of its logits, each against torch or a loop."""

from __future__ import annotations

import math
from copy import deepcopy
from importlib import import_module

import numpy as np
import pytest
import torch

from trainables import probes
from trainables.backbones.vit_torch import PositionedViT
from trainables.probes import TERMS, Grid, ProbeError
from trainables.probes.subject import Subject, trained
from trainables.recipe import Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.training.checkpoint import write
from trainables.training.init import init_weights

attention_distance, attention_maps, logit_terms = (
    import_module(f"trainables.probes.{name}") for name in ("attention_distance", "attention_maps", "logit_terms")
)
"""The files, for the package offers a function of some of these names."""

SMALL = {"data.image_size": 24, "model.patch_size": 8, "model.embed_dim": 16, "model.num_heads": 2, "model.depth": 2}


def recipe(**values) -> Recipe:
    return Recipe().put(SMALL | {name.replace("__", "."): value for name, value in values.items()})


def model(found: Recipe, seed: int = 0) -> PositionedViT:
    """A model in float64 whose weights, encoding included, are not small."""
    made = build_model(found)
    init_weights(made, seed)
    made = made.double().eval()
    stream = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for value in made.parameters():
            value += 0.3 * torch.randn(value.shape, generator=stream, dtype=value.dtype)
    return made


def pictures(found: Recipe, count: int = 3) -> torch.Tensor:
    return torch.rand(count, *found.data.size, dtype=torch.float64, generator=torch.Generator().manual_seed(9))


@pytest.mark.parametrize("pool", ["token", "avg", "distilled"])
def test_codes_are_the_rows_of_the_patches(pool) -> None:
    values = {"model__pool": pool}
    if pool == "distilled":
        values["teacher"] = {"kind": "from_trial", "values": {}}
    made = model(recipe(encoding__kind="learnable", **values))
    table = made.state_dict()["encoding.learnable.table"]
    torch.testing.assert_close(
        probes.codes_of(made), table[{"token": 1, "avg": 0, "distilled": 2}[pool] :], rtol=0, atol=0
    )


def test_codes_of_a_composition_add_up_and_stand_beside() -> None:
    parts = [{"kind": "learnable"}, {"kind": "sinusoidal"}, {"kind": "irpe"}, {"kind": "peg"}]
    made = model(recipe(encoding={"kind": "composed", "parts": parts}))
    expected = made.encoding.part("learnable").code() + made.encoding.part("sinusoidal").code()
    torch.testing.assert_close(probes.codes_of(made), expected[1:], rtol=0, atol=0)
    beside = {"kind": "concat", "split": 0.25}
    made = model(recipe(encoding={"kind": "learnable", "injection": beside}))
    assert probes.codes_of(made).shape == (9, 4)
    torch.testing.assert_close(probes.codes_of(made), made.encoding.part("learnable").code()[1:], rtol=0, atol=0)
    both = [{"kind": "sinusoidal", "injection": beside}, {"kind": "learnable"}]
    made = model(recipe(encoding={"kind": "composed", "parts": both}))
    found = probes.codes_of(made)
    table = made.encoding.part("learnable").code()[1:]
    torch.testing.assert_close(found[:, :12], table[:, :12], rtol=0, atol=0)
    torch.testing.assert_close(found[:, 12:], table[:, 12:] + made.encoding.part("sinusoidal").code()[1:])


def test_weights_in_float64_keep_their_digits(tmp_path) -> None:
    found = recipe(encoding__kind="learnable", optimizer__precision="float64")
    state = model(found).state_dict()
    write(tmp_path / "weights.pt", state)
    subject = trained(Run(recipe=found, seed=0), tmp_path / "weights.pt", None)
    torch.testing.assert_close(subject.codes, state["encoding.learnable.table"][1:], rtol=0, atol=0)
    torch.testing.assert_close(subject.model.state_dict()["head.weight"], state["head.weight"], rtol=0, atol=0)
    assert subject.images.dtype == torch.float64
    assert subject.images.shape == (32, *found.data.size)


HEADS = {"kind": "add", "places": ["query", "key"]}


@pytest.mark.parametrize(
    "encoding",
    [
        {"kind": "none"},
        {"kind": "rotary"},
        {"kind": "irpe"},
        {"kind": "peg"},
        {"kind": "learnable", "injection": HEADS},
    ],
    ids=str,
)
def test_what_has_no_code_of_the_tokens_gives_none(encoding) -> None:
    assert probes.codes_of(model(recipe(encoding=encoding))) is None


def test_the_own_code_of_the_first_block_counts_where_each_place_has_one() -> None:
    injection = {"kind": "add", "places": ["common", "query"], "shared": False}
    made = model(recipe(encoding={"kind": "learnable", "injection": injection}))
    expected = made.state_dict()["encoding.learnable.common_0.table"][1:]
    torch.testing.assert_close(probes.codes_of(made), expected, rtol=0, atol=0)


@pytest.mark.parametrize("kind", ["cait", "convit", "volo", "tnt", "pvt_v2", "twins", "swin"])
def test_every_backbone_has_its_codes(kind) -> None:
    found = Recipe().put({"data.image_size": 32, "model.kind": kind, "encoding.kind": "learnable"})
    made = build_model(found)
    init_weights(made, 0)
    table = next(value for name, value in made.named_parameters() if name.endswith("learnable.table"))
    codes = probes.codes_of(made, found.shapes[0])
    torch.testing.assert_close(codes, table.detach()[found.shapes[0].prefix :], rtol=0, atol=0)


ENCODINGS = [
    {"kind": "none"},
    {"kind": "learnable"},
    {"kind": "relative", "value": True},
    {"kind": "irpe"},
    {"kind": "rotary"},
    {"kind": "composed", "parts": [{"kind": "learnable"}, {"kind": "relative_bias"}]},
    {"kind": "peg", "padding": "valid", "places": [0]},
]


@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda one: one["kind"])
def test_attention_is_what_the_model_computes(encoding) -> None:
    """Values of ones in one channel and the identity behind them: the block's output is the row of weights."""
    found = recipe(encoding=encoding)
    made = model(found)
    images = pictures(found)
    before = {name: value.clone() for name, value in made.state_dict().items()}
    blocks = probes.attention_of(made.train(), images)
    assert all(module.training for module in made.modules()), "the model's mode is its own"
    assert isinstance(made, PositionedViT)
    assert all(torch.equal(value, before[name]) for name, value in made.state_dict().items())
    assert blocks[0].grid == Grid(3, 3, 1)
    for block in blocks:
        assert block.weights.shape == (3, 2, block.grid.tokens, block.grid.tokens)
        torch.testing.assert_close(block.weights.sum(dim=3), torch.ones(3, 2, block.grid.tokens).double())
    if encoding["kind"] == "peg":
        assert blocks[1].grid == Grid(1, 1, 1), "a smaller grid has its own"
    made.eval()
    out, seen = made(images), []
    hooks = [
        block.attn.qkv.register_forward_hook(lambda layer, inputs, output: seen.append(output.detach()))
        for block in made.blocks
    ]
    made.features(images)
    for hook in hooks:
        hook.remove()
    torch.testing.assert_close(made(images), out, rtol=0, atol=0)
    if encoding["kind"] in ("none", "learnable"):
        q, k, _ = (part.unflatten(2, (2, 8)) for part in seen[1].split(16, dim=2))
        logits = torch.einsum("bihe,bjhe->bhij", q, k) / math.sqrt(8)
        torch.testing.assert_close(blocks[1].weights, logits.softmax(dim=3), rtol=0, atol=1e-12)


def test_attention_is_bit_equal_with_and_without_another_batch_and_after_an_error() -> None:
    found = recipe(encoding__kind="learnable")
    made, images = model(found), pictures(found)
    whole = probes.attention_of(made, images)
    alone = probes.attention_of(made, images[:1])
    torch.testing.assert_close(whole[1].weights[:1], alone[1].weights)
    encoding = made.encoding
    with pytest.raises(RuntimeError):
        probes.attention_of(made, images[:, :2])
    assert made.encoding is encoding, "the model keeps its encoding after an error"


@pytest.mark.parametrize("kind", ["cait", "convit"])
def test_attention_of_cait_and_convit(kind) -> None:
    found = Recipe().put({"data.image_size": 32, "model.kind": kind, "encoding.kind": "learnable"})
    made = build_model(found)
    init_weights(made, 0)
    made = made.double().eval()
    blocks = probes.attention_of(made, pictures(found, 2))
    assert len(blocks) == len(made.blocks)
    for block in blocks:
        assert (block.grid.rows, block.grid.columns) == (found.shapes[0].rows, found.shapes[0].columns)
        assert block.weights.shape[2:] == (block.grid.tokens, block.grid.tokens)
        assert np.isfinite(probes.attention_distance(block.weights, block.grid)).all()
        assert block.grid.prefix == 0 or kind == "convit"
        torch.testing.assert_close(block.weights.sum(dim=3), torch.ones_like(block.weights[..., 0]))


def test_attention_of_another_backbone_is_refused() -> None:
    found = Recipe().put({"data.image_size": 32, "model.kind": "swin", "encoding.kind": "peg"})
    with pytest.raises(ProbeError, match="attention is probed in vit, cait and convit, got Swin"):
        probes.attention_of(build_model(found), pictures(found))


def places(*names, kind="add", **more) -> dict:
    return {"kind": kind, "places": [*names], **more}


SPLIT = {
    "add": ({"kind": "learnable"}, [0]),
    "sinusoidal": ({"kind": "sinusoidal"}, [0]),
    "two": ({"kind": "composed", "parts": [{"kind": "learnable"}, {"kind": "gabor"}]}, [0]),
    "concat": ({"kind": "learnable", "injection": places("common", kind="concat")}, [0]),
    "concat common and key": (
        {"kind": "learnable", "injection": places("common", "key", kind="concat", shared=False)},
        [0],
    ),
    "query, key": ({"kind": "learnable", "injection": places("query", "key")}, [0, 1]),
    "key": ({"kind": "learnable", "injection": places("key", blocks=1)}, [0]),
    "concat query, key": (
        {"kind": "learnable", "injection": places("query", "key", kind="concat", split=0.25)},
        [0, 1],
    ),
    "concat query": ({"kind": "gabor", "injection": places("query", "value", kind="concat", split=0.5)}, [0, 1]),
    "own": ({"kind": "learnable", "injection": places("query", "key", shared=False)}, [0, 1]),
    "extend": ({"kind": "learnable", "injection": {"kind": "extend", "channels": 4}}, [0, 1]),
    "both": ({"kind": "learnable", "injection": places("common", "query", "key")}, [0]),
    "value": ({"kind": "learnable", "injection": places("value")}, []),
}


def logits(made: PositionedViT, images: torch.Tensor) -> list[torch.Tensor]:
    """The logarithm of the weights is the logits up to a number a row, so rows are compared without their mean."""
    return [block.weights.log() for block in probes.attention_of(made, images)]


def centered(value: torch.Tensor) -> torch.Tensor:
    return value - value.mean(dim=-1, keepdim=True)


@pytest.mark.parametrize("name", SPLIT)
@pytest.mark.parametrize("pool", ["token", "avg"])
def test_the_four_terms_add_up_to_the_logits(name, pool) -> None:
    encoding, blocks = SPLIT[name]
    found = recipe(encoding=encoding, model__pool=pool)
    made, images = model(found), pictures(found, 2)
    terms = probes.logit_terms(made, images)
    assert [one.block for one in terms] == blocks
    for one in terms:
        true = logits(made, images)[one.block]
        torch.testing.assert_close(centered(one.terms.sum(dim=0)), centered(true), rtol=0, atol=1e-10)
        single = probes.logit_terms(deepcopy(made).float(), images.float())
        near = next(other for other in single if other.block == one.block)
        torch.testing.assert_close(near.terms.sum(dim=0).double(), one.terms.sum(dim=0), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["add", "concat"])
def test_carried_codes_are_split_in_every_block_and_add_up(kind) -> None:
    found = recipe(encoding={"kind": "learnable", "injection": {"kind": kind}})
    made, images = model(found), pictures(found, 2)
    (first,), carried = probes.logit_terms(made, images), probes.logit_terms(made, images, carried=True)
    assert [one.block for one in carried] == [0, 1]
    torch.testing.assert_close(carried[0].terms, first.terms, rtol=0, atol=0)
    for one, true in zip(carried, logits(made, images), strict=True):
        torch.testing.assert_close(centered(one.terms.sum(dim=0)), centered(true), rtol=0, atol=1e-10)
    own = probes.logit_terms(model(recipe(encoding__kind="learnable", encoding__injection=HEADS)), images, carried=True)
    assert [one.block for one in own] == [0, 1], "codes of queries and keys are split as without it"


def test_a_code_that_later_blocks_cannot_see_has_no_carried_terms() -> None:
    """The second block's queries and keys read the first 8 channels alone, where a concatenated code is not."""
    found = recipe(encoding={"kind": "learnable", "injection": {"kind": "concat"}})
    made, images = model(found), pictures(found, 2)
    with torch.no_grad():
        made.blocks[1].attn.qkv.weight[:, 8:] = 0
        made.blocks[1].norm1.weight.fill_(1)
        table = made.get_parameter("encoding.learnable.table")
        table -= table.mean(dim=1, keepdim=True)  # else the norm would carry its mean into all channels
    terms = probes.logit_terms(made, images, carried=True)[1].terms
    assert terms[0].abs().max() > 0.1
    torch.testing.assert_close(terms[1:], torch.zeros_like(terms[1:]), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", ["add", "concat"])
def test_the_numbers_of_logit_terms_are_those_of_its_terms(kind) -> None:
    found = recipe(encoding={"kind": "learnable", "injection": {"kind": kind}})
    subject = Subject(found, model(found))
    first, last = probes.logit_terms(subject.model, subject.images, carried=True)
    values = logit_terms.probe(subject).values
    shares = [float(term.std(dim=-1, correction=0).mean()) for term in first.terms]
    assert [values[name] for name in TERMS] == pytest.approx([share / sum(shares) for share in shares])
    early, late = (float(one.terms[1:].sum(dim=0).std(dim=-1, correction=0).mean()) for one in (first, last))
    assert values["position"] == pytest.approx(early)
    assert values["last_by_first"] == pytest.approx(late / early)


def test_the_last_blocks_are_a_third_of_all_and_one_at_least() -> None:
    for depth, last in ((1, 1), (2, 1), (5, 1), (6, 2)):
        found = recipe(model__depth=depth, encoding__kind="learnable")
        values = attention_distance.probe(Subject(found, model(found))).values
        blocks = [values[f"block_{number}"] for number in range(depth)]
        assert values["last"] == pytest.approx(np.mean(blocks[-last:]))


@pytest.mark.parametrize("pool", ["token", "avg"])
def test_attention_maps_equal_a_loop(pool) -> None:
    found = recipe(encoding__kind="learnable", model__pool=pool)
    subject = Subject(found, model(found))
    findings = attention_maps.probe(subject)
    prefix = int(pool == "token")
    blocks = [block.weights.numpy() for block in probes.attention_of(subject.model, subject.images)]
    maps, heat = findings.arrays["maps"], findings.arrays["heat"]
    assert (maps.shape, heat.shape, findings.arrays["images"].shape) == ((2, 9, 3, 3), (4, 3, 3), (4, 24, 24, 3))
    for place, weights in enumerate(blocks):
        for query in range(9):
            rows = weights[:, :, prefix + query, prefix:]
            mean = np.mean([row / row.sum() for image in rows for row in image], axis=0)
            np.testing.assert_allclose(maps[place, query].ravel(), mean, rtol=1e-5)
    areas = []
    for image, weights in enumerate(blocks[-1]):
        queries = weights[:, :1, 1:] if pool == "token" else weights
        hot = queries.mean(axis=(0, 1))
        hot = hot / hot.sum()
        areas.append(np.exp(-(hot * np.log(hot)).sum()) / 9)
        if image < 4:
            np.testing.assert_allclose(heat[image].ravel(), hot, rtol=1e-5)
    assert findings.values["area"] == pytest.approx(np.mean(areas))


def test_an_area_is_the_share_of_equally_hot_patches() -> None:
    one, half, all_alike = np.zeros((3, 2, 2)), np.zeros((1, 2, 2)), np.full((1, 2, 2), 0.25)
    one[:, 0, 1], half[0, 0] = 1, 0.5
    assert probes.area(one) == pytest.approx([0.25] * 3)
    assert (probes.area(half)[0], probes.area(all_alike)[0]) == (pytest.approx(0.5), pytest.approx(1))


def test_attention_maps_of_a_model_without_one_grid_say_why() -> None:
    shrinking = recipe(encoding={"kind": "peg", "padding": "valid", "places": [0]})
    assert attention_maps.probe(Subject(shrinking, model(shrinking))).note.startswith("the blocks of the model have")
    swin = Recipe().put({"data.image_size": 32, "model.kind": "swin", "encoding.kind": "peg"})
    assert "got Swin" in attention_maps.probe(Subject(swin, build_model(swin).double())).note


def test_terms_of_added_codes_equal_a_loop() -> None:
    """Each query and key apart, with the layer norm written out."""
    found = recipe(encoding__kind="learnable")
    made, images = model(found), pictures(found, 2)
    (only,) = probes.logit_terms(made, images)
    state = {name: value.detach().numpy() for name, value in made.state_dict().items()}
    table, wide = state["encoding.learnable.table"], 16
    patches = made.patch_embed(images).detach().numpy()
    for image in range(2):
        content = np.concatenate([state["cls_token"][0], patches[image]])
        qs, ks = {}, {}
        for n in range(10):
            total = content[n] + table[n]
            deviation = math.sqrt(sum((v - total.mean()) ** 2 for v in total) / wide + made.blocks[0].norm1.eps)
            gain, shift = state["blocks.0.norm1.weight"], state["blocks.0.norm1.bias"]
            sides = (
                (content[n] - content[n].mean()) / deviation * gain + shift,
                (table[n] - table[n].mean()) / deviation * gain,
            )
            for side, value in enumerate(sides):
                projected = state["blocks.0.attn.qkv.weight"] @ value
                projected = projected + (state["blocks.0.attn.qkv.bias"] if side == 0 else 0)
                qs[n, side], ks[n, side] = projected[:wide], projected[wide : 2 * wide]
        for head in range(2):
            cut = slice(8 * head, 8 * head + 8)
            for i in range(10):
                for j in range(10):
                    for term, name in enumerate(TERMS):
                        of_q, of_k = (int(side == "position") for side in name.split("_"))
                        value = float(qs[i, of_q][cut] @ ks[j, of_k][cut]) / math.sqrt(8)
                        assert abs(float(only.terms[term, image, head, i, j]) - value) < 1e-10


@pytest.mark.parametrize("parts", [(1, 4), (1, 2), (2, 3), (4,), (1, 2, 4), (1, 3, 4), (1, 2, 3, 4)])
def test_a_part_that_the_encoding_leaves_out_is_zero(parts) -> None:
    found = recipe(encoding={"kind": "learnable", "injection": {"kind": "parts", "parts": [*parts]}})
    made = model(found)
    for one in probes.logit_terms(made, pictures(found)):
        there = tuple(number + 1 for number in range(4) if one.terms[number].abs().max() > 1e-9)
        assert there == parts
        true = logits(made, pictures(found))[one.block]
        torch.testing.assert_close(centered(one.terms.sum(dim=0)), centered(true), rtol=0, atol=1e-10)


def test_position_terms_change_with_the_codes_alone() -> None:
    found = recipe(encoding={"kind": "learnable", "injection": HEADS})
    made, images = model(found), pictures(found)
    before = probes.logit_terms(made, images)[0].terms
    with torch.no_grad():
        made.get_parameter("encoding.learnable.table").mul_(2)
    after = probes.logit_terms(made, images)[0].terms
    for term, factor in enumerate((1, 2, 2, 4)):
        torch.testing.assert_close(after[term], factor * before[term], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("kind", ["none", "rotary", "irpe", "relative", "peg", "alibi"])
def test_logits_that_cannot_be_split_are_refused(kind) -> None:
    found = recipe(encoding__kind=kind)
    with pytest.raises(ProbeError, match="logits can be split where codes are added or concatenated, got "):
        probes.logit_terms(model(found), pictures(found))
    swin = Recipe().put({"data.image_size": 32, "model.kind": "swin", "encoding.kind": "peg"})
    with pytest.raises(ProbeError, match="logits are split in vit, got Swin"):
        probes.logit_terms(build_model(swin), pictures(swin))
