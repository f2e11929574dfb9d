"""The section of what the encodings know: its numbers are the probes', its figures hold what is kept."""

from __future__ import annotations

import re
from html import unescape

import matplotlib as mpl
import numpy as np
import pytest

from service.reporting.figures.plot import STYLE, drawn, inline
from service.reporting.figures.probes import (
    MOST_BLOCKS,
    PROJECTED,
    SHAPES,
    TERMS,
    attention_distances,
    attention_weights,
    by_block,
    heat_maps,
    projected,
    shapes,
    similarity_maps,
    spaced,
    term_maps,
    terms_by_block,
)
from service.reporting.further_tables import WORDS, probe_tables
from service.reporting.page import PROBE_FIGURES, figures
from service.results import Result, compute_probes
from tests.rooms.probed import ARMS, probed
from trainables.probes.channel_shapes import SHAPES as PROBED_SHAPES
from trainables.probes.logit_terms import TERMS as PROBED_TERMS
from trainables.probes.projections import PARTS
from trainables.recipe.findings import PROBES


@pytest.fixture(scope="module")
def result(tmp_path_factory) -> Result:
    home = probed(tmp_path_factory.mktemp("home"), *PROBES)
    found = Result.open(home, "known@base")
    compute_probes(found, print, lambda: False)
    return found


def test_tables_hold_the_means_of_what_the_probes_found(result) -> None:
    tables = {table.name: table for table in probe_tables(result)}
    assert [*tables] == [f"probe_{name}" for name in sorted(PROBES)]
    table = tables["probe_distance"]
    rows = {cells[:2]: cells for cells in table.rows}
    for name in ("learnable", "sinusoidal", "pretrained"):
        for when, cell in (("before", rows["r2", name][2]), ("after", rows["r2", name][4])):
            values = result.probe_scores("distance", "r2", when)[name].values
            assert len(values) == 2
            assert cell.startswith(f"{np.mean([*values.values()]):.4f}".replace("-", "\N{MINUS SIGN}"))
    assert ("r2", "irpe (baseline)") not in rows
    assert "irpe (baseline): not measured: irpe adds nothing to the tokens before the first block." in table.note
    assert [column.group for column in table.columns][2:] == ["before training"] * 2 + ["after training"] * 2


def test_the_page_has_the_section_and_its_files(result) -> None:
    path = result.report()
    html = path.read_text()
    assert '<section id="known">' in html
    assert "<h2>What the encodings know</h2>" in html
    numbers = dict(re.findall(r'<a href="#figure-(\w+)">(Figure \d+)\.</a>', html))
    known = [
        "similarity_maps", "attention_distance", "attention_weights", "attention_maps", "logit_term_maps",
        "channel_shapes", "projections", "block_channels",
    ]  # fmt: skip
    assert [*numbers][-len(known) :] == known
    for kind in PROBE_FIGURES:
        if (plot := kind(result)) is not None:
            assert f"{numbers[plot.name]}.</a> {plot.caption}" in unescape(html)
    for kind in (attention_distances, heat_maps):  # one of lines, one of maps and photographs
        with mpl.rc_context(STYLE):
            again = drawn(kind(result))
        assert again.svg == (path.parent / f"{again.name}.svg").read_text(), "equal figures are equal files"
        assert again.pdf == (path.parent / f"{again.name}.pdf").read_bytes()
    assert inline(again.svg, "").partition("<defs>")[2] in html, "equal figures are equal pages"
    assert (path.parent / "table-probe_direction.tex").is_file()
    ids = re.findall(r'\sid="([^"]+)"', html)
    assert len(ids) == len({*ids}), "no two things of the page share a name"


def test_what_is_missing_is_said(tmp_path, result, ablation, reported_ablation) -> None:
    assert terms_by_block(result) is None, "one block has no line"
    assert (probe_tables(ablation), figures(ablation, PROBE_FIGURES)) == ([], [])
    assert "What the encodings know" not in reported_ablation.page.read_text()
    found = Result.open(probed(tmp_path, "distance"), "known@base")
    (table,) = probe_tables(found)
    assert "8 runs without it yet; locus run computes it, and trains nothing." in table.note
    assert table.rows == []
    assert figures(found, PROBE_FIGURES) == []
    found.report()


