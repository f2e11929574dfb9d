"""The locally-enhanced position encoding against a loop over patches, in the module and in a model."""

import pytest
import torch
from torch.nn.functional import conv2d, cross_entropy

from tests.anchors.pairs import content, module
from trainables.backbones import Swin, ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import PEG, Composed, Learnable, LePE, NoEncoding, Rotary, Shape, Widths
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.probes.inputs.attention import recorded
from trainables.recipe import Recipe
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError


def convolved(values, grid, layer):
    """The convolution of the values' map, one number after another. Shapes: (B, H, N, E) to the same."""
    made, kernel = torch.zeros_like(values), layer.weight.shape[2]
    reach = kernel // 2
    for head in range(values.shape[1]):
        for channel in range(values.shape[3]):
            number = head * values.shape[3] + channel
            for token in range(grid.patches):
                total = layer.bias[number]
                for down in range(-reach, reach + 1):
                    for right in range(-reach, reach + 1):
                        row, column = token // grid.columns + down, token % grid.columns + right
                        if 0 <= row < grid.rows and 0 <= column < grid.columns:
                            value = values[:, head, grid.prefix + row * grid.columns + column, channel]
                            total = total + layer.weight[number, 0, down + reach, right + reach] * value
                made[:, head, grid.prefix + token, channel] = total
    return made


def test_terms_are_those_of_a_loop():
    """Prefix tokens get none; with few queries the terms are those of the first tokens."""
    for kernel, grid in ((3, Grid(3, 2)), (5, Grid(2, 3, prefix=1))):
        made, (q, k, v) = module(LePE(kernel=kernel), grid), content(grid)
        h = Heads(q, k, v, None, grid)
        terms, expected = made.value_terms(h, 1), convolved(v, grid, made.lepe.conv[1])
        torch.testing.assert_close(terms, expected, rtol=0, atol=1e-12)
        weight = torch.randn(terms.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
        learned = [v, *made.lepe.conv[1].parameters()]
        left, right = (torch.autograd.grad((one * weight).sum(), learned) for one in (terms, expected))
        torch.testing.assert_close(left, right, rtol=0, atol=1e-10)
        assert torch.equal(made.value_terms(h.first(2), 1), terms[:, :, :2])
        assert made.heads(h, 1) is h


def test_a_model_adds_them_after_the_softmax():
    """Fused or not, the heads put out what attention does plus the convolution of their values."""
    model = PositionedViT(ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4), (3, 12, 20), 3, LePE()).double()
    for name, value in model.named_parameters():
        torch.nn.init.normal_(value, std=0.3, generator=torch_stream(0, name))
    images, seen = torch.randn(2, 3, 12, 20, dtype=torch.float64, generator=torch_stream(0, "images")), {}
    attention, layer = model.blocks[1].attn, model.encoding.lepe.conv[1]
    attention.qkv.register_forward_hook(lambda _, __, out: seen.update(qkv=out))
    attention.proj.register_forward_pre_hook(lambda _, inputs: seen.update(o=inputs[0]))
    for fused in (True, False):
        attention.fused_attn = fused
        model.features(images)
        q, k, v = seen["qkv"].reshape(2, 16, 3, 2, 8).permute(2, 0, 3, 1, 4)
        attended = ((q @ k.mT) / 8**0.5).softmax(3) @ v
        image = v[:, :, 1:].mT.reshape(2, 16, 3, 5)
        local = conv2d(image, layer.weight, layer.bias, padding=1, groups=16).reshape(2, 2, 8, 15).mT
        attended[:, :, 1:] += local
        torch.testing.assert_close(seen["o"], attended.transpose(1, 2).flatten(2), rtol=0, atol=1e-12)
    features = model.features(images).x
    plain = PositionedViT(ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4), (3, 12, 20), 3, NoEncoding()).double()
    plain.load_state_dict(model.state_dict(), strict=False)
    assert not torch.allclose(plain.features(images).x, features, atol=1e-3)
    blocks = recorded(model, images)  # probes see the same tokens in the second block
    again = model.blocks[0](blocks[0].tokens, model.encoding, 0)
    torch.testing.assert_close(blocks[1].tokens.x, again.x)
    cross_entropy(model(images), torch.tensor([0, 2])).backward()
    assert all(value.grad is not None for value in model.encoding.parameters())


def test_it_is_counted_composed_and_refused():
    shape = Shape(Widths(12, 3, 4), 2, 3, 5, 1)
    assert LePE(kernel=5).parameters(shape) == 2 * 12 * 26
    parts = Composed(parts=(Learnable(), Rotary(), LePE(), LePE(kernel=1)))
    made = module(parts, Grid(3, 2))
    h = Heads(*content(Grid(3, 2)), None, Grid(3, 2))
    both = [made.part(name).value_terms(h, 0) for name in ("lepe", "lepe_2")]
    assert torch.equal(made.value_terms(h, 0), both[0] + both[1])
    Composed(parts=(PEG(padding="valid"), LePE())).check(shape)
    with pytest.raises(SpecError, match=r"kernel must be odd, got 2"):
        LePE(kernel=2)
    with pytest.raises(SpecError, match="its attention"):
        Recipe(encoding=LePE(), model=Swin())
