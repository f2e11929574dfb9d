"""The other backbones in a training: what does not decay, what stays where position alone learns, other image sizes."""

import pytest
import torch
from torch import nn
from torch.nn.functional import interpolate

from tests.anchors.backbones import HOSTS, SPECS, TABLES, ours, size, spread
from trainables.data import RedGreen
from trainables.encodings import PEG, Learnable, NoEncoding
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.training.loop import build_model_with_weights
from trainables.training.parameters import no_decay, set_trainable, train_mode
from trainables.weights.transfer import at_size

KINDS = [*HOSTS]
WHOLE = {"swin": {"window_size": 4, "patch_size": 4}}
"""At 16 pixels the second stage of this Swin is smaller than its window."""


@pytest.mark.parametrize("kind", KINDS)
def test_what_does_not_decay_does_not_in_a_training_either(kind):
    model = ours(kind, NoEncoding())
    inside = nn.ModuleDict({"model": model})
    assert {f"model.{name}" for name in no_decay(model)} == no_decay(inside)


def test_statistics_of_what_does_not_learn_stay():
    """VOLO's stem normalises by batches."""
    model = ours("volo", Learnable())
    before = {name: value.clone() for name, value in model.named_buffers() if "running" in name}
    assert before
    set_trainable(model, "position")
    train_mode(model)
    assert model.training
    model(torch.randn(3, *size("volo")))
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers() if name in before)
    set_trainable(model, "all")
    train_mode(model)
    model(torch.randn(3, *size("volo")))
    assert not any(torch.equal(value, before[name]) for name, value in model.named_buffers() if name in before)


@pytest.mark.parametrize("kind", KINDS)
def test_every_backbone_is_tested_at_other_sides(kind, monkeypatch):
    """Without an encoding nothing is lost: the model of the other size with the same weights."""
    code = Learnable() if kind in TABLES else PEG()
    for encoding in (NoEncoding(), code):
        recipe = Recipe(data=RedGreen(image_size=32), model=SPECS[kind].put(WHOLE.get(kind, {})), encoding=encoding)
        model = spread(build_model_with_weights(recipe, 0))
        side = 48 if kind != "swin" else 16
        other = at_size(model, recipe, side)
        assert torch.isfinite(other(torch.randn(2, 3, side, side))).all()
        built = build_model(recipe, (3, side, side)).eval()
        same = {name: value.shape == built.state_dict()[name].shape for name, value in model.state_dict().items()}
        moved = {name for name, stays in same.items() if not stays}
        assert all(name.endswith(("learnable.table", "relative_position_bias_table")) for name in moved)
        assert bool(moved) == (kind == "swin" or (encoding != NoEncoding() and kind in TABLES))
        kept = {name: value for name, value in other.state_dict().items() if same[name]}
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in kept.items())


def test_a_swins_tables_follow_its_windows():
    """A linear table stays linear on a smaller window, apart from the borders."""
    recipe = Recipe(data=RedGreen(image_size=32), model=SPECS["swin"].put(WHOLE["swin"]))
    model = build_model_with_weights(recipe, 0)
    other = at_size(model, recipe, 16).layers[1].blocks[0].attn
    table = model.layers[1].blocks[0].attn.relative_position_bias_table
    assert table.shape == (49, 4)
    assert other.relative_position_bias_table.shape == (9, 4)
    expected = interpolate(table.T.reshape(1, 4, 7, 7).double(), (3, 3), mode="bicubic", align_corners=False)
    assert torch.allclose(other.relative_position_bias_table.double(), expected.reshape(4, 9).T, atol=1e-6)