def test_maps_are_those_of_the_first_seed_and_distances_those_of_the_heads(result) -> None:
    with mpl.rc_context(STYLE):
        fig = similarity_maps(result).draw()
        names = [row.name for row in result.of("trial") if row.name != "irpe"]
        assert len(fig.axes) == 4 * len(names)
        heads = [axes.get_title(loc="left").splitlines()[-1] for axes in fig.axes[:4]]
        assert heads == ["before: middle", "after: corner", "after: edge", "after: middle"]
        last = fig.axes[3].images[0].get_array()
        kept = next(row for row in result.of("trial") if row.name == "learnable").probe("similarity", 0)
        np.testing.assert_allclose(last, kept.after.arrays["maps"][2 * 4 + 2], rtol=1e-6)
        others = np.delete(np.asarray(last).ravel(), 2 * 4 + 2)
        ends = f"{others.min():.2f} to {others.max():.2f}".replace("-", "\N{MINUS SIGN}")
        assert fig.axes[3].texts[0].get_text() == ends, "without the position itself, which has 1"
        fig = attention_distances(result).draw()
        panels = {axes.get_title(loc="left"): axes for axes in fig.axes}
        assert [*panels] == [row.name for row in result.of("trial")]
        small = [line for line in panels["irpe"].lines if line.get_markersize() == 3]
        trial = next(row for row in result.of("trial") if row.name == "irpe")
        heads = np.mean([trial.probe("attention_distance", seed).after.arrays["by_head"] for seed in (0, 1)], axis=0)
        np.testing.assert_allclose([line.get_ydata() for line in small], heads)


def test_pictures_are_channels_of_the_first_seed(result) -> None:
    trial = next(row for row in result.of("trial") if row.name == "learnable")
    with mpl.rc_context(STYLE):
        made, fig = trial.probe("channel_shapes", 0).after.arrays, shapes(result).draw()
        for kind, axes in zip(SHAPES, fig.axes, strict=False):
            some = np.flatnonzero(made["kinds"] == kind)
            assert len(axes.images) == (len(some) > 0)
            if len(some):
                best = max(some, key=lambda channel: made["maps"][:, :, channel].var(dtype=float))
                np.testing.assert_allclose(axes.images[0].get_array(), made["maps"][:, :, best])
        assert [axes.get_title(loc="left").splitlines()[-1] for axes in fig.axes[:4]] == [*SHAPES]
        made, fig = trial.probe("projections", 0).after.arrays, projected(result).draw()
        channel = max(range(16), key=lambda one: made["shares"][3][one])
        for number, axes in enumerate(fig.axes[: len(PROJECTED)]):
            np.testing.assert_allclose(axes.images[0].get_array(), made["maps"][number, :, :, channel])


def test_heat_maps_stand_below_their_images(result) -> None:
    with mpl.rc_context(STYLE):
        fig = heat_maps(result).draw()
    trials = result.of("trial")
    kept = [row.probe("attention_maps", 0).after.arrays for row in trials]
    assert len(fig.axes) == 4 * (1 + len(trials))
    assert fig.axes[0].images[0].get_array().shape == (16, 16, 3)
    for place, (row, arrays) in enumerate(zip(trials, kept, strict=True)):
        axes = fig.axes[4 * (1 + place) + 1]
        np.testing.assert_allclose(axes.images[0].get_array(), arrays["heat"][1], rtol=1e-6)
        assert fig.axes[4 * (1 + place)].get_title(loc="left").startswith(row.name)
        np.testing.assert_array_equal(arrays["images"], kept[0]["images"], "all trials see the same images")


def test_weights_between_patches_and_terms_are_squares_of_the_first_seed(result) -> None:
    with mpl.rc_context(STYLE):
        weights, terms = attention_weights(result).draw(), term_maps(result).draw()
    for number, row in enumerate(result.of("trial")):
        maps = row.probe("attention_maps", 0).after.arrays["maps"]
        (picture,) = weights.axes[number].images  # one block, so one picture a trial
        np.testing.assert_allclose(picture.get_array(), maps[0].reshape(16, 16), rtol=1e-6)
        np.testing.assert_allclose(picture.get_array().sum(axis=1), 1, rtol=1e-5)
    shown = [row for row in result.of("trial") if row.name != "irpe"]
    assert len(terms.axes) == len(TERMS) * len(shown)
    for number, row in enumerate(shown):
        mean = row.probe("logit_terms", 0).after.arrays["mean"].astype(float)
        assert mean.shape == (len(TERMS), 17, 17), "with the class token"
        for place, term in enumerate(mean[:, 1:, 1:]):
            centered = [line - line.mean() for line in term]
            np.testing.assert_allclose(terms.axes[len(TERMS) * number + place].images[0].get_array(), centered)


