"""The figures of a search: the best so far, and the score over two paths, against independent formulas."""

import math
import re
from itertools import accumulate, pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgba
from scipy.interpolate import LinearNDInterpolator

from service.reporting.figures.curves import learning_curves
from service.reporting.figures.plot import INK, MUTED, drawn, inline
from service.reporting.figures.search import (
    best_so_far,
    chosen_pair,
    contour,
    landscape,
    levels,
    optimization_history,
    shade,
    surface,
    without_score,
)
from service.reporting.figures.searched import shares
from service.results import Result
from tests.rooms.service.reporting.figures.searches import ABOVE, CHOICE, GAMMA, ODD, RATE, THREE, search


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Result:
    return search(tmp_path_factory.mktemp("two"), rivals=6)


@pytest.fixture(scope="module")
def three(tmp_path_factory) -> Result:
    return search(tmp_path_factory.mktemp("three"), THREE, count=44)


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> Result:
    return search(tmp_path_factory.mktemp("calm"), count=11, odd={})


def line(axes, color: str) -> list[tuple[float, float]]:
    """The places and scores of the step line of a color."""
    (found,) = [one for one in axes.lines if one.get_drawstyle() == "steps-post" and one.get_color() == color]
    return list(zip(*found.get_data(), strict=True))


def test_the_best_so_far_is_the_running_maximum_of_whole_points(two):
    means = {}
    for row in two.of("trial"):
        if row.trial.number not in ODD:
            finals = [run.curve[8]["val/accuracy"] for run in row.runs.values()]
            means[row.trial.number] = sum(finals) / 3
    running = dict(zip(means, accumulate(means.values(), max), strict=True))
    found = best_so_far(two)
    assert {number: found[number] for number in means} == pytest.approx(running)
    first_seeds = {row.trial.number: row.validation.mean for row in two.of("trial") if row.trial.number in ODD}
    assert first_seeds[3] > found[3] == found[2], "a stopped point has no score to compare, however high it was"
    assert first_seeds[6] is None
    assert 6 not in found
    assert found[13] == max(running.values())


def test_the_history_draws_each_point_at_its_number_and_both_lines(two):
    axes = optimization_history(two).draw().axes[0]
    wanted = best_so_far(two)
    assert line(axes, INK)[:-1] == list(wanted.items())
    assert line(axes, INK)[-1] == (13.5, wanted[13])
    rivals = [np.mean(list(row.validation.values.values())) for row in two.of("rival")]
    assert [y for _, y in line(axes, MUTED)][:-1] == pytest.approx(list(accumulate(rivals, max)))
    marks = {
        shape: sorted(tuple(point) for one in axes.lines if one.get_marker() == shape for point in one.get_xydata())
        for shape in "ovx|"
    }
    rows = {row.trial.number: row.validation.mean for row in two.of("trial")}
    whole = [(number, mean) for number, mean in rows.items() if number not in (3, 5, 6)]
    assert dict(marks["o"]) == pytest.approx(dict(whole))
    assert marks["v"] == [(3, rows[3])]
    assert marks["x"] == [(5, 0.5)]
    assert marks["|"] == [(6, 0)]
    assert [row.trial.number for row in without_score(two)] == [6]


def test_captions_and_keys_name_what_occurs(two, calm):
    words = ("triangle", "cross", "hollow", "upright mark", "random points")
    for word in words:
        assert word in optimization_history(two).caption, word
        assert word not in optimization_history(calm).caption, word
    labels = [[text.get_text() for text in optimization_history(one).draw().legends[0].get_texts()]
              for one in (two, calm)]  # fmt: skip
    assert labels[1] == ["all seeds", "best so far"]
    assert labels[0] == ["all seeds", "stopped early", "diverged", "a seed failed", "failed", "best so far"]
    ends = [text.get_text() for text in optimization_history(calm).draw().axes[0].texts]
    assert "random points" not in ends
    (best,) = calm.winners
    assert f"#{best.trial.number} is the best." in optimization_history(calm).caption
    for word in ("triangle", "cross", "hollow"):
        assert word in contour(two).caption, word
        assert word not in contour(calm).caption, word
    assert "or diverged, it is interpolated linearly" in contour(two).caption
    assert "all seeds, it is interpolated linearly" in contour(calm).caption


