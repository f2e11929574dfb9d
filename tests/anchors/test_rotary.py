"""Rotary encodings against timm's, DINOv3's and EVA-02's, and loops over coordinates."""

import math

import pytest
import timm.layers
import torch
from timm.layers import RotaryEmbeddingDinoV3
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
from trainables.encodings.declared_torch import assign_numbers, draw_numbers, that_draw
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.spec import LocusError, SpecError
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


@pytest.mark.parametrize("grid", [Grid(3, 5), Grid(4, 2, prefix=1)], ids=str)
def test_a_sequence_is_turned_as_su_et_al_have_it(grid):
    """Pairs as complex numbers, times e^(i m theta) for the patch number m; a prefix token is number 0."""
    made = build(Rotary(form="sequence"), WIDE, grid, 2)
    q, k, v = torch.randn(3, 3, 2, grid.tokens, 8, generator=torch.Generator().manual_seed(1))
    h = made.heads(Heads(q, k, v, None, grid), 1)
    numbers = [0] * grid.prefix + [*range(1, grid.patches + 1)]
    for mine, before in ((h.q, q), (h.k, k)):
        pairs = torch.view_as_complex(before.double().reshape(3, 2, grid.tokens, 4, 2))
        for token, number in enumerate(numbers):
            for pair in range(4):
                pairs[:, :, token, pair] *= complex(
                    math.cos(angle := number * 10_000 ** (-2 * pair / 8)), math.sin(angle)
                )
        assert torch.allclose(mine.double(), torch.view_as_real(pairs).flatten(-2), rtol=0, atol=1e-5)
    with pytest.raises(SpecError, match="normalize_coords must be null for patches in a sequence, got 'max'"):
        Rotary(form="sequence", normalize_coords="max")


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


GRIDS = [Grid(3, 5), Grid(6, 4, prefix=1), Grid(1, 3, prefix=2)]
RANDOM = Rotary(normalize_coords="separate", shift_coords=0.3, jitter_coords=1.5, rescale_coords=2.0)


