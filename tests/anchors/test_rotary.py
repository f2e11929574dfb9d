"""Rotary encodings against timm's functions and timm's own model, forward and backward."""

import pytest
import timm.layers
import torch
from timm.layers.pos_embed_sincos import RotaryEmbeddingMixed, get_mixed_freqs, get_mixed_grid, init_random_2d_freqs
from timm.models.eva import Eva

from tests.anchors.pairs import GRIDS, content, module
from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import (
    IRPE,
    Composed,
    Concat,
    Extend,
    Fourier,
    Learnable,
    Rotary,
    Shape,
    Sinusoidal,
    Widths,
    parts_of,
)
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.spec import SpecError
from trainables.training.init import init_weights

AXIAL = Rotary(temperature=7.0)
MIXED = Rotary(form="mixed")
WIDE = Widths(dim=16, heads=2, head_dim=8)


def theirs(spec: Rotary, grid: Grid, part, block: int) -> torch.Tensor:
    """timm's sines and cosines. Shapes: (P, 2 E) or, mixed, (H, P, 2 E)."""
    shape = [grid.rows, grid.columns]
    if spec.form == "mixed":
        return get_mixed_freqs(part.freqs, *get_mixed_grid(shape, grid_indexing="xy"))[block]
    embed = timm.layers.build_rotary_pos_embed(
        shape, dim=8, temperature=7.0, in_pixels=False, grid_indexing="xy", dtype=torch.float64
    )
    return torch.cat(embed, dim=-1)


@pytest.mark.parametrize("grid", [Grid(3, 5), Grid(4, 2, prefix=1), Grid(2, 7, prefix=2)], ids=str)
@pytest.mark.parametrize("spec", [AXIAL, MIXED], ids=["axial", "mixed"])
@pytest.mark.parametrize("block", [0, 1])
def test_queries_and_keys_are_timms(spec, grid, block):
    made = build(spec, WIDE, grid, 2)
    init_weights(made, 0)
    q, k, v = torch.randn(3, 3, 2, grid.tokens, 8, generator=torch.Generator().manual_seed(1)).requires_grad_()
    h = made.heads(Heads(q, k, v, None, grid), block)
    embed = theirs(spec, grid, made.rotary, block)
    assert h.bias is None
    assert h.v is v
    for mine, before in ((h.q, q), (h.k, k)):
        assert torch.equal(mine[:, :, : grid.prefix], before[:, :, : grid.prefix]), "prefix tokens are not rotated"
        expected = timm.layers.apply_rot_embed_cat(before[:, :, grid.prefix :], embed)
        assert torch.allclose(mine[:, :, grid.prefix :], expected.float(), rtol=0, atol=1e-6)
        assert not torch.allclose(mine[:, :, -1], before[:, :, -1], atol=1e-2)
    if spec.form == "mixed":
        weight = torch.randn(h.q[:, :, grid.prefix :].shape, generator=torch.Generator().manual_seed(2))
        rows = q.detach()[:, :, grid.prefix :]
        (right,) = torch.autograd.grad((timm.layers.apply_rot_embed_cat(rows, embed) * weight).sum(), made.rotary.freqs)
        (left,) = torch.autograd.grad((h.q[:, :, grid.prefix :] * weight).sum(), made.rotary.freqs)
        assert torch.allclose(left, right, rtol=0, atol=1e-5)


def test_frequencies_start_as_timms():
    """Up to the random angle of each block and head, which both draw: lengths, right angles, spread."""
    made = build(MIXED, Widths(32, 2, 16), Grid(3, 5), 300)
    init_weights(made, 0)
    mine, other = made.rotary.freqs.detach(), init_random_2d_freqs(16, 300, 2)
    assert mine.shape == other.shape == RotaryEmbeddingMixed(32, 300, 2).freqs.shape
    assert torch.allclose(mine.norm(dim=0), other.norm(dim=0), atol=1e-6)
    first, second = mine.chunk(2, dim=-1)
    assert (first * second).sum(0).abs().max() < 1e-6
    angles = torch.atan2(first[1, ..., 0], first[0, ..., 0])
    assert torch.allclose(torch.atan2(first[1], first[0]), angles[..., None].expand(-1, -1, 4), atol=1e-5)
    assert abs(angles.mean()) < 0.3
    assert abs(angles.std() - 2 * torch.pi / 12**0.5) < 0.15


