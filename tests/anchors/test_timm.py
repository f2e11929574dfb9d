"""Our ViT against timm's and DeiT's to the bit, with each of its fields."""

from itertools import cycle, product

import pytest
import timm
import timm.layers
import torch
from timm.layers import gen_relative_position_index
from timm.models.deit import VisionTransformerDistilled
from timm.models.vision_transformer import VisionTransformer
from timm.optim import param_groups_weight_decay
from torch import nn
from torch.nn.functional import layer_norm

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.data import Digits
from trainables.encodings import (
    ALiBi,
    Concat,
    Fourier,
    Learnable,
    NoEncoding,
    RelativeBias,
    ReservedChannels,
    Rotary,
)
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.encodings.relative_torch import offset_index
from trainables.probes.attention_maps import heat
from trainables.recipe import Recipe, Run
from trainables.recipe.flops_torch import forward_flops
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError
from trainables.training.init import init_weights
from trainables.training.parameters import no_decay

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
    """The output as timm computes it: tests/laws/test_sizes.py compares it with what nobody reads left out."""
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


def test_a_distilled_answer_is_the_mean_of_two_heads():
    ours, theirs = pair(Learnable(), "distilled")
    images = torch.randn(5, 2, 12, 20)
    theirs.set_distilled_training(True)
    left, right = ours.answers(ours.features(images)), theirs.train()(images)
    assert all(torch.equal(mine, timms) for mine, timms in zip(left, right, strict=True))
    assert torch.equal(of_all_tokens(ours, images), (left[0] + left[1]) / 2)


SIZE = (2, 12, 20)
SIZES = {"embed_dim": 24, "depth": 2, "num_heads": 3, "patch_size": 4}
FIELDS = [
    dict(zip(("registers", "layer_scale", "qk_norm"), some, strict=True))
    for some in product((0, 3), (None, 0.5), (False, True))
]
"""Every combination."""
POOLS = {
    "token": {"class_token": True, "global_pool": "token"},
    "avg": {"class_token": False, "global_pool": "avg"},
    "gap": {"class_token": False, "global_pool": "avg", "fc_norm": False},
}
ENCODINGS = (NoEncoding(), Learnable(), Fourier(gamma=2.0), ALiBi(), RelativeBias())


def drawn(model):
    for name, value in model.named_parameters():
        torch.nn.init.normal_(value, std=0.3, generator=torch_stream(0, name))
    return model.double()


def pair_of_fields(encoding, pool, fields):
    """Ours and timm's, all weights drawn at random, and the term of the logits that timm's is given."""
    ours = drawn(PositionedViT(ViT(**SIZES, pool=pool, **fields), SIZE, 5, encoding))
    theirs = VisionTransformer(
        img_size=SIZE[1:], in_chans=2, num_classes=5, **SIZES, **POOLS[pool],
        reg_tokens=fields["registers"], init_values=fields["layer_scale"], qk_norm=fields["qk_norm"],
    ).double()  # fmt: skip
    part = ours.encoding.part(encoding.kind) if encoding.kind != "none" else None
    with torch.no_grad():
        code = part.code() if encoding.kind in ("learnable", "fourier") else torch.zeros(ours.grid.tokens, 24)
    backbone = {name: value for name, value in ours.state_dict().items() if not name.startswith("encoding.")}
    theirs.load_state_dict(backbone | {"pos_embed": code[None]})
    zeros = torch.zeros(1, 3, ours.grid.tokens, 8, dtype=torch.float64)
    terms = [ours.encoding.heads(Heads(zeros, zeros, zeros, None, ours.grid), block).bias for block in range(2)]
    return ours, theirs, [None if term is None else term.detach() for term in terms]


def given(theirs, images, terms):
    """timm's output, where each block may have a term of its own in its logits."""
    tokens = theirs._pos_embed(theirs.patch_embed(images))
    for block, term in zip(theirs.blocks, terms, strict=True):
        tokens = block(tokens, attn_mask=term)
    return theirs.forward_head(theirs.norm(tokens))


def test_outputs_and_gradients_are_timms():
    """All combinations of the fields with each pool, in turn with encodings before and inside attention."""
    images = torch.randn(3, *SIZE, dtype=torch.float64, generator=torch_stream(0, "images"))
    for (fields, pool), encoding in zip(product(FIELDS, POOLS), cycle(ENCODINGS), strict=False):
        where = (fields, pool, encoding.kind)
        ours, theirs, terms = pair_of_fields(encoding, pool, fields)
        assert {*ours.state_dict()} - {*theirs.state_dict()} == {
            name for name in ours.state_dict() if name.startswith("encoding.")
        }
        left, right = ours(images), given(theirs, images, terms)
        torch.testing.assert_close(left, right, rtol=1e-11, atol=1e-11, msg=str(where))
        left.square().sum().backward()
        right.square().sum().backward()
        known = dict(ours.named_parameters())
        for name, value in theirs.named_parameters():
            if name != "pos_embed":
                torch.testing.assert_close(known[name].grad, value.grad, rtol=1e-9, atol=1e-9, msg=f"{where} {name}")


