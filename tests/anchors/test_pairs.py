"""Terms of pairs of patches against loops: relative positions, ALiBi, FIRE, log-CPB, LookHere, LePE."""

import math

import pytest
import torch
from timm.models.swin_transformer_v2 import WindowAttention
from torch.nn.functional import conv2d, cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from tests.anchors.pairs import GRIDS, SCALE, content, fast, module, place, same, slow
from trainables.backbones import CaiT, Swin, ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import (
    FIRE,
    IRPE,
    PEG,
    ALiBi,
    Composed,
    Learnable,
    LePE,
    LogCPB,
    LookHere,
    NoEncoding,
    Relative,
    RelativeBias,
    Rotary,
    Shape,
    Widths,
)
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.encodings.irpe import Cross
from trainables.encodings.relative import ClippedOffsets, SplitOffsets
from trainables.encodings.relative_torch import clipped_index, line_index
from trainables.probes.inputs.attention import recorded
from trainables.recipe import Recipe
from trainables.recipe.cost import estimate_cost
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError
from trainables.training.init import init_weights


def clip(offset, reach):
    return max(-reach, min(reach, offset))


def vector(tables, table, i, j, grid, reach):
    """The vector of the pair (query i, key j); zeros where one of them has no place."""
    at, to = place(i, grid), place(j, grid)
    if at is None or to is None:
        return torch.zeros(4, dtype=torch.float64)
    dr, dc = to[0] - at[0], to[1] - at[1]
    if reach is None:
        return torch.cat([tables.rows[table, dr + grid.rows - 1], tables.columns[table, dc + grid.columns - 1]])
    return tables.vectors[table, (clip(dr, reach) + reach) * (2 * reach + 1) + clip(dc, reach) + reach]


@pytest.mark.parametrize("grid", [*GRIDS, Grid(1, 4, prefix=2)], ids=str)
@pytest.mark.parametrize("reach", [None, 1, 8])
@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("shared", [True, False])
def test_relative(grid, reach, value, shared):
    offsets = SplitOffsets() if reach is None else ClippedOffsets(reach=reach)
    made = module(Relative(offsets=offsets, value=value, shared=shared), grid)
    tables = made.relative
    table = 0 if shared else 1

    def logit(b, h, i, j):
        return SCALE * q[b, h, i] @ (k[b, h, j] + vector(tables.keys, table, i, j, grid, reach))

    def seen(b, h, i, j):
        return v[b, h, j] + (vector(tables.values, table, i, j, grid, reach) if value else 0)

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, block=1), slow(qkv, logit, seen), qkv)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_relative_bias(grid, shared):
    made = module(RelativeBias(shared=shared), grid)
    table = made.relative_bias.table[0 if shared else 1]

    def logit(b, h, i, j):
        at, to = place(i, grid), place(j, grid)
        if at is None or to is None:
            return SCALE * q[b, h, i] @ k[b, h, j]
        dr, dc = at[0] - to[0], at[1] - to[1]
        number = (dr + grid.rows - 1) * (2 * grid.columns - 1) + dc + grid.columns - 1
        return SCALE * q[b, h, i] @ k[b, h, j] + table[h, number]

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, block=1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)


def test_numbers_of_offsets_are_key_minus_query():
    assert line_index(3).tolist() == [[2, 3, 4], [1, 2, 3], [0, 1, 2]]
    assert clipped_index(Grid(2, 3), 1)[0].tolist() == [4, 5, 5, 7, 8, 8]


@pytest.mark.parametrize(("spec", "count"), [
    (Relative(), 12 * (27 + 27) * 32),
    (Relative(value=True, shared=True), 2 * (27 + 27) * 32),
    (Relative(offsets=ClippedOffsets()), 12 * 17**2 * 64),
], ids=["split", "with values", "clipped"])  # fmt: skip
def test_sizes_of_the_tables(spec, count):
    made = build(spec, Widths(192, 3, 64), Grid(14, 14, prefix=1), 12)
    assert sum(value.numel() for value in made.parameters()) == count