@pytest.mark.parametrize("table", [False, True], ids=["alone", "with a table"])
@pytest.mark.parametrize("form", ["axial", "mixed"])
def test_the_model_is_timms(form, table):
    """timm's RoPE-ViT with its weights in our names."""
    knobs = {"rope_type": "mixed", "rope_temperature": 10.0} if form == "mixed" else {"rope_temperature": 100.0}
    eva = Eva(
        img_size=(12, 20), patch_size=4, embed_dim=16, depth=2, num_heads=2, qkv_bias=True, init_values=None,
        num_classes=3, class_token=True, global_pool="token", use_abs_pos_emb=table, use_rot_pos_emb=True,
        rope_grid_indexing="xy", attn_type="rope", **knobs,
    ).eval()  # fmt: skip
    for value in eva.parameters():
        torch.nn.init.normal_(value, std=0.3)
    rotary = Rotary(form=form)
    encoding = Composed(parts=(Learnable(), rotary)) if table else rotary
    model = PositionedViT(ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4), (3, 12, 20), 3, encoding).eval()
    weights = {name: value for name, value in eva.state_dict().items() if not name.startswith("rope.")}
    if table:
        weights["encoding.learnable.table"] = weights.pop("pos_embed")[0]
    if form == "mixed":
        weights["encoding.rotary.freqs"] = eva.rope.freqs.detach()
    model.load_state_dict(weights)
    images = torch.randn(3, 3, 12, 20)
    with torch.no_grad():
        assert torch.allclose(model(images), eva(images), rtol=0, atol=1e-6 * float(eva(images).abs().max()))
        assert not torch.allclose(model(images), model(images.flip(3)), atol=1e-3)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
def test_channels_that_others_appended_stay(grid):
    made = module(Composed(parts=(Sinusoidal(injection=Extend(channels=4)), Rotary())), grid)
    q, k, v = content(grid)
    h, alone = made.heads(Heads(q, k, v, None, grid), 1), module(Rotary(), grid).heads(Heads(q, k, v, None, grid), 1)
    appended = made.sinusoidal.heads(Heads(q, k, v, None, grid), 1)
    assert h.q.shape[3] == 8
    assert torch.equal(h.q[..., :4], alone.q)
    assert torch.equal(h.k[..., 4:], appended.k[..., 4:])


def test_products_depend_on_the_offset_of_patches():
    """Moving both patches by one row and one column changes nothing."""
    grid = Grid(4, 5)
    made = module(Rotary(form="mixed"), grid)
    q, k = torch.randn(2, 1, 2, 1, 4, dtype=torch.float64).expand(2, 1, 2, grid.patches, 4)
    h = made.heads(Heads(q, k, k, None, grid), 1)
    products = (h.q @ h.k.mT).unflatten(3, (4, 5)).unflatten(2, (4, 5))
    assert torch.allclose(products[:, :, :-1, :-1, :-1, :-1], products[:, :, 1:, 1:, 1:, 1:], atol=1e-12)
    assert not torch.allclose(products[:, :, :, :-1, :, :-1], products[:, :, :, :-1, :, 1:], atol=1e-3)


def test_a_head_must_have_channels_in_fours_and_terms_that_read_come_later():
    shape = Shape(Widths(12, 2, 6), 2, 3, 5, 0)
    with pytest.raises(Exception, match=r"a head's channels are divisible by 4 for rotary encodings, got 6"):
        Rotary().check(shape)
    with pytest.raises(SpecError, match="q and k change before they are read, got irpe before rotary"):
        build(Composed(parts=(IRPE(), Rotary())), WIDE, Grid(3, 5), 2)
    fine = Composed(parts=(Fourier(injection=Concat(split=0.5)), Rotary(), IRPE()))
    assert [part.kind for part in parts_of(fine)] == ["fourier", "rotary", "irpe"]
    assert build(fine, WIDE, Grid(3, 5), 2).modifies_qk
