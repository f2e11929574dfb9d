"""The section of what the encodings know: its numbers are the probes', its figures hold what is kept."""

from __future__ import annotations

import re

import matplotlib as mpl
import numpy as np
import pytest

from service.analysis.probes.computing import compute_probes
from service.reporting.figures.plot import drawn
from service.reporting.figures.style import NARROW, STYLE, WIDE
from service.reporting.page import page
from service.reporting.probes.figures import attention_distances, heat_maps, probe_figures, similarity_maps
from service.reporting.probes.pictures import PROJECTED, SHAPES, projected, shapes
from service.reporting.probes.tables import WORDS, probe_tables
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ablated
from tests.rooms.probed import probed
from trainables.probes.channel_shapes import SHAPES as PROBED_SHAPES
from trainables.probes.projections import PARTS
from trainables.recipe.findings import PROBES


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    home = probed(tmp_path_factory.mktemp("home"), *PROBES)
    found = Result.open(home, "known@base")
    compute_probes(found, print, lambda: False)
    return found


def test_every_probe_has_words() -> None:
    assert {*WORDS} == {*PROBES}


def test_tables_hold_the_means_of_what_the_probes_found(result) -> None:
    tables = {table.name: table for table in probe_tables(result)}
    assert [*tables] == [f"probe_{name}" for name in sorted(PROBES)]
    table = tables["probe_distance"]
    rows = {cells[:2]: cells for cells in table.rows}
    for name in ("learnable", "sinusoidal", "pretrained"):
        values = result.probe_scores("distance", "r2", "after")[name].values
        assert len(values) == 2
        assert rows["r2", name][4].startswith(f"{np.mean([*values.values()]):.4f}".replace("-", "\N{MINUS SIGN}"))
    assert ("r2", "irpe (baseline)") not in rows
    assert "irpe (baseline): not measured: irpe adds nothing to the tokens before the first block." in table.note
    assert [column.group for column in table.columns][2:] == ["before training"] * 2 + ["after training"] * 2


def test_the_page_has_the_section_and_its_files(result) -> None:
    path = result.report()
    html, markdown = path.read_text(), (path.parent / "report.md").read_text()
    assert '<section id="known">' in html
    assert "## What the encodings know" in markdown
    shown = page(result, {})
    assert [figure.name for figure in shown.known_figures] == [
        "similarity_maps", "attention_distance", "attention_maps", "channel_shapes", "projections",
    ]  # fmt: skip
    for figure in shown.known_figures:
        assert shown.number(figure.name) in markdown
        for ending in ("svg", "pdf"):
            assert (path.parent / f"{figure.name}.{ending}").is_file()
    assert (path.parent / "table-probe_direction.tex").is_file()
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len({*ids}), "no two things of the page share a name"


def test_a_study_without_probes_has_no_section(tmp_path) -> None:
    found = Result.open(Home(tmp_path), ablated(tmp_path))
    assert (probe_tables(found), probe_figures(found)) == ([], [])
    assert "What the encodings know" not in found.report().read_text()


def test_what_is_missing_is_said(tmp_path) -> None:
    found = Result.open(probed(tmp_path, "distance"), "known@base")
    (table,) = probe_tables(found)
    assert "8 runs without it yet; locus run computes it, and trains nothing." in table.note
    assert table.rows == []
    assert probe_figures(found) == []
    found.report()


@pytest.mark.parametrize("sheet", [WIDE, NARROW], ids=["wide", "narrow"])
def test_maps_are_those_of_the_first_seed_and_distances_those_of_the_heads(result, sheet) -> None:
    with mpl.rc_context(STYLE):
        fig = similarity_maps(result).draw(sheet)
        names = [row.name for row in result.of("trial") if row.name != "irpe"]
        assert len(fig.axes) == 4 * len(names)
        heads = [axes.get_title(loc="left").splitlines()[-1] for axes in fig.axes[:4]]
        assert heads == ["before: middle", "after: corner", "after: edge", "after: middle"]
        last = fig.axes[3].images[0].get_array()
        kept = next(row for row in result.of("trial") if row.name == "learnable").probe("similarity", 0)
        np.testing.assert_allclose(last, kept.after.arrays["maps"][2 * 4 + 2], rtol=1e-6)
        fig = attention_distances(result).draw(sheet)
        panels = {axes.get_title(loc="left"): axes for axes in fig.axes}
        assert [*panels] == [row.name for row in result.of("trial")]
        small = [line for line in panels["irpe"].lines if line.get_markersize() == 3]
        trial = next(row for row in result.of("trial") if row.name == "irpe")
        heads = np.mean([trial.probe("attention_distance", seed).after.arrays["by_head"] for seed in (0, 1)], axis=0)
        np.testing.assert_allclose([line.get_ydata() for line in small], heads)


@pytest.mark.parametrize("sheet", [WIDE, NARROW], ids=["wide", "narrow"])
def test_pictures_are_channels_of_the_first_seed(result, sheet) -> None:
    trial = next(row for row in result.of("trial") if row.name == "learnable")
    with mpl.rc_context(STYLE):
        made, fig = trial.probe("channel_shapes", 0).after.arrays, shapes(result).draw(sheet)
        for kind, axes in zip(SHAPES, fig.axes, strict=False):
            some = np.flatnonzero(made["kinds"] == kind)
            assert len(axes.images) == (len(some) > 0)
            if len(some):
                best = max(some, key=lambda channel: made["maps"][:, :, channel].var(dtype=float))
                np.testing.assert_allclose(axes.images[0].get_array(), made["maps"][:, :, best])
        assert [axes.get_title(loc="left").splitlines()[-1] for axes in fig.axes[:4]] == [*SHAPES]
        made, fig = trial.probe("projections", 0).after.arrays, projected(result).draw(sheet)
        channel = max(range(16), key=lambda one: made["shares"][3][one])
        for number, axes in enumerate(fig.axes[: len(PROJECTED)]):
            np.testing.assert_allclose(axes.images[0].get_array(), made["maps"][number, :, :, channel])


@pytest.mark.parametrize("sheet", [WIDE, NARROW], ids=["wide", "narrow"])
def test_heat_maps_stand_below_their_images(result, sheet) -> None:
    with mpl.rc_context(STYLE):
        fig = heat_maps(result).draw(sheet)
    trials = result.of("trial")
    kept = [row.probe("attention_maps", 0).after.arrays for row in trials]
    assert len(fig.axes) == 4 * (1 + len(trials))
    assert fig.axes[0].images[0].get_array().shape == (16, 16, 3)
    for place, (row, arrays) in enumerate(zip(trials, kept, strict=True)):
        axes = fig.axes[4 * (1 + place) + 1]
        np.testing.assert_allclose(axes.images[0].get_array(), arrays["heat"][1], rtol=1e-6)
        assert fig.axes[4 * (1 + place)].get_title(loc="left").startswith(row.name)
        np.testing.assert_array_equal(arrays["images"], kept[0]["images"], "all trials see the same images")


def test_equal_figures_are_equal_files(result) -> None:
    with mpl.rc_context(STYLE):
        plots = (similarity_maps(result), attention_distances(result), heat_maps(result))
        for plot in (*plots, shapes(result), projected(result)):
            assert drawn(plot) == drawn(plot)
            assert "\n" not in plot.caption


def test_pictures_are_in_the_order_of_the_probes() -> None:
    """The pictures name them again: the probes import torch, which a report does without."""
    assert (SHAPES, PROJECTED) == (PROBED_SHAPES, PARTS)
