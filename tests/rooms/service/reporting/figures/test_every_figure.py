"""What a figure shows is what the analysis says."""

import math
import re

import pytest
from matplotlib.collections import LineCollection
from matplotlib.colors import to_hex

from search_spaces.space import Above, Choice, Integer, Real, Space, Subset
from search_spaces.study import Ablation, Search, Study
from service.analysis.format import TRIAL_COLORS
from service.analysis.multiple_testing import difference
from service.reporting.figures.curves import curve_lines, learning_curves
from service.reporting.figures.plot import GRAY, WIDTH_IN, Palette, drawn, inline, one_panel
from service.reporting.figures.rows import claimed, cost, dots, draw_seeds, forest, to_baseline
from service.reporting.figures.search import landscape, panels
from service.reporting.page import FIGURES
from service.results import Result
from service.storage.facts import Confirms
from service.storage.home import Home
from tests.rooms.by_hand import ARMS, ByHand, base
from trainables.recipe.cost import estimate_cost


def plain(root, seeds=3, **arms) -> Result:
    """An ablation, or without arms a search over gamma that is confirmed, in which nothing odd happens."""
    plan = Ablation(arms, next(iter(arms))) if arms else Search(space=Space({"encoding.gamma": Real(low=1, high=9)}))
    edition = Study(name="plain", question="?", base=base(), plan=plan, seeds=seeds).at()
    with ByHand(root, edition, seeds=seeds, trials=None if arms else 3) as hand:
        values = arms or {"": {"encoding.gamma": 2.0}, "b": {"encoding.gamma": 4.0}, "c": {"encoding.gamma": 8.0}}
        for number, (name, some) in enumerate(values.items()):
            trial = hand.plan("trial", number, some, name if arms else "")
            for seed in range(seeds):
                hand.complete(trial, seed, 0.7 + 0.05 * number + 0.01 * seed, 0.7 + 0.05 * number + 0.01 * seed)
        if not arms:
            hand.journal.write(Confirms(numbers=(2,)))
            trial = hand.plan("confirmation", 2, {"encoding.gamma": 8.0})
            for seed in trial.seeds(seeds):
                hand.complete(trial, seed, 0.8, 0.8 + 0.001 * (seed - 1000))
    return Result.open(Home(root), edition.id)


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> Result:
    return plain(tmp_path_factory.mktemp("calm"))


def texts(fig) -> list[str]:
    """Every text of a figure, ticks left out."""
    found = [text.get_text() for ax in fig.axes for text in ax.texts]
    return found + [text.get_text() for legend in fig.legends for text in legend.get_texts()]


def marks(axes, marker: str) -> list[tuple[float, float]]:
    lines = [line for line in axes.lines if line.get_marker() == marker]
    return [(float(x), float(y)) for line in lines for x, y in zip(*line.get_data(), strict=True)]


def test_each_is_an_svg_and_a_pdf(reported_search, reported_ablation, reported_sides):
    """Each is drawn again, for its page was drawn when the page was written."""
    seen = set()
    for one in (reported_search, reported_ablation, reported_sides):
        page = one.page.read_text()
        for kind in FIGURES:
            plot = kind(one.result)
            if plot is None:
                continue
            seen.add(kind)
            found = drawn(plot)
            assert found.svg == one.page.with_name(f"{plot.name}.svg").read_text(), "equal figures are equal files"
            assert found.pdf == one.page.with_name(f"{plot.name}.pdf").read_bytes(), "equal figures are equal files"
            assert inline(found.svg, "").partition("<defs>")[2] in page, "equal figures are equal files"
            assert found.pdf.startswith(b"%PDF-")
            assert found.pdf.rstrip().endswith(b"%%EOF")
            assert float(re.search(r'width="([\d.]+)pt"', found.svg)[1]) == pytest.approx(72 * WIDTH_IN)
            assert "\n" not in found.caption
            assert found.caption.endswith(".")
    rare = {"by_class", "length_curves", "data_sizes", "cost"}
    assert {kind.__name__ for kind in {*FIGURES} - seen} == rare


def test_a_page_recolors_a_figure_and_escapes_its_name(ablation):
    svg = drawn(dots(ablation)).svg
    page = inline(svg, 'of "none" & <b>')
    assert 'aria-label="of &quot;none&quot; &amp; &lt;b&gt;"' in page
    assert TRIAL_COLORS[0] in svg
    assert not any(color in page for color in TRIAL_COLORS)
    assert "var(--series-0)" in page


