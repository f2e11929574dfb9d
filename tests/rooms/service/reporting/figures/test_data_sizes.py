"""The figure of data efficiency: means, intervals, every seed, and the mean of the seeds' power laws."""

import math

import numpy as np
import pytest

from search_spaces.study import Ablation, Study
from service.analysis.format import TRIAL_COLORS
from service.reporting.figures.curves import beside, data_sizes, law_line
from service.reporting.figures.plot import Palette
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base
from tests.rooms.service.analysis.test_data_efficiency import studied

SIZES = (100, 200, 400, 800)


@pytest.fixture
def result(reported_sizes) -> Result:
    return reported_sizes.result


def test_the_line_is_the_mean_of_the_laws_that_made_the_scores(result):
    """The scores of `studied` are 1 - (0.4 + 0.01 seed) (size / 100) ** -0.9, rounded."""
    line = law_line(result.efficiency[0])
    assert (min(line), max(line)) == pytest.approx((100, 800))
    for size, score in line.items():
        assert score == pytest.approx(1 - 0.41 * (size / 100) ** -0.9, abs=2e-3)
    steps = np.diff(np.log(list(line)))
    assert steps == pytest.approx(np.full(len(steps), steps[0])), "even on the logarithmic axis"


def test_every_seed_mean_and_interval_is_drawn_near_its_size(result):
    axes = data_sizes(result).draw().axes[0]
    assert axes.get_xscale() == "log"
    assert [text.get_text() for text in axes.get_xticklabels()] == ["100", "200", "400", "800"]
    curves = result.efficiency
    for place, (curve, color) in enumerate(zip(curves, TRIAL_COLORS[:2], strict=True)):
        mine = [line for line in axes.lines if line.get_color() == color]
        factor = beside(curves, place)
        assert 0.8 < factor < 1.25
        assert not math.isclose(factor, 1)
        rows = [row for row in result.of("trial") if row.name.startswith(curve.name)]
        dots = {(x, y) for line in mine if line.get_marker() == "o" for x, y in line.get_xydata()}
        sized = list(zip(SIZES, rows, strict=True))
        assert dots == {(size * factor, value) for size, row in sized for value in row.test.values.values()}
        bars = {x: y for line in mine if line.get_marker() == "_" for x, y in line.get_xydata()}
        upright = {line.get_xdata()[0]: tuple(line.get_ydata()) for line in mine
                   if len(line.get_xdata()) == 2 and line.get_xdata()[0] == line.get_xdata()[1]}  # fmt: skip
        for size, row in sized:
            values = list(row.test.values.values())
            assert bars[size * factor] == pytest.approx(np.mean(values))
            assert upright[size * factor] == pytest.approx(row.test.interval)


def test_the_arms_of_a_curve_share_its_color_on_the_whole_page(result):
    palette = Palette.of(result)
    looks = {row.name: palette[row] for row in result.of("trial")}
    assert {look.color for name, look in looks.items() if name.startswith("fourier")} == {TRIAL_COLORS[0]}
    assert {look.color for name, look in looks.items() if name.startswith("learnable")} == {TRIAL_COLORS[1]}
    assert len(set(looks.values())) == 8, "they differ in line and marker"
    names = {text.get_text(): text.get_color() for text in data_sizes(result).draw().axes[0].texts}
    assert names.items() >= {"fourier": TRIAL_COLORS[0], "learnable": TRIAL_COLORS[1]}.items()


def by_class(root) -> Result:
    """One encoding by images of each class, two seeds of which one diverged once; and an arm that is no curve."""
    seeds = 2
    arms = {f"table {count}": {"data.samples_per_class": count} for count in (10, 20, 30, 40)}
    arms["peg"] = {"data.samples_per_class": 10, "encoding.kind": "peg"}
    values = {"data.kind": "cifar10", "data.val_size": 1000}
    study = Study(name="classes", question="?", base=base().put(values), plan=Ablation(arms, "peg"), seeds=seeds)
    with ByHand(root, study.at(), seeds=seeds) as hand:
        for number, (name, some) in enumerate(arms.items()):
            trial = hand.plan("trial", number, some, name)
            for seed in range(seeds):
                if (name, seed) == ("table 30", 1):
                    hand.diverge(trial, seed, 3)
                else:
                    hand.complete(trial, seed, 0.6 + 0.05 * number, 0.6 + 0.05 * number)
    return Result.open(Home(root), study.at().id)


def test_images_of_each_class_count(tmp_path):
    odd = by_class(tmp_path)
    (curve,) = odd.efficiency
    assert (curve.name, [*curve.scores]) == ("table", [100, 200, 300, 400])
    assert beside([curve], 0) == 1
    palette = Palette.of(odd)
    assert [palette[row].color for row in odd.of("trial")] == [TRIAL_COLORS[0]] * 4 + [TRIAL_COLORS[1]]
    axes = data_sizes(odd).draw().axes[0]
    assert [tuple(line.get_xydata()[0]) for line in axes.lines if line.get_marker() == "x"] == [(300, 0.1)]


def test_it_is_on_the_page_of_such_a_study_alone(reported_sizes, search, ablation, tmp_path):
    folder = reported_sizes.page.parent
    assert '<a href="#figure-data_sizes">Figure 1.</a>' in (folder / "report.html").read_text()
    assert data_sizes(ablation) is None
    assert data_sizes(search) is None
    assert data_sizes(studied(tmp_path, sizes=(100, 200, 400))) is None