class Largest(TorchDispatchMode):
    """Watches how many numbers the largest tensor holds."""

    numbers = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        made = [out] if isinstance(out, torch.Tensor) else [one for one in out if isinstance(one, torch.Tensor)]
        for one in made:
            self.numbers = max(self.numbers, one.untyped_storage().nbytes() // one.element_size())
        return out


@pytest.mark.parametrize("spec", [
    IRPE(on=("q", "k", "v")), IRPE(mapping=Cross()),
    Relative(value=True), Relative(offsets=ClippedOffsets(reach=3), value=True),
], ids=["irpe", "irpe cross", "split", "clipped"])  # fmt: skip
def test_pairs_have_numbers_and_never_vectors(spec):
    """Forward and backward build nothing as large as a vector for each pair."""
    grid = Grid(9, 7)
    made = build(spec, Widths(64, 2, 32), grid, 1)
    for value in made.parameters():
        torch.nn.init.normal_(value)
    q, k, v = (torch.randn(2, 2, grid.patches, 32, requires_grad=True) for _ in range(3))
    with Largest() as largest:
        h = made.heads(Heads(q, k, v, None, grid), 0)
        weights = (h.q @ h.k.mT if h.bias is None else h.q @ h.k.mT + h.bias).softmax(3)
        made.outputs(weights @ v, weights, grid, 0).sum().backward()
    assert grid.patches**2 <= largest.numbers < grid.patches**2 * 32


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("distance", ["euclidean", "manhattan"])
def test_logits_fall_with_the_distance(grid, distance):
    made = module(ALiBi(distance=distance), grid)
    slopes = [2**-4, 2**-8]

    def logit(b, h, i, j):
        one, other = place(i, grid), place(j, grid)
        term = 0.0
        if one and other:
            rows, columns = one[0] - other[0], one[1] - other[1]
            far = math.hypot(rows, columns) if distance == "euclidean" else abs(rows) + abs(columns)
            term = -slopes[h] * far
        return SCALE * q[b, h, i] @ k[b, h, j] + term

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)


def test_slopes_of_the_paper():
    """Press et al., section 3: eight heads have 1/2, 1/4 ... 1/256."""
    grid = Grid(1, 2)
    made = build(ALiBi(), Widths(32, 8, 4), grid, 1)
    zeros = torch.zeros(1, 8, 2, 4)
    bias = made.heads(Heads(zeros, zeros, zeros, None, grid), 0).bias
    assert bias[0, :, 0, 1].tolist() == [-(2.0**-i) for i in range(1, 9)]
    assert not bias[0, :, 0, 0].any()


@pytest.mark.parametrize("spec", [ALiBi(), Rotary(), Rotary(form="mixed")], ids=["alibi", "axial", "mixed"])
def test_they_stand_in_the_vit_and_are_refused_elsewhere(spec):
    recipe = Recipe(encoding=spec)
    learned = {"form": 2 * 4 * 8} if getattr(spec, "form", "") == "mixed" else {}
    assert estimate_cost(recipe).parameters - estimate_cost(Recipe()).parameters == sum(learned.values())
    for model in (CaiT(), Swin()):
        with pytest.raises(SpecError, match="its attention"):
            Recipe(encoding=spec, model=model)