def test_dots_are_the_means_and_the_seeds(ablation):
    fig = dots(ablation).draw()
    rows = sorted(ablation.of("trial"), key=lambda row: -row.test.mean)
    (axes,) = fig.axes
    big = [(x, y) for line in axes.lines if line.get_markersize() == 6.5 for x, y in zip(*line.get_data(), strict=True)]
    assert big == [(row.test.mean, -place) for place, row in enumerate(rows)]
    small = [x for line in axes.lines if line.get_markersize() == 3 for x in line.get_xdata()]
    whole = [value for row in rows for seed, value in row.test.values.items() if seed not in row.test.diverged]
    assert sorted(small) == sorted(whole), "every seed is a dot"
    assert [x for x, _ in marks(axes, "x")] == [0.5], "the diverged seed is a cross at chance"
    bold = [tick.get_text() for tick in axes.get_yticklabels() if tick.get_fontweight() == "bold"]
    assert bold == [row.name for row in ablation.winners]


def test_equal_seeds_are_stacked():
    _, axes = one_panel(2)
    draw_seeds(axes, 0, {0: 0.5, 1: 0.5, 2: 0.5, 3: 0.9}, {1}, TRIAL_COLORS[0])
    assert len({y for _, y in marks(axes, "o") + marks(axes, "x") if y}) == 3, "the fourth stands alone"


def test_differences_agree_with_an_independent_formula(ablation):
    pairs = {pair.name: pair for pair in to_baseline(ablation)}
    assert set(pairs) == set(ARMS) - {"none"}
    peg, none = ablation.named["peg"].test.values, ablation.named["none"].test.values
    gaps = [peg[seed] - none[seed] for seed in range(5)]
    assert pairs["peg"].mean == pytest.approx(sum(gaps) / 5)
    assert pairs["peg"].seeds == pytest.approx(dict(enumerate(gaps)))
    assert len(pairs["relative bias"].seeds) == 4, "a seed that failed has no pair"
    assert pairs["learnable"].diverged == {2}
    axes = forest(ablation).draw().axes[0]
    order = sorted(pairs.values(), key=lambda pair: -pair.mean)
    big = [x for line in axes.lines if line.get_markersize() == 6.5 for x in line.get_xdata()]
    assert big[:5] == [pair.mean for pair in order]


def test_a_claims_pair_has_the_interval_of_its_verdict_and_its_margin(ablation):
    better, equal = claimed(ablation)
    verdicts = [verdict for verdict in ablation.claims if verdict.claim.kind in ("better", "equivalent")]
    assert [pair.interval for pair in (better, equal)] == [verdict.interval for verdict in verdicts]
    gap = difference(ablation.scores["fourier"], ablation.scores["peg"])
    assert (equal.mean, equal.margin, equal.both) == (gap.mean, 0.01, True)
    axes = forest(ablation).draw().axes[0]
    assert {(-0.01, -0.01), (0.01, 0.01)} <= {tuple(line.get_xdata()) for line in axes.lines}


def test_the_best_is_named_once(calm):
    assert forest(calm) is None, "a search without claims compares nothing"
    fig = landscape(calm).draw()
    assert texts(fig).count("#2") == 1
    points = [(row.value("encoding.gamma"), pytest.approx(row.validation.mean)) for row in calm.of("trial")]
    assert sorted(marks(fig.axes[0], "o"))[:2] == points[:2]


SIX = {
    "encoding.kind": Choice(("fourier", "irpe", "peg", "relative")),
    "optimizer.lr": Real(low=1e-4, high=0.1, log=True),
    "model.depth": Integer(low=2, high=5),
    "optimizer.weight_decay": Above("optimizer.lr", Real(low=2.0, high=3.0)),
}
GIVEN = {
    "encoding.kind": {
        "fourier": {"encoding.gamma": Real(low=0.1, high=40.0, log=True)},
        "irpe": {"encoding.shared": Choice((False, True))},
        "peg": {"encoding.places": Subset((-1, 0))},
    }
}  # fmt: skip
POINTS = (
    {"encoding.kind": "fourier", "encoding.gamma": 1.5, "optimizer.lr": 0.001},
    {"encoding.kind": "irpe", "encoding.shared": True, "optimizer.lr": 0.003},
    {"encoding.kind": "peg", "encoding.places": [-1, 0], "optimizer.lr": 0.01},
    {"encoding.kind": "relative", "optimizer.lr": 0.02},
)


def six(root) -> Result:
    plan = Search(space=Space(SIX, GIVEN), trials=4)
    edition = Study(name="six", question="?", base=base(), plan=plan, seeds=1).at()
    with ByHand(root, edition, seeds=1, trials=4) as hand:
        for number, values in enumerate(POINTS):
            more = {"model.depth": 2 + number, "optimizer.weight_decay": 2.5 * values["optimizer.lr"]}
            hand.complete(hand.plan("trial", number, values | more), 0, 0.6 + number / 10, 0.6)
    return Result.open(Home(root), edition.id)


