"""A factorized table against a loop over patches, on its own grid and on another."""

import numpy as np
import torch
from torch.nn.functional import interpolate

from tests.anchors.test_codes import GRIDS, added
from trainables.encodings import Concat, Factorized, Shape, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid
from trainables.training.init import init_weights


def test_a_patch_gets_the_sum_of_its_row_and_its_column():
    for grid in GRIDS:
        made, prefix, patches = added(Factorized(std=0.5), grid, 8)
        rows, columns = (made.factorized.get_parameter(name).detach().numpy() for name in ("rows", "columns"))
        assert rows.shape == (grid.rows, 8)
        assert columns.shape == (grid.columns, 8)
        expected = [rows[token // grid.columns] + columns[token % grid.columns] for token in range(grid.patches)]
        assert np.array_equal(patches, np.array(expected))
        assert not prefix.any()
        made.factorized.code().square().sum().backward()
        code = torch.as_tensor(patches).unflatten(0, (grid.rows, grid.columns))
        torch.testing.assert_close(made.factorized.get_parameter("rows").grad, 2 * code.sum(1))
        torch.testing.assert_close(made.factorized.get_parameter("columns").grad, 2 * code.sum(0))


def test_its_tables_are_counted_and_begin_as_a_free_table():
    spec, shape = Factorized(), Shape(Widths(512, 2, 256), 2, 30, 20, 1)
    made = build(spec, shape.widths, Grid.of(shape), 2)
    init_weights(made, 0)
    assert spec.parameters(shape) == sum(value.numel() for value in made.parameters()) == 50 * 512
    assert all(abs(value.std().item() / 0.02 - 1) < 0.05 for value in made.parameters())
    assert Factorized(injection=Concat()).parameters(shape) == 50 * 256


def test_each_table_is_resampled_along_its_own_side():
    """As many columns as before: their table stays as it is, to the bit; that of rows is torch's bicubic one."""
    old, new = Grid(3, 5, prefix=1), Grid(7, 5, prefix=1)
    part = added(Factorized(std=0.5), old, 8)[0].factorized
    tables = {name: value.detach() for name, value in part.named_parameters()}
    assert torch.equal(part.resampled("columns", tables["columns"], old, new), tables["columns"])
    made = part.resampled("rows", tables["rows"], old, new)
    expected = interpolate(tables["rows"].T[None, :, :, None], (7, 1), mode="bicubic", align_corners=False)
    torch.testing.assert_close(made, expected[0, :, :, 0].T)
