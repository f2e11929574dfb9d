"""With `none` and with `learnable`, the model is timm's own, to the bit."""

import pytest
import timm
import timm.layers
import torch
from timm.layers import gen_relative_position_index
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from trainables.backbones import ViT
from trainables.backbones.vit import DEIT_BASE, DEIT_SMALL, DEIT_TINY
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import Learnable, NoEncoding, ReservedChannels
from trainables.encodings.encoding_torch import Grid
from trainables.encodings.relative_torch import offset_index
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.training.init import init_weights

TYPES = (torch.float32, torch.float64)
READ_OUTS = ("token", "distilled", "avg", "gap")


def pair(encoding, pool, image=(12, 20)):
    """Ours and timm's, with the same weights, on a grid of 3 x 5."""
    ours = PositionedViT(
        ViT(embed_dim=24, depth=3, num_heads=3, patch_size=4, pool=pool, mlp_ratio=2.5), (2, *image), 7, encoding
    )
    token = pool in ("token", "distilled")
    theirs = (VisionTransformerDistilled if pool == "distilled" else VisionTransformer)(
        img_size=image, patch_size=4, in_chans=2, num_classes=7, embed_dim=24, depth=3, num_heads=3, mlp_ratio=2.5,
        pos_embed="learn" if encoding.kind == "learnable" else "none",
        class_token=token, global_pool="token" if token else "avg", fc_norm=False if pool == "gap" else None,
    )  # fmt: skip
    if encoding.kind == "none" and pool == "distilled":
        theirs.pos_embed = nn.Parameter(torch.zeros_like(theirs.pos_embed))  # timm's has a table in any case
    state = theirs.state_dict()
    table = state.pop("pos_embed", None)
    if encoding.kind == "learnable":
        state["encoding.learnable.table"] = table[0]
    ours.load_state_dict(state)
    return ours, theirs


def of_all_tokens(model, images):
    """The output as timm computes it: tests/laws/test_head_tokens.py compares it with what nobody reads left out."""
    return model.output(model.features(images))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("pool", READ_OUTS)
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("encoding", [NoEncoding(), Learnable()], ids=["none", "learnable"])
def test_same_outputs_and_gradients_to_the_bit(encoding, pool, fused, dtype):
    ours, theirs = (model.to(dtype) for model in pair(encoding, pool))
    for block in [*ours.blocks, *theirs.blocks]:
        block.attn.fused_attn = fused
    images = torch.randn(5, 2, 12, 20, dtype=dtype)
    left, right = of_all_tokens(ours, images), theirs(images)
    assert torch.equal(left, right)
    left.square().sum().backward()
    right.square().sum().backward()
    gradients = dict(ours.named_parameters())
    for name, value in theirs.named_parameters():
        if name == "pos_embed" and encoding.kind == "none":
            continue
        mine = gradients["encoding.learnable.table" if name == "pos_embed" else name].grad
        assert torch.equal(mine, value.grad.reshape(mine.shape)), name


@pytest.mark.parametrize("pool", READ_OUTS)
def test_timms_keys_stay(pool):
    ours, theirs = pair(NoEncoding(), pool)
    assert {*ours.state_dict()} == {*theirs.state_dict()} - {"pos_embed"}


@pytest.mark.parametrize("dtype", TYPES)
def test_a_distilled_model_is_timms_deit_to_the_bit(dtype):
    size = dict(img_size=(12, 20), patch_size=4, in_chans=2, num_classes=7, embed_dim=24, depth=3, num_heads=3)
    theirs = VisionTransformerDistilled(**size, global_pool="token")
    ours = PositionedViT(
        ViT(embed_dim=24, depth=3, num_heads=3, patch_size=4, pool="distilled"), (2, 12, 20), 7, Learnable()
    )
    state = theirs.state_dict()
    state["encoding.learnable.table"] = state.pop("pos_embed")[0]
    ours.load_state_dict(state)
    ours, theirs, images = ours.to(dtype), theirs.to(dtype), torch.randn(5, 2, 12, 20, dtype=dtype)
    theirs.set_distilled_training()
    for mine, said in zip(ours.answers(ours.features(images)), theirs.train()(images), strict=True):
        assert torch.equal(mine, said)
    assert torch.equal(of_all_tokens(ours, images), theirs.eval()(images))


def test_the_distillation_token_begins_as_timms():
    model = PositionedViT(ViT(embed_dim=384, num_heads=3, pool="distilled"), (3, 8, 12), 7, NoEncoding())
    init_weights(model, 0)
    theirs = VisionTransformerDistilled(img_size=(8, 12), patch_size=4, embed_dim=384, depth=1, num_heads=3)
    for value in (model.dist_token, theirs.dist_token):
        assert value.std().item() == pytest.approx(0.02, rel=0.15)
    assert not model.head_dist.bias.any()