def test_a_point_that_left_the_race_is_not_said_to_be_stopped_in_its_first_seed(two, tmp_path):
    rung, raced = "a point's first seed where it was stopped", "the mean of the seeds of a point that left the race"
    curve_rung, curve_raced = "was stopped there", "left the race after the seeds of its line"
    found = {
        f"{rung}.": (two, f"A triangle {curve_rung}."),
        f"{raced}.": (search(tmp_path / "raced", odd={3: "raced"}), f"A triangle {curve_raced}."),
        f"{rung} or {raced}.": (
            search(tmp_path / "both", odd={3: "raced", 4: "stopped"}),
            f"A triangle {curve_rung} or {curve_raced}.",
        ),
    }
    for words, (result, curve_words) in found.items():
        for figure in (landscape, contour, optimization_history):
            assert f"A triangle is {words}" in figure(result).caption
        assert curve_words in learning_curves(result).caption
    ((place, mean),) = (tuple(point) for one in optimization_history(found[f"{raced}."][0]).draw().axes[0].lines
                        if one.get_marker() == "v" for point in one.get_xydata())  # fmt: skip
    (row,) = (row for row in found[f"{raced}."][0].of("trial") if row.answer.raced)
    assert (place, mean) == (3, pytest.approx(np.mean([*row.answer.values.values()])))
    assert len(row.answer.values) == 2


def test_the_surface_is_scipys_linear_interpolation_on_log_axes(two):
    rows = [row for row in two.of("trial") if row.answer.status in ("completed", "diverged")]
    places = np.array([[math.log10(row.value(GAMMA)), math.log10(row.value(RATE))] for row in rows])
    span = np.array([[-1.0, -4.0], [math.log10(40), -1.0]])
    unit = (places - span[0]) / (span[1] - span[0])
    theirs = LinearNDInterpolator(unit, [row.validation.mean for row in rows])
    found = surface(two, chosen_pair(two))
    x, y = np.meshgrid(np.linspace(0, 1, 41), np.linspace(0, 1, 41))
    ours, wanted = found.at(x, y), theirs(x, y)
    assert np.array_equal(np.ma.getmaskarray(ours), np.isnan(wanted)), "nothing is known outside of the points"
    assert 100 < np.isfinite(wanted).sum() < 41 * 41
    np.testing.assert_allclose(ours.compressed(), wanted[~np.isnan(wanted)], atol=1e-9)
    at_points = found.at(unit[:, 0] * (1 - 1e-9), unit[:, 1])
    known = ~np.ma.getmaskarray(at_points)
    np.testing.assert_allclose(at_points[known], np.array([row.validation.mean for row in rows])[known], atol=1e-6)


def test_a_path_that_is_a_factor_of_another_lies_on_its_own_log_axis(tmp_path):
    result = search(tmp_path, ABOVE, count=12, odd={})
    first, second = chosen_pair(result)
    values = np.array([[first.value(row), second.value(row)] for row in result.of("trial")])
    assert (values[:, 1] / values[:, 0] > 2).all()
    unit = (np.log(values) - np.log([1e-4, 2e-4])) / np.log([1e3, 0.8 / 2e-4])
    theirs = LinearNDInterpolator(unit, [row.validation.mean for row in result.of("trial")])
    middle = unit.mean(axis=0)
    assert float(surface(result, (first, second)).at(*middle)) == pytest.approx(theirs(*middle))
    axes = contour(result).draw().axes[0]
    low, high = axes.get_ylim()
    assert axes.get_yscale() == "log"
    assert low < 2e-4 < 0.8 < high


def test_both_axes_have_the_scale_and_the_domain_of_their_path(two):
    axes = contour(two).draw().axes[0]
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    for (low, high), (first, last) in ((axes.get_xlim(), (0.1, 40)), (axes.get_ylim(), (1e-4, 0.1))):
        assert low < first < last < high
        assert high / low < 2 * last / first
    assert axes.get_xlabel() == "encoding.gamma (patches)"
    assert axes.get_ylabel() == RATE


def test_labels_of_an_axis_do_not_run_into_each_other(two):
    for plot in (landscape(two), contour(two)):
        fig = plot.draw()
        canvas = FigureCanvasAgg(fig)
        canvas.draw()
        for axes in fig.axes:
            boxes = [text.get_window_extent(canvas.get_renderer()) for text in axes.get_xticklabels()]
            assert len(boxes) >= 2
            assert all(left.x1 + 3 < right.x0 for left, right in pairwise(boxes)), plot.name


