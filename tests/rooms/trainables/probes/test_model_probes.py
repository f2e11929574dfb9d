"""What probes see of a model: its codes, its attention; what position does on a frozen backbone."""

from __future__ import annotations

import math
from dataclasses import replace
from importlib import import_module

import numpy as np
import pytest
import torch

from tests.rooms.trainables.probes.models import HEADS, model, pictures, recipe
from trainables import probes
from trainables.backbones import CaiT
from trainables.backbones.vit_torch import PositionedViT
from trainables.data.red_green_torch import MAX_VALUE, further_test
from trainables.data.splits_torch import Reading, Split, load
from trainables.encodings.gabor import edge_maps
from trainables.probes import Grid, ProbeError
from trainables.probes.catalog import probe_of
from trainables.probes.image_classes import without_encoding
from trainables.probes.inputs.subject import Subject, trained
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.training.checkpoint import write
from trainables.training.distributed import SINGLE
from trainables.training.evaluation import Evaluation
from trainables.training.init import init_weights
from trainables.training.normalize import normalizer
from trainables.training.runtime import autocast

attention_distance, attention_maps = (
    import_module(f"trainables.probes.{name}") for name in ("attention_distance", "attention_maps")
)
"""The files, for the package offers a function of some of these names."""


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


def test_what_has_no_code_of_the_tokens_gives_none(subtests) -> None:
    for encoding in [
        {"kind": "none"},
        {"kind": "rotary"},
        {"kind": "irpe"},
        {"kind": "peg"},
        {"kind": "learnable", "injection": HEADS},
    ]:
        with subtests.test(str(encoding)):
            assert probes.codes_of(model(recipe(encoding=encoding))) is None


def test_the_own_code_of_the_first_block_counts_where_each_place_has_one() -> None:
    injection = {"kind": "add", "places": ["common", "query"], "shared": False}
    made = model(recipe(encoding={"kind": "learnable", "injection": injection}))
    expected = made.state_dict()["encoding.learnable.common_0.table"][1:]
    torch.testing.assert_close(probes.codes_of(made), expected, rtol=0, atol=0)


def test_every_backbone_has_its_codes(subtests) -> None:
    for kind in ["cait", "convit", "volo", "tnt", "pvt_v2", "twins", "swin"]:
        with subtests.test(str(kind)):
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


@pytest.mark.parametrize(("precision", "dtype"), [("bfloat16", "float32"), ("float32", "float32"), ("float64",) * 2])
def test_further_images_are_scored_in_the_precision_of_the_run(precision, dtype) -> None:
    sizes = {"data__train_size": 20, "data__val_size": 10, "data__test_size": 50}
    found = recipe(data__task="distance", optimizer__precision=precision, **sizes)
    made, number = model(found), getattr(torch, dtype)
    scores = probe_of("further_images")(Subject(found, made)).arrays["scores"]
    score = Evaluation(found, torch.nn.Identity(), number, autocast("cpu", precision), SINGLE)
    expected = []
    for draw in range(1, 5):
        images, targets = further_test(found.data, draw)
        split = Split(torch.from_numpy(images), torch.from_numpy(targets), MAX_VALUE)
        expected.append(score(model(found).to(number), "test", split))
    assert [*scores] == expected
    assert len({*expected}) == 4


FROZEN = {
    "data": {"kind": "digits", "train_size": 40, "val_size": 20, "test_size": 50},
    "model.patch_size": 2,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "model.depth": 2,
    "encoding.kind": "learnable",
    "init": FromTrial(values={"encoding": {"kind": "none"}}, part="backbone"),
    "trainable": "position",
}


def subject(**values) -> Subject:
    """A model in float64 whose weights, encoding included, are not small."""
    recipe = Recipe().put(FROZEN).put({name.replace("__", "."): value for name, value in values.items()})
    model = build_model(recipe)
    init_weights(model, 0)
    stream = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value += 0.5 * torch.randn(value.shape, generator=stream)
    return Subject(recipe, model.double().eval())


def test_images_are_classified_with_the_code_and_with_a_code_of_zeros() -> None:
    found = subject()
    values = probe_of("image_classes")(found).values
    test = load(found.recipe.data, Reading()).test
    ((pixels, truth),) = test.batches([torch.arange(50)], torch.float64)
    with torch.no_grad():
        right = found.model(pixels).argmax(dim=1) == truth
        found.model.get_parameter("encoding.learnable.table").zero_()
        alone = found.model(pixels).argmax(dim=1) == truth
    assert values["correct"] == float((right & ~alone).double().mean())
    assert values["mislead"] == float((~right & alone).double().mean())
    assert values["changed"] == values["correct"] + values["mislead"] > 0
    assert sum(values[name] for name in ("ignored", "mislead", "correct", "useless")) == pytest.approx(1)


def test_the_classes_of_single_images_are_kept() -> None:
    found = probe_of("image_classes")(subject())
    counts = np.bincount(found.arrays["classes"], minlength=4) / 50
    assert [*counts] == [found.values[name] for name in ("ignored", "mislead", "correct", "useless")]
    assert [*found.arrays["images"]] == [*range(50)]