def test_a_norm_is_over_the_channels_of_the_content_alone():
    """Queries and keys of 5 channels are normalized, then a code of 3 is put beside them: the same by hand."""
    encoding = Learnable(injection=Concat(split=0.375, places=("query", "key")))
    spec = ViT(**SIZES, qk_norm=True)
    model = drawn(PositionedViT(spec, SIZE, 5, encoding))
    attention, seen = model.blocks[1].attn, {}
    assert attention.q_norm.weight.shape == attention.k_norm.weight.shape == (5,)
    assert attention.q_norm.eps == 1e-6
    attention.qkv.register_forward_hook(lambda _, __, out: seen.setdefault("qkv", out))
    attention.proj.register_forward_pre_hook(lambda _, inputs: seen.setdefault("o", inputs[0]))
    model.features(torch.randn(3, *SIZE, dtype=torch.float64))
    q, k, v = (part.unflatten(2, (3, -1)).transpose(1, 2) for part in seen["qkv"].split([15, 15, 24], dim=2))
    code = model.encoding.learnable.table.reshape(16, 3, 3).transpose(0, 1).expand(3, 3, 16, 3)
    q, k = (
        torch.cat([layer_norm(part, (5,), norm.weight, norm.bias, 1e-6), code], dim=3)
        for part, norm in ((q, attention.q_norm), (k, attention.k_norm))
    )
    expected = ((q @ k.mT / 8**0.5).softmax(3) @ v).transpose(1, 2).flatten(2)
    torch.testing.assert_close(seen["o"], expected, rtol=0, atol=1e-11)
    reserved = encoding.reserved(spec.shapes(SIZE)[0].widths)
    counted = spec.parameters(SIZE, 5, reserved) + encoding.parameters(spec.shapes(SIZE)[0])
    assert counted == sum(value.numel() for value in model.parameters())


def test_parameters_are_counted_and_exempt_from_decay_as_timms():
    for fields, pool in zip(FIELDS, cycle(POOLS), strict=False):
        _, theirs, _ = pair_of_fields(NoEncoding(), pool, fields)
        spec = ViT(**SIZES, pool=pool, **fields)
        ours = PositionedViT(spec, SIZE, 5, Learnable())
        counted = spec.parameters(SIZE, 5, ReservedChannels()) + Learnable().parameters(spec.shapes(SIZE)[0])
        assert counted == sum(value.numel() for value in ours.parameters())
        assert counted == sum(value.numel() for value in theirs.parameters())
        groups = param_groups_weight_decay(theirs, 0.1, no_weight_decay_list=theirs.no_weight_decay())
        _, decaying = sorted(groups, key=lambda one: one["weight_decay"])
        decays = {id(value) for value in decaying["params"]}
        names = {name for name, value in theirs.named_parameters() if id(value) in decays}
        assert {name for name, _ in ours.named_parameters()} - no_decay(ours) == names


def test_they_begin_as_timms():
    made = PositionedViT(ViT(**SIZES, registers=400, layer_scale=1e-5, qk_norm=True), SIZE, 5, NoEncoding())
    init_weights(made, 0)
    assert made.reg_token.shape == (1, 400, 24)
    assert made.reg_token.std().item() == pytest.approx(1e-6, rel=0.05)
    for block in made.blocks:
        assert (block.ls1.gamma == 1e-5).all()
        assert (block.ls2.gamma == 1e-5).all()
        assert (block.attn.q_norm.weight == 1).all()
        assert not block.attn.k_norm.bias.any()


def test_a_register_has_no_place():
    """Terms of pairs with it are zero, and it is not rotated; a table has a row for it, as timm's has."""
    shape = ViT(**SIZES, registers=3).shapes(SIZE)[0]
    assert (shape.prefix, shape.tokens) == (4, 19)
    model = PositionedViT(ViT(**SIZES, registers=3), SIZE, 5, ALiBi())
    some = torch.randn(2, 3, 19, 8, generator=torch_stream(0, "heads"))
    h = model.encoding.heads(Heads(some, some, some, None, model.grid), 0)
    assert not h.bias[:, :, :4].any()
    assert not h.bias[:, :, :, :4].any()
    rotated = PositionedViT(ViT(**SIZES, registers=3), SIZE, 5, Rotary()).encoding
    q = rotated.heads(Heads(some, some, some, None, model.grid), 0).q
    assert torch.equal(q[:, :, :4], some[:, :, :4])
    assert not torch.allclose(q[:, :, 5:], some[:, :, 5:], atol=1e-2)
    assert Learnable().parameters(shape) == 19 * 24


def test_a_heat_map_is_of_the_tokens_that_the_head_reads():
    """Class tokens come before registers; without class tokens it is of the patches."""
    weights = torch.rand(2, 3, 19, 19, generator=torch_stream(0, "weights"), dtype=torch.float64)
    for prefix, registers, queries in ((4, 3, [0]), (4, 2, [0, 1]), (4, 4, [*range(4, 19)]), (4, 0, [*range(4)])):
        rows = weights.mean(1)[:, queries, prefix:].mean(1)
        expected = (rows / rows.sum(1, keepdim=True)).reshape(2, 3, 5)
        found = torch.as_tensor(heat(weights, Grid(3, 5, prefix), registers))
        torch.testing.assert_close(found, expected)


def test_they_are_part_of_a_key_only_where_they_are_set():
    plain = Recipe(data=Digits(), model=ViT(patch_size=2))
    same = plain.put({"model.registers": 0, "model.layer_scale": None, "model.qk_norm": False})
    assert Run(same, 0).key == Run(plain, 0).key
    values = {"model.registers": 2, "model.layer_scale": 0.1, "model.qk_norm": True}
    keys = {Run(plain.put({path: value}), 0).key for path, value in values.items()}
    assert len(keys | {Run(plain, 0).key}) == 4
    assert forward_flops(plain.put({"model.registers": 2})) > forward_flops(plain)
    for path, value in (("registers", -1), ("layer_scale", 0.0)):
        with pytest.raises(SpecError, match=rf"model\.{path} must be a .*, got {value}"):
            plain.put({f"model.{path}": value})
