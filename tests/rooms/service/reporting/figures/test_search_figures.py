"""The figures of a search: the best so far against an independent formula, captions, and their place."""

import re
from itertools import accumulate, pairwise

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from service.reporting.figures.curves import learning_curves
from service.reporting.figures.plot import INK, MUTED, drawn, inline
from service.reporting.figures.search import best_so_far, landscape, optimization_history, without_score
from service.results import Result
from tests.rooms.service.reporting.figures.searches import ODD, search


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
        for figure in (landscape, optimization_history):
            assert f"A triangle is {words}" in figure(result).caption
        assert curve_words in learning_curves(result).caption
    ((place, mean),) = (tuple(point) for one in optimization_history(found[f"{raced}."][0]).draw().axes[0].lines
                        if one.get_marker() == "v" for point in one.get_xydata())  # fmt: skip
    (row,) = (row for row in found[f"{raced}."][0].of("trial") if row.answer.raced)
    assert (place, mean) == (3, pytest.approx(np.mean([*row.answer.values.values()])))
    assert len(row.answer.values) == 2


def test_labels_of_an_axis_do_not_run_into_each_other(two):
    fig = landscape(two).draw()
    canvas = FigureCanvasAgg(fig)
    canvas.draw()
    for axes in fig.axes:
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in axes.get_xticklabels()]
        assert len(boxes) >= 2
        assert all(left.x1 + 3 < right.x0 for left, right in pairwise(boxes))


def test_a_page_has_them_where_they_belong_and_nowhere_else(two, reported_search, reported_ablation):
    """They are drawn twice and are equal files, and they change color in the dark."""
    written = [{path.stem for path in one.page.parent.glob("*.svg")} for one in (reported_search, reported_ablation)]
    assert "history" in written[0]
    assert not {"landscape", "history"} & written[1]
    folder = two.report().parent
    text = (folder / "report.html").read_text()
    assert re.findall(r'<a href="#figure-(\w+)">Figure', text)[:2] == ["landscape", "history"]
    for figure in (drawn(landscape(two)), drawn(optimization_history(two))):
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
