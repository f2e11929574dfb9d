"""What position does on a frozen backbone: classes of images, and the share of edges in queries, keys and values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from trainables import probes
from trainables.backbones import CaiT
from trainables.data.splits_torch import Reading, load
from trainables.encodings.gabor import edge_maps
from trainables.probes import Grid, ProbeError
from trainables.probes.catalog import probe_of
from trainables.probes.image_classes import without_encoding
from trainables.probes.inputs.subject import Subject
from trainables.recipe import FromTrial, Recipe
from trainables.recipe.model_torch import build_model
from trainables.training.distributed import SINGLE
from trainables.training.evaluation import Evaluation
from trainables.training.init import init_weights
from trainables.training.normalize import normalizer
from trainables.training.runtime import autocast

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