def test_channels_from_block_to_block_are_those_of_the_first_image(result) -> None:
    with mpl.rc_context(STYLE):
        fig = by_block(result).draw()
    trials = [row for row in result.of("trial") if row.name != "irpe"]  # it has no code
    assert len(fig.axes) == 2 * 2 * len(trials), "one block: the input and what follows, of two channels"
    assert fig.axes[0].get_title(loc="left").splitlines() == [f"{trials[0].name}: position", "input"]
    assert fig.axes[1].get_title(loc="left") == "after 0"
    for number, row in enumerate(trials):
        maps = row.probe("block_channels", 0).after.arrays["maps"]
        for channel in range(2):
            for state in range(2):
                picture = fig.axes[4 * number + 2 * channel + state].images[0].get_array()
                np.testing.assert_allclose(picture, maps[state, :, :, channel], rtol=1e-6)


def test_terms_by_block_are_means_over_heads_and_seeds(tmp_path) -> None:
    arms = {name: ARMS[name] for name in ("learnable", "sinusoidal", "irpe")}
    found = Result.open(probed(tmp_path, "logit_terms", depth=2, arms=arms), "known@base")
    compute_probes(found, print, lambda: False)
    trials = [row for row in found.of("trial") if row.name != "irpe"]
    with mpl.rc_context(STYLE):
        fig = terms_by_block(found).draw()
    assert [axes.get_title(loc="left") for axes in fig.axes] == [*TERMS]
    for place, axes in enumerate(fig.axes):
        for row, line in zip(trials, axes.lines, strict=True):
            seeds = [row.probe("logit_terms", seed).after.arrays["by_depth"] for seed in (0, 1)]
            np.testing.assert_allclose(line.get_ydata(), np.mean(seeds, axis=(0, 3))[:, place])
    assert {text.get_text() for text in fig.axes[-1].texts} == {row.name for row in trials}


@pytest.fixture(scope="module")
def deep(tmp_path_factory) -> Result:
    """Two arms with more blocks than pictures, of different depths and on different images."""
    arms = {
        "eight": {"model.depth": 8},
        "twelve": {"model.depth": 12, "data.data_seed": 1},
        "again": {"model.depth": 12, "data.data_seed": 1, "optimizer.lr": 0.01},
    }
    found = Result.open(
        probed(tmp_path_factory.mktemp("deep"), "attention_maps", "block_channels", arms=arms), "known@base"
    )
    compute_probes(found, print, lambda: False)
    return found


def test_each_row_has_the_heads_of_its_own_blocks(deep) -> None:
    with mpl.rc_context(STYLE):
        weights, channels = attention_weights(deep).draw(), by_block(deep).draw()
    heads = [[axes.get_title(loc="left").splitlines()[-1:] for axes in fig.axes] for fig in (weights, channels)]
    rows = [heads[0][6 * row : 6 * row + 6] for row in range(3)]
    assert rows[0] == [[f"block {block}"] for block in (0, 1, 3, 4, 6, 7)]
    assert rows[1] == [[f"block {block}"] for block in (0, 2, 4, 7, 9, 11)]
    assert rows[2] == [["again"], [], [], [], [], []], "the same blocks are not named again"
    shown = {"eight": (0, 1, 3, 4, 6, 7), "twelve": (0, 2, 4, 7, 9, 11)}
    for number, row in enumerate(deep.of("trial")[:2]):
        maps = row.probe("attention_maps", 0).after.arrays["maps"]
        for place, block in enumerate(shown[row.name]):
            picture = weights.axes[6 * number + place].images[0].get_array()
            np.testing.assert_allclose(picture, maps[block].reshape(16, 16), rtol=1e-6)
    assert heads[1][1:7] == [[f"after {block}"] for block in (0, 1, 3, 4, 6, 7)]


def test_heat_maps_stand_below_the_images_that_they_are_of(deep) -> None:
    with mpl.rc_context(STYLE):
        fig = heat_maps(deep).draw()
    names = [axes.get_title(loc="left").splitlines()[0] for axes in fig.axes[::4]]
    assert names == ["images", "eight", "images", "twelve", "again"]
    for row, trial in ((0, 0), (2, 1)):
        images = deep.of("trial")[trial].probe("attention_maps", 0).after.arrays["images"]
        np.testing.assert_array_equal(fig.axes[4 * row].images[0].get_array(), images[0])


def test_blocks_that_are_shown_have_both_ends() -> None:
    for count in (1, 2, MOST_BLOCKS, MOST_BLOCKS + 1, 12, 24):
        blocks = spaced(count)
        assert (blocks[0], blocks[-1], len(blocks)) == (0, count - 1, min(count, MOST_BLOCKS))


def test_every_probe_has_words_and_pictures_are_in_the_order_of_the_probes() -> None:
    """The pictures name them again: the probes import torch, which a report does without."""
    assert {*WORDS} == {*PROBES}
    assert (SHAPES, PROJECTED) == (PROBED_SHAPES, PARTS)
    assert tuple(term.replace("-", "_") for term in TERMS) == PROBED_TERMS
