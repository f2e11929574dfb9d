"""Terms of logits, and channels from block to block, against what the model computes and against loops."""

from __future__ import annotations

import math
from copy import deepcopy
from importlib import import_module

import numpy as np
import pytest
import torch

from tests.rooms.trainables.probes.models import HEADS, model, pictures, recipe
from trainables import probes
from trainables.backbones import CaiT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings.encoding_torch import Tokens
from trainables.probes import TERMS, ProbeError
from trainables.probes.block_channels import LEAST, POSITION, kept, probe
from trainables.probes.inputs.subject import Subject
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model

logit_terms = import_module("trainables.probes.logit_terms")
"""The file, for the package offers its function by this name."""


def places(*names, kind="add", **more) -> dict:
    return {"kind": kind, "places": [*names], **more}


SPLIT = {
    "add": ({"kind": "learnable"}, [0]),
    "sinusoidal": ({"kind": "sinusoidal"}, [0]),
    "two": ({"kind": "composed", "parts": [{"kind": "learnable"}, {"kind": "gabor"}]}, [0]),
    "concat": ({"kind": "learnable", "injection": places("common", kind="concat")}, [0]),
    "concat common and key": (
        {"kind": "learnable", "injection": places("common", "key", kind="concat", shared=False)},
        [0, 1],
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
    "both": ({"kind": "learnable", "injection": places("common", "query", "key")}, [0, 1]),
    "value": ({"kind": "learnable", "injection": places("value")}, []),
}


def logits(made: PositionedViT, images: torch.Tensor) -> list[torch.Tensor]:
    """The logarithm of the weights is the logits up to a number a row, so rows are compared without their mean."""
    return [block.weights.log() for block in probes.attention_of(made, images)]


def centered(value: torch.Tensor) -> torch.Tensor:
    return value - value.mean(dim=-1, keepdim=True)


def test_the_four_terms_add_up_to_the_logits(subtests) -> None:
    for name in SPLIT:
        for pool in ["token", "avg"]:
            with subtests.test(f"{name}, {pool}"):
                encoding, blocks = SPLIT[name]
                found = recipe(encoding=encoding, model__pool=pool)
                made, images = model(found), pictures(found, 2)
                terms = probes.logit_terms(made, images)
                assert [one.block for one in terms] == blocks
                whole, single = logits(made, images), probes.logit_terms(deepcopy(made).float(), images.float())
                for one in terms:
                    true = whole[one.block]
                    torch.testing.assert_close(centered(one.terms.sum(dim=0)), centered(true), rtol=0, atol=1e-10)
                    near = next(other for other in single if other.block == one.block)
                    torch.testing.assert_close(
                        near.terms.sum(dim=0).double(), one.terms.sum(dim=0), rtol=1e-4, atol=1e-4
                    )


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


def test_codes_that_are_added_in_several_blocks_are_carried_together() -> None:
    """Blocks that do nothing, patches of zeros and no biases: all that the second block sees is the code, twice."""
    found = recipe(encoding={"kind": "learnable", "injection": places("common", blocks=2)})
    made, images = model(found), pictures(found, 2)
    with torch.no_grad():
        for module in (
            made.patch_embed.proj,
            *(layer for block in made.blocks for layer in (block.attn.proj, block.mlp.fc2)),
        ):
            module.weight.zero_()
            module.bias.zero_()
        made.cls_token.zero_()
        for block in made.blocks:
            block.norm1.bias.zero_()
            block.attn.qkv.bias.zero_()
    first, second = probes.logit_terms(made, images, carried=True)
    for terms in (first.terms, second.terms):
        assert terms[3].abs().max() > 0.1
        torch.testing.assert_close(terms[:3], torch.zeros_like(terms[:3]), rtol=0, atol=1e-12)
    assert [one.block for one in probes.logit_terms(made, images)] == [0], "later blocks mix what earlier ones added"


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


def test_a_part_that_the_encoding_leaves_out_is_zero(subtests) -> None:
    for parts in [(1, 4), (1, 2), (2, 3), (4,), (1, 2, 4), (1, 3, 4), (1, 2, 3, 4)]:
        with subtests.test(str(parts)):
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


def test_normalized_queries_and_keys_are_split_by_the_codes_that_come_later() -> None:
    """Codes in the heads come after the norm; codes in the tokens go through it, and no split is exact."""
    found = recipe(encoding=SPLIT["query, key"][0], model__qk_norm=True)
    made, images = model(found), pictures(found)
    for one in probes.logit_terms(made, images):
        true = logits(made, images)[one.block]
        torch.testing.assert_close(centered(one.terms.sum(dim=0)), centered(true), rtol=0, atol=1e-10)
    for name in ("add", "both"):
        found = recipe(encoding=SPLIT[name][0], model__qk_norm=True)
        with pytest.raises(ProbeError, match=r"where queries and keys are not normalized \(qk_norm\)"):
            probes.logit_terms(model(found), pictures(found))


def test_logits_that_cannot_be_split_are_refused(subtests) -> None:
    for kind in ["none", "rotary", "irpe", "relative", "peg", "alibi"]:
        with subtests.test(str(kind)):
            found = recipe(encoding__kind=kind)
            with pytest.raises(ProbeError, match="logits can be split where codes are added or concatenated, got "):
                probes.logit_terms(model(found), pictures(found))
            swin = Recipe().put({"data.image_size": 32, "model.kind": "swin", "encoding.kind": "peg"})
            with pytest.raises(ProbeError, match="logits are split in vit, got Swin"):
                probes.logit_terms(build_model(swin), pictures(swin))


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