def turned(channels, grid, place, temperature=100.0):
    """Queries in which each pair of channels is turned by a loop. `place`: (x, y) of a patch's column and row."""
    made = channels.clone()
    width = channels.shape[3]
    for token in range(grid.patches):
        at = place(token % grid.columns, token // grid.columns)
        for pair in range(width // 2):
            wave = temperature ** (-4 * (pair % (width // 4)) / width)
            angle = at[0 if pair < width // 4 else 1] * wave
            one, other = channels[:, :, grid.prefix + token, 2 * pair : 2 * pair + 2].unbind(-1)
            made[:, :, grid.prefix + token, 2 * pair] = one * math.cos(angle) - other * math.sin(angle)
            made[:, :, grid.prefix + token, 2 * pair + 1] = one * math.sin(angle) + other * math.cos(angle)
    return made


def centered(side, index):
    return 2 * math.pi * (2 * (index + 0.5) / side - 1)


def test_normalized_coordinates_are_those_of_a_loop():
    for how, grid in zip(("separate", "max", "min"), GRIDS, strict=True):
        sides = {
            "separate": (grid.columns, grid.rows),
            "max": (max(grid.columns, grid.rows),) * 2,
            "min": (min(grid.columns, grid.rows),) * 2,
        }[how]
        q, k, v = content(grid)
        made = module(Rotary(normalize_coords=how, temperature=7.0), grid)
        h = made.heads(Heads(q, k, v, None, grid), 1)
        for mine, before in ((h.q, q), (h.k, k)):
            expected = turned(before, grid, lambda x, y, sides=sides: (centered(sides[0], x), centered(sides[1], y)), 7)
            torch.testing.assert_close(mine, expected, rtol=0, atol=1e-12)


def test_they_are_dinov3s():
    """With timm's temperature, which is ours where none is given."""
    for how in ("separate", "max", "min"):
        for grid in GRIDS:
            theirs = RotaryEmbeddingDinoV3(8, normalize_coords=how, grid_indexing="xy", rotate_half=False)
            embed = theirs.eval().get_embed([grid.rows, grid.columns]).double()
            q = torch.randn(2, 2, grid.tokens, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
            made = build(Rotary(normalize_coords=how), Widths(16, 2, 8), grid, 1).double()
            mine = made.heads(Heads(q, q, q, None, grid), 0).q
            expected = timm.layers.apply_rot_embed_cat(q[:, :, grid.prefix :], embed)
            torch.testing.assert_close(mine[:, :, grid.prefix :], expected, rtol=0, atol=1e-5)  # theirs are in float32
            assert torch.equal(mine[:, :, : grid.prefix], q[:, :, : grid.prefix])


def test_a_reference_grid_is_eva_02s():
    """On the grid itself nothing changes; on another one the last patch stands where it stood."""
    for grid in GRIDS:
        q = torch.randn(2, 2, grid.tokens, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        made = build(Rotary(ref_feat_shape=(4, 6)), Widths(16, 2, 8), grid, 1).double()
        mine = made.heads(Heads(q, q, q, None, grid), 0).q
        by_hand = turned(q, grid, lambda x, y, grid=grid: (x / grid.columns * 6, y / grid.rows * 4))
        torch.testing.assert_close(mine, by_hand, rtol=0, atol=1e-12)
        embed = timm.layers.build_rotary_pos_embed(
            [grid.rows, grid.columns], dim=8, temperature=100.0, in_pixels=False, ref_feat_shape=[4, 6],
            grid_indexing="xy", dtype=torch.float64,
        )  # fmt: skip
        expected = timm.layers.apply_rot_embed_cat(q[:, :, grid.prefix :], torch.cat(embed, dim=-1))
        torch.testing.assert_close(mine[:, :, grid.prefix :], expected, rtol=0, atol=1e-5)
    same = Rotary(ref_feat_shape=(3, 5)), Rotary()
    q, k, v = content(Grid(3, 5))
    one, other = (module(spec, Grid(3, 5)).heads(Heads(q, k, v, None, Grid(3, 5)), 0).q for spec in same)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    with pytest.raises(SpecError, match=r"ref_feat_shape must be null where normalize_coords is not"):
        Rotary(normalize_coords="max", ref_feat_shape=(3, 5))


def test_in_training_coordinates_are_shifted_and_scaled_as_in_dinov3():
    """The numbers 0 to 1 are 2 for the shift of x and y, 2 for their scales, 1 for both."""
    grid, numbers = GRIDS[1], torch.tensor([0.9, 0.2, 0.6, 0.1, 0.7], dtype=torch.float64)
    for spec in (RANDOM, RANDOM.put({"shift_coords": None, "rescale_coords": None})):
        made = module(spec, grid).train()
        q, k, v = content(grid)
        assign_numbers(that_draw(made), numbers)
        mine = made.heads(Heads(q, k, v, None, grid), 0).q
        shift, jitter, rescale = spec.shift_coords or 0, spec.jitter_coords, spec.rescale_coords or 1

        def place(x, y, shift=shift, jitter=jitter, rescale=rescale):
            both = rescale**0.4
            right = (centered(4, x) / (2 * math.pi) + 0.8 * shift) * jitter**0.2 * both
            down = (centered(6, y) / (2 * math.pi) - 0.6 * shift) * jitter**-0.8 * both
            return 2 * math.pi * right, 2 * math.pi * down

        torch.testing.assert_close(mine, turned(q, grid, place), rtol=0, atol=1e-12)
        still = module(Rotary(normalize_coords="separate"), grid).heads(Heads(q, k, v, None, grid), 0).q
        assert torch.equal(made.eval().heads(Heads(q, k, v, None, grid), 0).q, still), "in evaluation nothing moves"


def test_numbers_are_of_a_seed_a_step_and_a_part():
    made = module(RANDOM, GRIDS[0])
    drawn = {where: draw_numbers(that_draw(made), *where) for where in ((0, 0), (0, 1), (1, 0))}
    assert torch.equal(draw_numbers(that_draw(made), 0, 1), drawn[0, 1])
    assert len({tuple(numbers.tolist()) for numbers in drawn.values()}) == 3
    many = torch.stack([draw_numbers(that_draw(made), 3, step) for step in range(2000)])
    assert many.shape == (2000, 5)
    assert (many.min() >= 0) & (many.max() < 1)
    assert (many.mean(0) - 0.5).abs().max() < 0.03
    assert (torch.corrcoef(many.T) - torch.eye(5)).abs().max() < 0.08
    assert that_draw(module(Rotary(normalize_coords="max"), GRIDS[0])) == []


def test_a_forward_pass_in_training_needs_numbers_of_its_own():
    made, (q, k, v) = module(RANDOM, GRIDS[0]).train(), content(GRIDS[0])
    must = r"encoding rotary must be given random numbers before each forward pass in training \(assign_numbers\), got"
    for _ in range(2):
        with pytest.raises(LocusError, match=must):
            made.heads(Heads(q, k, v, None, GRIDS[0]), 0)
        assign_numbers(that_draw(made), draw_numbers(that_draw(made), 0, 0))
        cache = {}
        for block in range(2):
            made.heads(Heads(q, k, v, None, GRIDS[0], cache), block)