def check_fire(spec, grid):
    """Compares outputs and gradients of block 1 with those of a loop, all parameters random."""
    made = module(spec, grid)
    network = 0 if spec.shared else 1
    names = ("c", "multiplier", "mlp.0.weight", "mlp.0.bias", "mlp.2.weight")
    c, multiplier, first, bias, second = (made.fire.get_parameter(name)[network] for name in names)
    q, k, v = qkv = content(grid)

    def psi(x):
        return (c[0, 0].abs() * x + 1).log()

    def near(offset, side):
        """Of an offset along a side of so many patches."""
        longest = torch.maximum(spec.threshold * multiplier[0, 0].abs(), torch.tensor(side - 1.0, dtype=torch.float64))
        return math.copysign(1, offset) * psi(abs(offset)) / (psi(longest) + 1e-6)

    def logit(b, h, i, j):
        one, other = place(i, grid), place(j, grid)
        term = 0.0
        if one and other:
            seen = torch.stack([near(one[0] - other[0], grid.rows), near(one[1] - other[1], grid.columns)])
            term = second[h] @ (first @ seen + bias[0]).clamp(min=0)
        return SCALE * q[b, h, i] @ k[b, h, j] + term

    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)


def test_logits_of_fire_are_those_of_a_loop_over_pairs():
    """With L below and above the sides."""
    check_fire(FIRE(hidden=5, threshold=1.5), GRIDS[0])
    check_fire(FIRE(hidden=3, shared=True), GRIDS[1])


def test_on_one_line_it_is_the_papers_for_the_query_that_sees_all():
    """The last query of a sequence of 7, with the published code's form of eq. 5 and L above and below the length."""
    for threshold in (3.0, 16.0):
        made = build(FIRE(hidden=8, threshold=threshold), Widths(8, 2, 4), Grid(1, 7), 1).double()
        init_weights(made, 0)
        c, first, second = (made.fire.get_parameter(name)[0] for name in ("c", "mlp.0.weight", "mlp.2.weight"))
        some = torch.zeros(1, 2, 7, 4, dtype=torch.float64)
        bias = made.heads(Heads(some, some, some, None, Grid(1, 7)), 0).bias[0, :, -1]
        distance = torch.arange(6, -1, -1, dtype=torch.float64)
        scaled = torch.log(torch.abs(c * distance) + 1) / (torch.log(torch.abs(c * max(6.0, threshold)) + 1) + 1e-6)
        expected = (scaled.T @ first[:, 1:].T).relu() @ second.T
        torch.testing.assert_close(bias, expected.T, rtol=0, atol=1e-12)


def test_it_is_counted_and_begins_as_the_paper_says():
    shape = Shape(Widths(32, 4, 8), 3, 4, 6, 1)
    for spec, networks in ((FIRE(), 3), (FIRE(shared=True, hidden=9), 1)):
        made = build(spec, shape.widths, Grid.of(shape), 3)
        init_weights(made, 0)
        counted = sum(value.numel() for value in made.parameters())
        assert spec.parameters(shape) == counted == networks * (2 + 7 * spec.hidden)
        assert (made.fire.get_parameter("c") == 0.1).all()
        assert (made.fire.get_parameter("multiplier") == 1).all()
        assert not made.fire.get_parameter("mlp.0.bias").any()
        for name, bound in (("mlp.0.weight", 2**-0.5), ("mlp.2.weight", spec.hidden**-0.5)):
            assert 0.8 * bound < made.fire.get_parameter(name).abs().max() <= bound


def test_on_a_larger_grid_offsets_stay_within_what_was_seen():
    """The longest offset of a side of at least L patches is 1 in the network's scale, whatever the side."""
    terms = []
    for side in (9, 17):
        made = build(FIRE(threshold=4.0), Widths(8, 2, 4), Grid(side, side), 1).double()
        init_weights(made, 0)
        some = torch.zeros(1, 2, side**2, 4, dtype=torch.float64)
        terms.append(made.heads(Heads(some, some, some, None, Grid(side, side)), 0).bias[0, :, 0, -1])
    torch.testing.assert_close(*terms, rtol=0, atol=1e-5)


def near(offset, side):
    """An offset along a side of so many patches, on the logarithmic scale."""
    scaled = 8 * offset / (side - 1)
    return math.copysign(math.log2(1 + abs(scaled)) / math.log2(8), offset)