def test_a_recipe_builds_the_same_model():
    recipe = Recipe(encoding=Learnable(), model=ViT(depth=2))
    model = build_model(recipe)
    init_weights(model, 0)
    theirs = VisionTransformer(img_size=32, patch_size=4, num_classes=2, embed_dim=64, depth=2, num_heads=4)
    state = model.state_dict()
    state["pos_embed"] = state.pop("encoding.learnable.table")[None]
    theirs.load_state_dict(state)
    images = torch.randn(3, 3, 32, 32)
    assert torch.equal(of_all_tokens(model, images), theirs(images))


@pytest.mark.parametrize("grid", [Grid(3, 5), Grid(6, 4), Grid(1, 7), Grid(14, 14)])
def test_offset_numbers_are_timms(grid):
    assert torch.equal(offset_index(grid), gen_relative_position_index((grid.rows, grid.columns)))
    assert hasattr(timm.layers, "RelPosBias")


@pytest.mark.parametrize("fused", [True, False])
def test_relative_bias_is_timms(fused):
    """The same attention as timm's RelPosBias with a class token, its three class-token rows at zero."""
    from trainables.encodings import RelativeBias

    ours, _ = pair(NoEncoding(), "token")
    state = ours.state_dict()
    ours = PositionedViT(
        ViT(embed_dim=24, depth=3, num_heads=3, patch_size=4, mlp_ratio=2.5), (2, 12, 20), 7, RelativeBias(shared=True)
    )
    ours.load_state_dict({**state, "encoding.relative_bias.table": torch.randn(1, 3, 45)})
    bias = timm.layers.RelPosBias(window_size=(3, 5), num_heads=3, prefix_tokens=1)
    with torch.no_grad():
        bias.relative_position_bias_table.zero_()
        bias.relative_position_bias_table[:45] = ours.encoding.relative_bias.table[0].T
    for block in ours.blocks:
        block.attn.fused_attn = fused
    seen = {}
    ours.blocks[1].attn.qkv.register_forward_hook(lambda _, __, out: seen.setdefault("qkv", out))
    ours.blocks[1].attn.proj.register_forward_pre_hook(lambda _, inputs: seen.setdefault("o", inputs[0]))
    ours(torch.randn(5, 2, 12, 20))
    q, k, v = seen["qkv"].reshape(5, 16, 3, 3, 8).permute(2, 0, 3, 1, 4)
    expected = ((q @ k.mT) / 8**0.5 + bias.get_bias()).softmax(3) @ v
    assert torch.allclose(seen["o"], expected.transpose(1, 2).flatten(2), atol=1e-6)


def test_gap_normalises_and_then_averages():
    """CPVT's order; timm's `avg` is the other one."""
    ours, _ = pair(Learnable(), "gap")
    for value in ours.parameters():
        torch.nn.init.normal_(value)
    images = torch.randn(5, 2, 12, 20)
    seen = []
    ours.blocks[-1].register_forward_hook(lambda _, __, out: seen.append(out.x))
    out = ours(images)
    assert torch.allclose(out, ours.head(ours.norm(seen[0]).mean(1)), atol=1e-5)
    assert not torch.allclose(out, ours.head(ours.norm(seen[0].mean(1))), atol=1e-2)


@pytest.mark.parametrize(("name", "spec"), [
    ("deit_tiny_patch16_224", DEIT_TINY), ("deit_small_patch16_224", DEIT_SMALL), ("deit_base_patch16_224", DEIT_BASE),
    ("vit_base_patch16_224", DEIT_BASE),
    ("deit_small_distilled_patch16_224", DEIT_SMALL.put({"pool": "distilled"})),
])  # fmt: skip
def test_the_sizes_of_deit_are_timms(name, spec):
    with torch.device("meta"):
        ours, theirs = PositionedViT(spec, (3, 224, 224), 1000, Learnable()), timm.create_model(name)
    left, right = ({name: value.shape for name, value in model.named_parameters()} for model in (ours, theirs))
    assert left.pop("encoding.learnable.table") == right.pop("pos_embed")[1:]
    assert left == right
    outputs = spec.parameters((3, 224, 224), 1000, ReservedChannels()) + Learnable().parameters(
        spec.shapes((3, 224, 224))[0]
    )
    assert outputs == sum(value.numel() for value in theirs.parameters())


def test_a_distilled_answer_is_the_mean_of_two_heads():
    ours, theirs = pair(Learnable(), "distilled")
    images = torch.randn(5, 2, 12, 20)
    theirs.set_distilled_training(True)
    left, right = ours.answers(ours.features(images)), theirs.train()(images)
    assert all(torch.equal(mine, timms) for mine, timms in zip(left, right, strict=True))
    assert torch.equal(of_all_tokens(ours, images), (left[0] + left[1]) / 2)
