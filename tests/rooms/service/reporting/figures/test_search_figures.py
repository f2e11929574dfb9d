"""The figures of a search: the best so far against an independent formula, units, and their place."""

import re
from itertools import accumulate, pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from service.reporting.figures.plot import INK, MUTED, drawn, inline
from service.reporting.figures.search import axis_label, best_so_far, landscape, optimization_history, unit
from service.results import Result
from tests.rooms.service.reporting.figures.searches import ODD, search
from trainables.backbones import ViT
from trainables.encodings import IRPE, Composed, Fourier, Learnable
from trainables.recipe import Recipe


@pytest.fixture(scope="module")
def two(tmp_path_factory) -> Result:
    return search(tmp_path_factory.mktemp("two"), rivals=6)


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


def test_keys_name_what_occurs(two, calm):
    labels = [[text.get_text() for text in optimization_history(one).draw().legends[0].get_texts()]
              for one in (two, calm)]  # fmt: skip
    assert labels[1] == ["all seeds", "best so far"]
    assert labels[0] == ["all seeds", "stopped early", "diverged", "a seed failed", "failed", "best so far"]
    assert "random points" not in [text.get_text() for text in optimization_history(calm).draw().axes[0].texts]


def test_a_point_that_left_the_race_stands_at_the_mean_of_its_seeds(tmp_path):
    raced = search(tmp_path, odd={3: "raced"})
    ((x, mean),) = (tuple(point) for one in optimization_history(raced).draw().axes[0].lines
                    if one.get_marker() == "v" for point in one.get_xydata())  # fmt: skip
    (row,) = (row for row in raced.of("trial") if row.answer.raced)
    assert (x, mean, len(row.answer.values)) == (3, pytest.approx(np.mean([*row.answer.values.values()])), 2)


def test_labels_of_an_axis_do_not_run_into_each_other(two):
    fig = landscape(two).draw()
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    for axes in fig.axes:
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in axes.get_xticklabels()]
        assert len(boxes) >= 2
        assert all(left.x1 + 3 < right.x0 for left, right in pairwise(boxes))


def test_a_page_has_them_where_they_belong_and_nowhere_else(two, reported_search, reported_ablation):
    written = [{path.stem for path in one.page.parent.glob("*.svg")} for one in (reported_search, reported_ablation)]
    assert "history" in written[0]
    assert not {"landscape", "history"} & written[1]
    text = two.report().read_text()
    assert re.findall(r'<a href="#figure-(\w+)">Figure', text)[:2] == ["landscape", "history"]
    wide = inline(drawn(optimization_history(two)).svg, "")
    assert "#1d232b" not in wide, "every shade is a variable of the page, which is dark at night"
    assert "var(--ink)" in wide
    ids = re.findall(r' id="([^"]*)"', wide)
    assert all(re.fullmatch(r"[a-zA-Z][0-9a-f_]{8,}", id) for id in ids), "names that two figures could share"


def test_a_field_names_its_unit():
    for recipe, path, expected in (
        (Recipe(encoding=Fourier()), "encoding.gamma", "patches"),
        (Recipe(encoding=Fourier(coordinates="unit")), "encoding.gamma", "grid widths"),
        (Recipe(encoding=Composed((Learnable(), Fourier()))), "encoding.parts.1.gamma", "patches"),
        (Recipe(encoding=IRPE()), "encoding.index.alpha", "patches"),
        (Recipe(), "data.image_size", "pixels"),
        (Recipe(model=ViT()), "optimizer.lr", ""),
        (Recipe(), "encoding.gamma", ""),
    ):
        assert unit(recipe, path) == expected


def test_a_mixture_of_units_is_no_unit():
    recipes = [Recipe(encoding=Fourier()), Recipe(encoding=Fourier(coordinates="unit"))]
    assert axis_label("encoding.gamma", recipes[:1]) == "encoding.gamma (patches)"
    assert axis_label("encoding.gamma", recipes) == "encoding.gamma"
    assert axis_label("encoding.gamma", []) == "encoding.gamma"