def check_log_cpb(spec, grid):
    """Compares outputs and gradients of block 1 with those of a loop."""
    made = module(spec, grid)
    network = 0 if spec.shared else 1
    first, bias, second = (
        made.log_cpb.get_parameter(name)[network] for name in ("mlp.0.weight", "mlp.0.bias", "mlp.2.weight")
    )
    rows, columns = spec.pretrained_window_size or (grid.rows, grid.columns)
    q, k, v = qkv = content(grid)

    def logit(b, h, i, j):
        one, other = place(i, grid), place(j, grid)
        term = 0.0
        if one and other:
            seen = [near(one[0] - other[0], rows), near(one[1] - other[1], columns)]
            hidden = first @ torch.tensor(seen, dtype=torch.float64) + bias[0]
            term = 16 * torch.sigmoid(second[h] @ hidden.clamp(min=0)) - 8
        return SCALE * q[b, h, i] @ k[b, h, j] + term

    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)


def test_logits_of_log_cpb_are_those_of_a_loop_over_pairs():
    check_log_cpb(LogCPB(hidden=5), GRIDS[0])
    check_log_cpb(LogCPB(hidden=3, shared=True, pretrained_window_size=(4, 5)), GRIDS[1])


def test_the_bias_is_swin_v2s():
    """With its weights, also where it was trained with another window; up to the 8 that no softmax sees."""
    for window, trained in (((4, 4), (0, 0)), ((5, 5), (3, 3))):
        theirs = WindowAttention(24, window, 3, pretrained_window_size=trained).double()
        spec = LogCPB(pretrained_window_size=None if trained == (0, 0) else trained, shared=True)
        made = build(spec, Widths(24, 3, 8), Grid(*window), 1)
        state = {f"log_cpb.{name.removeprefix('cpb_')}": value for name, value in theirs.state_dict().items()}
        mine = made.state_dict()
        made.load_state_dict({name: state[name].reshape(value.shape) for name, value in mine.items()})
        made = made.double()
        q = torch.zeros(1, 3, window[0] ** 2, 8, dtype=torch.float64)
        bias = made.heads(Heads(q, q, q, None, Grid(*window)), 0).bias[0]
        table = theirs.cpb_mlp(theirs.relative_coords_table.double()).view(-1, 3)
        expected = table[theirs.relative_position_index.flatten()].view(*bias.shape[1:], 3).permute(2, 0, 1)
        torch.testing.assert_close(
            bias + 8, 16 * expected.sigmoid(), rtol=0, atol=1e-6
        )  # theirs are rounded to float32


def test_it_is_counted_and_begins_without_a_term():
    """All pairs of patches have the same bias but for the draw of the weights; pairs with a prefix token have 0."""
    shape = Shape(Widths(32, 4, 8), 3, 4, 6, 1)
    for spec, networks in ((LogCPB(), 3), (LogCPB(shared=True), 1)):
        made = build(spec, shape.widths, Grid.of(shape), 3)
        init_weights(made, 0)
        counted = sum(value.numel() for value in made.parameters())
        assert spec.parameters(shape) == counted == networks * (512 * 2 + 512 + 4 * 512)
        assert (spec.injection_points, spec.saved_pairs) == ({"attention"}, 1)
        some = torch.zeros(1, 4, 25, 8)
        bias = made.heads(Heads(some, some, some, None, Grid.of(shape)), 2).bias
        assert 0 < bias.abs().max() < 0.5
        assert not bias[..., 0].any()
        assert not bias[..., 0, :].any()


def test_with_its_own_window_a_small_offset_keeps_its_bias_on_a_larger_grid():
    spec, small, large = LogCPB(hidden=4, pretrained_window_size=(3, 3)), Grid(3, 3), Grid(5, 4)
    biases = []
    for grid in (small, large):
        some = torch.zeros(1, 2, grid.patches, 4, dtype=torch.float64)
        biases.append(module(spec, grid).heads(Heads(some, some, some, None, grid), 1).bias[0])
    one, other = biases[0].unflatten(2, (3, 3)), biases[1].unflatten(2, (5, 4))
    torch.testing.assert_close(one[:, 0], other[:, 0, :3, :3])


