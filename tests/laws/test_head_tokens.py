"""Where the heads read prefix tokens alone, the last block computes only these: the same numbers as of all tokens."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import NoEncoding, parts_of
from trainables.rng_torch import torch_stream

SIZE = (3, 12, 20)
LABELS = torch.tensor([0, 2, 1, 2])


def drawn(encoding, pool, depth, **fields):
    """A model in float64 with large random weights, so that nothing is equal because it is zero."""
    spec = ViT(embed_dim=16, depth=depth, num_heads=2, patch_size=4, pool=pool, **fields)
    model = PositionedViT(spec, SIZE, 3, encoding)
    for name, parameter in model.named_parameters():
        torch.nn.init.normal_(parameter, std=0.3, generator=torch_stream(0, "drawn", name))
    return model.double()


def answer(model, tokens):
    """The loss, and the gradient of every parameter that has one."""
    model.zero_grad()
    loss = sum(cross_entropy(said, LABELS) for said in model.predictions(tokens))
    loss.backward()
    return loss.detach(), {name: value.grad for name, value in model.named_parameters() if value.grad is not None}


def test_losses_and_gradients_are_those_of_all_tokens(encoding, images):
    later = any(0 in getattr(part, "places", ()) for part in parts_of(encoding))
    for depth in (2,) if later else (1, 2):  # a PEG after the first block needs a second one
        for pool in ("token", "distilled"):
            model = drawn(encoding, pool, depth)
            expected, gradients = answer(model, model.features(images))
            loss, mine = answer(model, model.head_tokens(images))
            assert abs(loss - expected) <= 1e-12 * max(1, abs(expected)), (pool, depth)
            assert mine.keys() == gradients.keys(), (pool, depth)
            for name, gradient in gradients.items():
                assert torch.allclose(mine[name], gradient, rtol=1e-12, atol=1e-12), (pool, depth, name)


@pytest.mark.parametrize(("pool", "read"), [("token", 1), ("distilled", 2), ("avg", 15), ("gap", 15)])
def test_the_last_block_computes_what_is_read(images, pool, read):
    model, seen = drawn(NoEncoding(), pool, 2), []
    for block in model.blocks:
        block.mlp.register_forward_hook(lambda module, inputs, output: seen.append(output.shape[1]))
    model(images)
    assert seen == [15 + model.num_prefix_tokens, read]
    assert model.head_tokens(images).x.shape[1] == read
    assert model.features(images).x.shape[1] == 15 + model.num_prefix_tokens


def test_registers_are_prefix_tokens_that_no_head_reads(examples, images):
    """With a class token the last block computes both; without one it computes all tokens, for patches are read."""
    fields = ({"registers": 3}, {"registers": 1, "qk_norm": True, "layer_scale": 0.7})
    for number, spec in enumerate(spec for some in examples.values() for spec in some):
        pool, some = ("token", "token", "gap")[number % 3], fields[number % 2]
        model = drawn(spec, pool, 2, **some).eval()
        with torch.no_grad():
            expected, tokens = model.features(images), model.head_tokens(images)
            torch.testing.assert_close(model.output(tokens), model.output(expected), rtol=1e-12, atol=1e-12)
        assert spec.shrinks or tokens.x.shape[1] == some["registers"] + (1 if pool == "token" else 15), spec


def test_a_mean_over_patches_reads_all(encoding, images):
    for pool in ("avg", "gap"):
        model = drawn(encoding, pool, 2)
        assert torch.equal(model.head_tokens(images).x, model.features(images).x), pool