@pytest.mark.filterwarnings("error::UserWarning")
def test_a_panel_a_path_with_its_own_points(tmp_path):
    result = six(tmp_path)
    by_path = [panel.path for panel in panels(result.edition.study.plan.space)]
    fig = landscape(result).draw()
    drawn(landscape(result))
    assert len(fig.axes) == 7
    found = dict(zip(by_path, fig.axes, strict=True))
    lows = {path: axes.get_xlim() for path, axes in found.items()}
    for path, (low, high) in {
        "encoding.gamma": (0.1, 40), "optimizer.lr": (1e-4, 0.1), "model.depth": (2, 5), "encoding.shared": (0, 1),
        "optimizer.weight_decay": (2e-4, 0.3), "encoding.places": (0, 2), "encoding.kind": (0, 3),
    }.items():  # fmt: skip
        assert lows[path][0] <= low < high <= lows[path][1], path
    assert [tick.get_text() for tick in found["encoding.kind"].get_xticklabels()] == [*SIX["encoding.kind"].options]
    assert [x for x, _ in marks(found["encoding.gamma"], "o")] == [1.5], "only where gamma was searched"
    assert [x for x, _ in marks(found["encoding.shared"], "o")] == [1.0], "relative has it, too, unsearched"
    assert [x for x, _ in marks(found["encoding.places"], "o")] == [2.0], "how many"
    assert sorted(x for x, _ in marks(found["model.depth"], "o")) == [2, 3, 4, 5]
    assert sum(text == "#3" for text in texts(fig)) == 1
    assert found["encoding.gamma"].get_xlabel() == "encoding.gamma (patches)\nif encoding.kind is fourier"


def test_an_arm_has_one_color_in_every_figure(ablation, tmp_path):
    many = plain(tmp_path, seeds=1, **{f"arm {number}": {"encoding.gamma": 1.0 + number} for number in range(11)})
    assert len({Palette.of(many)[row] for row in many.of("trial")}) == 11, "more than colors differ in line and marker"
    palette = Palette.of(ablation)
    wanted = {row.name: palette[row].color for row in ablation.of("trial")}
    assert list(wanted.values()) == list(TRIAL_COLORS[:6]), "the best has no color of its own"
    assert {line.name: line.look.color for line in curve_lines(ablation)} == wanted
    assert {pair.name: pair.look.color for pair in to_baseline(ablation)}.items() <= wanted.items()
    fig = learning_curves(ablation).draw()
    labels = {text.get_text(): to_hex(text.get_color()) for text in fig.axes[-1].texts}
    assert labels.items() >= wanted.items()


def test_curves_show_the_confirmation_and_gray_points(search):
    lines = curve_lines(search)
    assert {line.name for line in lines if line.name} == {"#0", "#3", "#9"}
    gray = [line for line in lines if not line.name]
    assert len(gray) == 10
    assert all(line.look == GRAY for line in gray)
    axes = learning_curves(search).draw().axes[0]
    (collection,) = [one for one in axes.collections if type(one) is LineCollection]
    assert len(collection.get_segments()) == 10
    ends = {line.name: line.values[8] for line in lines if line.name}
    for row in search.confirmed:
        assert math.isclose(sum(ends[f"#{row.trial.number}"]) / 3, row.validation.mean)


def test_cost_is_drawn_where_trials_differ_in_it(search, ablation, tmp_path):
    assert cost(search) is None, "all points take as long and have as many parameters"
    assert cost(ablation) is None, "the parameters of encodings differ by 8 %"
    result = plain(tmp_path, small={"model.embed_dim": 32}, large={"model.embed_dim": 128})
    fig = cost(result).draw()
    assert [axes.get_xlabel() for axes in fig.axes] == ["parameters"], "all runs took 12 s"
    wanted = {(float(estimate_cost(row.recipe).parameters), row.test.mean) for row in result.of("trial")}
    assert set(marks(fig.axes[0], "o")) == wanted


class Timed(ByHand):
    """Epochs of 2 or 1 seconds; in the last seed they take ten times as long."""

    def curve(self, trial, seed, *args):
        epoch_s = (2.0 if trial.name == "slow" else 1.0) * (10 if seed == 2 else 1)
        found = super().curve(trial, seed, *args)
        return [one.model_copy(update={"values": one.values | {"time/epoch_s": epoch_s}}) for one in found]


def test_a_time_is_the_median_of_the_runs(tmp_path):
    arms = {"slow": {"encoding.gamma": 1.0}, "fast": {"encoding.gamma": 2.0}}
    edition = Study(name="times", question="?", base=base(), plan=Ablation(arms, "slow")).at()
    with Timed(tmp_path, edition) as hand:
        for trial, seed in hand.runs(arms, 3):
            hand.complete(trial, seed, 0.9, 0.9)
    plot = cost(Result.open(Home(tmp_path), edition.id))
    (axes,) = plot.draw().axes
    assert axes.get_xlabel() == "training time of a run (s)"
    assert {line.get_xdata()[0] for line in axes.lines if line.get_markersize() == 6} == {8.0, 16.0}, (
        "eight epochs of the run in the middle"
    )