def test_a_shade_is_the_step_of_the_score(two, three):
    steps = levels(two, chosen_pair(two))
    means = [row.validation.mean for row in two.of("trial") if row.answer.status == "completed"]
    assert steps[0] <= min(means)
    assert max(means) <= steps[-1]
    shades = [shade((low + high) / 2, steps) for low, high in pairwise(steps)]
    assert len(set(shades)) == len(steps) - 1
    assert [alpha for *_, alpha in shades] == sorted(alpha for *_, alpha in shades)
    axes = contour(three).draw().axes[0]
    filled = {place: one.get_markerfacecolor() for one in axes.lines if one.get_markersize() == 7.5
              for place in zip(one.get_xdata(), one.get_ydata(), strict=True)}  # fmt: skip
    first, second = chosen_pair(three)
    for row in three.of("trial"):
        if row.answer.status == "completed":
            place = (first.value(row), second.value(row))
            assert filled[place] == shade(row.validation.mean, levels(three, (first, second)))
    assert all(color[:3] == to_rgba(INK)[:3] for color in filled.values() if not isinstance(color, str))


def test_the_two_most_important_of_three_numbers_are_shown(three):
    known = {panel.path: share for panel, share in shares(three).items()}
    assert set(known) == set(THREE)
    assert known[GAMMA] > known[RATE]
    pair = chosen_pair(three)
    assert [panel.path for panel in pair] == sorted(known, key=lambda path: -known[path])[:2]
    assert surface(three, pair) is None
    caption = contour(three).caption
    said = " and ".join(f"{known[panel.path]:.2f}" for panel in pair)
    assert f"These two numbers matter most (importance {said})" in caption
    (other,) = set(THREE) - {panel.path for panel in pair}
    assert f"Points differ in {other}, too, so nothing is drawn between them." in caption
    assert "interpolated" not in caption


def test_few_points_or_a_third_path_have_no_surface(tmp_path):
    few = search(tmp_path / "few", count=9, odd={})
    assert surface(few, chosen_pair(few)) is None
    assert "interpolated" not in contour(few).caption
    choice = search(tmp_path / "choice", CHOICE, count=12, odd={})
    assert [panel.path for panel in chosen_pair(choice)] == [GAMMA, RATE]
    assert surface(choice, chosen_pair(choice)) is None
    assert "Points differ in model.pool, too" in contour(choice).caption
    assert "matter most" not in contour(choice).caption
    assert contour(search(tmp_path / "three", count=3, odd={})) is None
    assert contour(search(tmp_path / "unknown", THREE, count=39, odd={})) is None, "nobody knows which two matter"


def test_the_best_has_the_heavy_ring_in_its_own_color(tmp_path):
    result = search(tmp_path, count=12, odd={}, confirm=(7, 2, 0))
    (best,) = result.winners
    first, second = chosen_pair(result)
    axes = contour(result).draw().axes[0]
    (ring,) = [one for one in axes.lines if one.get_markersize() == 13]
    assert (ring.get_xdata()[0], ring.get_ydata()[0]) == (first.value(best), second.value(best))
    assert [text.get_text() for text in axes.texts] == [f"#{best.trial.number}"]
    assert f"#{best.trial.number} is the best and has the heavy ring." in contour(result).caption
    assert f"#{best.trial.number} is the best." in optimization_history(result).caption


def test_a_page_has_them_where_they_belong_and_nowhere_else(two, reported_search, reported_ablation):
    """They are drawn twice and are equal files, and they change color in the dark."""
    written = [{path.stem for path in one.page.parent.glob("*.svg")} for one in (reported_search, reported_ablation)]
    assert "contour" not in written[0], "one path has no plane"
    assert "history" in written[0]
    assert not {"landscape", "contour", "history"} & written[1]
    folder = two.report().parent
    text = (folder / "report.html").read_text()
    assert re.findall(r'<a href="#figure-(\w+)">Figure', text)[:3] == ["landscape", "contour", "history"]
    for figure in (drawn(contour(two)), drawn(optimization_history(two))):
        assert (folder / f"{figure.name}.svg").read_text() == figure.svg
        assert (folder / f"{figure.name}.pdf").read_bytes() == figure.pdf
        assert inline(figure.svg, "").partition("<defs>")[2] in text
        assert f'id="figure-{figure.name}"' in text
        assert f'href="{figure.name}.svg"' in text
        wide = inline(figure.svg, figure.caption)
        assert "#1d232b" not in wide, "every shade is a variable of the page"
        assert "var(--ink)" in wide
        ids = re.findall(r' id="([^"]*)"', wide)
        assert all(re.fullmatch(r"[a-zA-Z][0-9a-f_]{8,}", one) for one in ids), "names that two figures could share"
