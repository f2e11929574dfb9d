"""The log-spaced continuous position bias against a loop over pairs, and against timm's Swin V2."""

import math

import torch
from timm.models.swin_transformer_v2 import WindowAttention

from tests.anchors.pairs import GRIDS, SCALE, content, fast, module, place, same, slow
from trainables.encodings import LogCPB, Shape, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads
from trainables.training.init import init_weights


def near(offset, side):
    """An offset along a side of so many patches, on the logarithmic scale."""
    scaled = 8 * offset / (side - 1)
    return math.copysign(math.log2(1 + abs(scaled)) / math.log2(8), offset)


def check(spec, grid):
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


def test_logits_are_those_of_a_loop_over_pairs():
    check(LogCPB(hidden=5), GRIDS[0])
    check(LogCPB(hidden=3, shared=True, pretrained_window_size=(4, 5)), GRIDS[1])


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
