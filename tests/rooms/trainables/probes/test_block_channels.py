"""Channels from block to block, against loops, and against tokens whose share of position is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.rooms.trainables.probes.models import model, pictures, recipe
from trainables import probes
from trainables.backbones import CaiT
from trainables.encodings.encoding_torch import Tokens
from trainables.probes.block_channels import LEAST, POSITION, kept, probe
from trainables.probes.inputs.arrays import ProbeError
from trainables.probes.inputs.subject import Subject
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model

ENCODINGS = [{"kind": "none"}, {"kind": "learnable"}, {"kind": "peg", "places": [-1, 0]}, {"kind": "irpe"}]


def test_the_states_are_those_of_the_blocks_run_by_hand(subtests) -> None:
    for pool in ["token", "avg"]:
        for encoding in ENCODINGS:
            with subtests.test(f"{pool}, {encoding}"):
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


def test_the_share_of_a_code_equals_a_loop() -> None:
    rng = np.random.default_rng(0)
    code, content = rng.normal(size=(6, 3)) * np.array([0, 1, 9]), rng.normal(size=(5, 6, 3))
    shares = probes.code_share(content + code, code)
    for channel in range(3):
        middle, mean = content[:, :, channel].mean(), code[:, channel].mean()
        of_content = np.mean([(content[i, p, channel] - middle) ** 2 for i in range(5) for p in range(6)])
        of_code = np.mean([(code[p, channel] - mean) ** 2 for p in range(6)])
        assert shares[channel] == pytest.approx(of_code / (of_code + of_content))
    assert shares[0] == 0
    assert shares[2] > 0.9


def test_images_that_are_alike_on_average_are_no_code() -> None:
    """All images bright in their middle: what the place says of the content counts as content."""
    content = np.broadcast_to(np.arange(6.0)[None, :, None], (4, 6, 2))
    assert probes.code_share(content, np.zeros((6, 2))) == pytest.approx([0, 0])
    assert probes.code_share(np.zeros((4, 6, 1)), np.zeros((6, 1))) == pytest.approx([0])


def test_what_is_kept_is_the_correlation_with_the_code() -> None:
    rng = np.random.default_rng(2)
    states, code = rng.normal(size=(4, 3, 7, 5)), rng.normal(size=(7, 5))
    found = kept(states, code)
    for block in range(4):
        for channel in range(5):
            mean = states[block, :, :, channel].mean(axis=0)
            assert found[block, channel] == pytest.approx(np.corrcoef(mean, code[:, channel])[0, 1])
    states[1], states[2] = 3 * code + 2, 1.0
    assert kept(states, code)[1] == pytest.approx(np.ones(5))
    assert kept(states, code)[2] == pytest.approx(np.zeros(5))


def test_the_probe_gives_the_means_over_thirds_of_the_blocks() -> None:
    found = recipe(encoding={"kind": "learnable", "std": 1.5}, model__depth=3)
    subject = Subject(found, model(found))
    states = probes.block_channels(subject.model, subject.images)
    findings = probe(subject)
    shares = probes.code_share(states[0], subject.codes)
    shapes = kept(states, subject.codes)
    position = sorted(range(16), key=lambda channel: shares[channel])[-16 // POSITION :]
    assert len(position) == 4
    assert findings.values["share"] == pytest.approx(shares[position].mean())
    assert findings.values["input"] == pytest.approx(shapes[0, position].mean())
    assert findings.values["shallow"] == pytest.approx(shapes[1, position].mean())
    assert findings.values["deep"] == pytest.approx(shapes[3, position].mean())
    assert findings.values["shallow_above_deep"] == pytest.approx((shapes[1] - shapes[3])[position].mean())
    np.testing.assert_allclose(findings.arrays["shares"], shares)
    np.testing.assert_allclose(findings.arrays["kept"], shapes)
    maps = findings.arrays["maps"]
    assert maps.shape == (4, 3, 3, 2)
    np.testing.assert_allclose(maps[2, :, :, 0].ravel(), states[2, 0, :, shares.argmax()], rtol=1e-5)
    np.testing.assert_allclose(maps[2, :, :, 1].ravel(), states[2, 0, :, shares.argmin()], rtol=1e-5)


def test_a_code_with_hardly_a_share_has_no_shape_to_keep() -> None:
    found = recipe(encoding__kind="learnable")
    made = model(found)
    with torch.no_grad():
        made.get_parameter("encoding.learnable.table").mul_(1e-3)
    values = probe(Subject(found, made)).values
    assert {*values} == {"share"}
    assert 0 < values["share"] < LEAST


def test_what_cannot_be_followed_is_said() -> None:
    bare = recipe(encoding__kind="none")
    assert "none adds nothing to the tokens before the first block" in probe(Subject(bare, model(bare))).note
    beside = recipe(encoding={"kind": "learnable", "injection": {"kind": "concat"}})
    assert "where codes are added to all channels" in probe(Subject(beside, model(beside))).note
    parts = [{"kind": "learnable"}, {"kind": "peg", "padding": "valid", "places": [0]}]
    shrinking = recipe(encoding={"kind": "composed", "parts": parts})
    assert "where all blocks have one grid" in probe(Subject(shrinking, model(shrinking))).note
    cait = build_model(Recipe(model=CaiT()).put({"encoding.kind": "learnable"}))
    with pytest.raises(ProbeError, match="channels are followed in vit"):
        probes.block_channels(cait, torch.zeros(1, 3, 32, 32))