def test_where_seeds_are_folds_a_runs_own_test_images_are_classified(tmp_path) -> None:
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "set.npz", images=rng.integers(0, 255, (60, 8, 8), np.uint8), labels=np.arange(60) % 4)
    data = {"kind": "arrays", "path": str(tmp_path / "set.npz"), "folds": 3}
    scored = []
    for seed in range(4):
        found = replace(subject(data=data), seed=seed)
        with torch.no_grad():
            found.model.get_parameter("patch_embed.proj.weight").mul_(20)  # so that images get different classes
        recipe, values = found.recipe, probe_of("image_classes")(found).values
        normalize = normalizer(recipe, torch.device("cpu"), torch.float64)
        own = Evaluation(recipe, normalize, torch.float64, autocast("cpu", "float64"), SINGLE)
        scored.append(own(found.model, "test", load(recipe.data, Reading(seed=seed)).test))
        assert values["ignored"] + values["correct"] == pytest.approx(scored[-1]), seed
    assert len({*scored}) > 1, "folds differ"


def test_a_code_inside_attention_is_left_out_too() -> None:
    found = subject(encoding={"kind": "gabor", "injection": {"kind": "extend", "channels": 3, "shared": False}})
    assert not without_encoding(found).encoding.parts
    assert probe_of("image_classes")(found).values


@pytest.mark.parametrize(("values", "said"), [
    ({"encoding__kind": "none", "trainable": "all"}, "none has no position to leave out"),
    ({"trainable": "all"}, "where position alone learns"),
    ({"encoding__injection": {"kind": "concat"}, "init__values": {}}, "position must leave the backbone's channels"),
])  # fmt: skip
def test_models_without_a_common_backbone_have_no_classes(values, said) -> None:
    found = probe_of("image_classes")(subject(**values))
    assert said in found.note
    assert not found.values


def test_projections_are_what_a_small_code_adds_to_queries_keys_and_values() -> None:
    """By central differences through the norm, whose deviation is that of the content."""
    found = subject()
    block, grid = found.model.blocks[0], found.grid
    codes = found.codes
    parts = probes.projections(found.model, codes)
    content = torch.randn(grid.patches, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    content = content - content.mean(dim=1, keepdim=True)
    code = codes - codes.mean(dim=1, keepdim=True)
    away = code - (code * content).sum(dim=1, keepdim=True) / content.square().sum(dim=1, keepdim=True) * content
    step, deviation = 1e-5, (content.var(dim=1, keepdim=True, correction=0) + block.norm1.eps).sqrt()
    with torch.no_grad():
        up, down = (block.attn.qkv(block.norm1(content + sign * step * away)) for sign in (1, -1))
        slope = (up - down) / (2 * step) * deviation
        true = probes.projections(found.model, away)
    joined = torch.cat([torch.as_tensor(true[name]) for name in "qkv"], dim=1)
    torch.testing.assert_close(slope, joined, rtol=1e-4, atol=1e-6)
    assert parts["p"].shape == parts["v"].shape == (16, 16)
    np.testing.assert_array_equal(parts["p"], codes.numpy())


def test_edges_explain_all_of_markers_and_little_of_a_wave() -> None:
    grid = Grid(5, 8)
    row, column = np.divmod(np.arange(40), 8)
    markers = np.stack([column == 0, column == 7, row == 0, row == 4], axis=1) @ np.array([0.3, 2, -1, 0.5]) + 3
    wave = np.cos(2 * np.pi * column / 3.1)
    inside = (row == 2) & (column == 3)
    share = probes.edge_share(np.stack([markers, wave, inside.astype(float), np.full(40, 0.1)], axis=1), grid)
    assert share[0] == pytest.approx(1)
    assert share[1] < 0.3
    assert share[2] < 0.3
    assert share[3] == 0


def test_the_markers_are_those_of_the_encoding() -> None:
    from trainables.encodings import Widths
    from trainables.encodings.declared_torch import Positions

    made = edge_maps(Positions.of(Grid(4, 3), Widths(8, 2, 4)))
    assert probes.edge_share(made, Grid(4, 3)) == pytest.approx(np.ones(4))


def test_the_probe_gives_the_means_and_the_maps() -> None:
    found = probe_of("projections")(subject())
    values = found.values
    assert found.arrays["maps"].shape == (4, 4, 4, 16)
    assert values["v_above_qk"] == pytest.approx(values["v"] - (values["q"] + values["k"]) / 2)
    for number, name in enumerate("pqkv"):
        assert values[name] == pytest.approx(found.arrays["shares"][number].mean())


def test_what_cannot_be_projected_is_said() -> None:
    assert (
        "adds nothing to the tokens before the first block"
        in probe_of("projections")(
            subject(encoding={"kind": "gabor", "injection": {"kind": "add", "places": ["value"], "shared": False}})
        ).note
    )
    cait = build_model(Recipe(model=CaiT()).put({"encoding.kind": "learnable"}))
    with pytest.raises(ProbeError, match="codes are projected in vit"):
        probes.projections(cait, np.ones((64, 64)))
