"""Channels from block to block, against loops, and against tokens whose share of position is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.rooms.trainables.probes.models import model, pictures, recipe
from trainables import probes
from trainables.backbones import CaiT
from trainables.encodings.encoding_torch import Tokens
from trainables.probes.block_channels import kept, place_share, probe
from trainables.probes.inputs.arrays import ProbeError
from trainables.probes.inputs.subject import Subject
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model

ENCODINGS = [{"kind": "none"}, {"kind": "learnable"}, {"kind": "peg", "places": [-1, 0]}, {"kind": "irpe"}]


@pytest.mark.parametrize("pool", ["token", "avg"])
@pytest.mark.parametrize("encoding", ENCODINGS, ids=lambda one: one["kind"])
def test_the_states_are_those_of_the_blocks_run_by_hand(encoding, pool) -> None:
    found = recipe(encoding=encoding, model__pool=pool)
    made, images = model(found), pictures(found)
    states = probes.block_channels(made.train(), images)
    assert all(module.training for module in made.modules()), "the model's mode is its own"
    made.eval()
    prefix = int(pool == "token")
    with torch.no_grad():
        x = made.patch_embed(images)
        if prefix:
            x = torch.cat([made.cls_token.expand(len(x), -1, -1), x], dim=1)
        t = Tokens(x, made.grid)
        by_hand = [made.encoding.tokens(t, 0).x]
        for number, block in enumerate(made.blocks):
            t = block(t, made.encoding, number)
            by_hand.append(t.x)
    assert states.shape == (3, 3, 9, 16)
    for one, state in zip(by_hand, states, strict=True):
        np.testing.assert_allclose(state, one[:, prefix:].numpy(), rtol=1e-9, atol=1e-12)


def test_the_share_of_place_equals_a_loop() -> None:
    tokens = np.random.default_rng(0).normal(size=(5, 6, 3)) + np.arange(6)[None, :, None] * np.array([0, 0.5, 9])
    shares = place_share(tokens)
    for channel in range(3):
        values = tokens[:, :, channel]
        middle = values.mean()
        between = 5 * sum((values[:, patch].mean() - middle) ** 2 for patch in range(6))
        within = sum((values[i, patch] - values[:, patch].mean()) ** 2 for i in range(5) for patch in range(6))
        assert shares[channel] == pytest.approx(between / (between + within))
    assert shares[0] < shares[1] < shares[2]


def test_a_map_of_its_own_is_all_place_and_noise_is_a_share_of_the_images() -> None:
    rng = np.random.default_rng(1)
    same = np.broadcast_to(rng.normal(size=(1, 400, 1)), (8, 400, 1))
    noise, flat = rng.normal(size=(8, 400, 1)), np.full((8, 400, 1), 0.1)
    shares = place_share(np.concatenate([same, noise, flat], axis=2))
    assert shares[0] == pytest.approx(1)
    assert shares[1] == pytest.approx(1 / 8, abs=0.03)
    assert shares[2] == 0


def test_what_is_kept_is_the_correlation_of_mean_maps() -> None:
    rng = np.random.default_rng(2)
    states = rng.normal(size=(4, 3, 7, 5))
    channels = [1, 4]
    found = kept(states, channels)
    for block in range(3):
        pairs = [(states[0, :, :, one].mean(axis=0), states[block + 1, :, :, one].mean(axis=0)) for one in channels]
        assert found[block] == pytest.approx(np.mean([np.corrcoef(*pair)[0, 1] for pair in pairs]))
    states[1] = 3 * states[0] + 2
    states[2] = 1.0
    assert kept(states, channels)[:2] == pytest.approx([1, 0])


def test_the_probe_gives_the_means_over_thirds_of_the_blocks() -> None:
    found = recipe(encoding={"kind": "learnable", "std": 3.0}, model__depth=3)
    subject = Subject(found, model(found))
    states = probes.block_channels(subject.model, subject.images)
    findings = probe(subject)
    shares = np.stack([place_share(one) for one in states])
    np.testing.assert_allclose(findings.arrays["shares"], shares)
    assert findings.values["input"] == pytest.approx(shares[0].mean())
    assert findings.values["last"] == pytest.approx(shares[-1].mean())
    by_block = kept(states, np.flatnonzero(shares[0] >= 0.5))
    assert findings.values["shallow"] == pytest.approx(by_block[0])
    assert findings.values["deep"] == pytest.approx(by_block[2])
    assert findings.values["shallow_above_deep"] == pytest.approx(by_block[0] - by_block[2])
    maps = findings.arrays["maps"]
    assert maps.shape == (4, 3, 3, 2)
    position, content = shares[0].argmax(), shares[0].argmin()
    np.testing.assert_allclose(maps[2, :, :, 0].ravel(), states[2, 0, :, position], rtol=1e-5)
    np.testing.assert_allclose(maps[2, :, :, 1].ravel(), states[2, 0, :, content], rtol=1e-5)


def test_without_a_channel_of_position_nothing_is_kept() -> None:
    found = recipe(encoding__kind="none")
    subject = Subject(found, model(found))
    images = torch.randn(32, *found.data.size, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    subject.__dict__["images"] = images  # a cached property
    assert {*probe(subject).values} == {"input", "last"}


def test_what_cannot_be_followed_is_said() -> None:
    shrinking = recipe(encoding={"kind": "peg", "padding": "valid", "places": [0]})
    assert "where all blocks have one grid" in probe(Subject(shrinking, model(shrinking))).note
    cait = build_model(Recipe(model=CaiT()).put({"encoding.kind": "learnable"}))
    with pytest.raises(ProbeError, match="channels are followed in vit, got CaiT"):
        probes.block_channels(cait, torch.zeros(1, 3, 32, 32))