LOOKS = {180: (0, 180, 90, 270, 45, 225, 135, 315), 90: (0, 180, 90, 270, 45, 225, 135, 315)}
LOOKS[45] = tuple(direction + 22.5 for direction in LOOKS[90])


def biases(spec, grid, heads, depth, block):
    """The bias of a block. Shapes: (H, P, P)."""
    made = build(spec, Widths(4 * heads, heads, 4), grid, depth).double()
    some = torch.zeros(1, heads, grid.tokens, 4, dtype=torch.float64)
    bias = made.heads(Heads(some, some, some, None, grid), block).bias[0]
    assert not bias[:, : grid.prefix].any()
    assert not bias[:, :, : grid.prefix].any()
    return bias[:, grid.prefix :, grid.prefix :]


def sees(view, look, across, up):
    """Whether a key so many patches to the right and up is in view."""
    if (across, up) == (0, 0):
        return True
    apart = (math.degrees(math.atan2(up, across)) - look + 180) % 360 - 180
    return abs(apart) <= view / 2 + 1e-6


@pytest.mark.parametrize("view", [180, 90, 45])
def test_a_head_sees_what_is_in_its_field_of_view(view):
    """12 heads in 3 blocks: eight that look, with slope 1/2, then four that see all."""
    grid = Grid(3, 4, prefix=1)
    for block, factor in enumerate((1.5, 1.0, 0.5)):
        bias = biases(LookHere(field_of_view=view, slope=0.8), grid, 12, 3, block)
        for head in range(12):
            slope = 0.5 if head < 8 else 4.0 ** -(head - 7)
            for i in range(grid.patches):
                for j in range(grid.patches):
                    across, up = j % 4 - i % 4, i // 4 - j // 4
                    if head < 8 and not sees(view, LOOKS[view][head], across, up):
                        assert bias[head, i, j] <= -5000
                    else:
                        expected = -0.8 * factor * slope * math.hypot(across, up)
                        assert float(bias[head, i, j]) == pytest.approx(expected, abs=1e-12)


def test_outputs_and_gradients_are_those_of_a_loop():
    """Two heads: the first looks right, the second left."""
    for grid in GRIDS:
        made = module(LookHere(), grid)
        q, k, v = qkv = content(grid)

        def logit(b, h, i, j, grid=grid, q=q, k=k):
            one, other = place(i, grid), place(j, grid)
            term = 0.0
            if one and other:
                rows, columns = other[0] - one[0], other[1] - one[1]
                seen = columns >= 0 if h == 0 else columns <= 0
                term = -0.5 * 0.5 * math.hypot(rows, columns) if seen else -math.inf
            return SCALE * q[b, h, i] @ k[b, h, j] + term

        same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j, v=v: v[b, h, j]), qkv)


def test_any_number_of_heads_has_its_directions():
    """One block; six heads are the code's: four along the axes, two that see all."""
    grid = Grid(3, 3)
    for heads, last in ((1, 0), (4, 0), (6, 2), (8, 2), (12, 4), (16, 4), (24, 8)):
        bias = biases(LookHere(), grid, heads, 1, 0)
        assert [bool((one > -1000).all()) for one in bias] == [False] * (heads - last) + [True] * last
    assert float(biases(LookHere(), grid, 24, 1, 0)[9, 4, 3]) == pytest.approx(-1.5 * 0.25)  # the tenth looks left
    assert LookHere().parameters(Shape(Widths(8, 2, 4), 2, 3, 3, 0)) == 0


def test_eight_heads_look_into_all_directions_alike():
    """The opposite head of a pair sees the mirrored pair."""
    for view in (180, 90, 45):
        bias = biases(LookHere(field_of_view=view), Grid(4, 4), 12, 2, 1)
        for one in range(0, 8, 2):
            assert torch.equal(bias[one], bias[one + 1].T)


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
