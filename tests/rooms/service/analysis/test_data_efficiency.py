"""Power laws of scores over the number of training images, against laws that are known and a search by force."""

import csv
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import curve_fit

from search_spaces.study import Ablation, Study
from service.analysis import data_efficiency
from service.analysis.data_efficiency import Curve, Needed, PowerLaw, fit
from service.analysis.scales import Scale
from service.analysis.statistics import Scores
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base

pytestmark = pytest.mark.usefixtures("words_only")

SIZES = (50, 100, 200, 400, 800, 1600)


def test_a_law_is_found_again():
    for limit, fall, exponent in ((0.99, 0.4, 0.7), (0.9, 0.1, 0.2), (1.0, 0.3, 1.5)):
        law = PowerLaw(limit, fall, exponent, SIZES[0], 0.0)
        found = fit(SIZES, [law.at(size) for size in SIZES], ceiling=1.0)
        assert (found.limit, found.fall, found.exponent) == pytest.approx((limit, fall, exponent), rel=1e-4)
        assert found.error < 1e-7
        assert found.size_for(law.at(300)) == pytest.approx(300, rel=1e-4)
        assert law.at(100) == pytest.approx(limit - fall * 50**exponent * 100**-exponent)


def test_with_noise_it_is_scipys_least_squares():
    random = np.random.default_rng(0)
    for _ in range(10):
        scores = [0.95 - 0.4 * (size / 50) ** -0.6 + random.normal(0, 0.01) for size in SIZES]
        found = fit(SIZES, scores)
        ratios = np.array(SIZES) / 50
        theirs, _ = curve_fit(lambda x, a, b, c: a - b * x**-c, ratios, scores, p0=(0.9, 0.4, 0.5), maxfev=20000)
        error = math.sqrt(np.mean((theirs[0] - theirs[1] * ratios ** -theirs[2] - scores) ** 2))
        assert found.error <= error + 1e-9
        assert (found.limit, found.fall, found.exponent) == pytest.approx(theirs, rel=1e-3)


def test_the_limit_is_no_more_than_a_perfect_score():
    rising = [0.5 + 0.1 * place for place in range(6)]
    found = fit(SIZES, rising, ceiling=1.0)
    assert found.limit == 1.0
    grid = [
        (math.sqrt(np.mean((1 - fall * (np.array(SIZES) / 50) ** -c - rising) ** 2)), fall, c)
        for fall in np.linspace(0.3, 0.8, 251)
        for c in np.linspace(0.05, 1.5, 291)
    ]
    assert found.error <= min(grid)[0] + 1e-9
    assert found.exponent == pytest.approx(min(grid)[2], abs=0.02)


def test_scores_that_do_not_rise_are_level():
    for scores in ([0.5] * 6, [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]):
        found = fit(SIZES, scores)
        assert (found.fall, found.limit) == (0.0, pytest.approx(np.mean(scores)))
        assert found.size_for(0.3) == 0.0
        assert found.size_for(0.95) == math.inf


def curve(*falls: float) -> Curve:
    """Seeds that differ in how far they are below the limit of 1."""
    scale = Scale(0.5, 0.0, 1.0)
    return Curve(
        "fourier",
        {
            size: Scores({seed: 1 - fall * (size / 50) ** -0.8 for seed, fall in enumerate(falls)}, len(falls), scale)
            for size in SIZES
        },
    )


def test_the_images_that_a_level_needs_are_averaged_as_logarithms():
    falls = (0.3, 0.35, 0.4)
    needed = curve(*falls).needed(0.9)
    by_hand = [50 * (fall / 0.05) ** (1 / 0.8) for fall in falls]
    assert needed.sizes == pytest.approx(by_hand, rel=1e-4)
    assert math.exp(needed.estimate.mean) == pytest.approx(stats.gmean(by_hand), rel=1e-4)
    theirs = stats.t.interval(0.95, 2, np.mean(np.log(by_hand)), stats.sem(np.log(by_hand)))
    assert needed.estimate.interval() == pytest.approx(theirs, rel=1e-3)


def test_a_seed_that_diverged_has_no_law():
    """Its chance at one size is no point of a curve: the limit would be 0.9 for 0.98."""
    whole = curve(0.3, 0.35, 0.4)
    largest = whole.scores[SIZES[-1]]
    fallen = replace(largest, values={**largest.values, 1: 0.5}, diverged=frozenset({1}))
    found = Curve("fourier", {**whole.scores, SIZES[-1]: fallen})
    assert [*found.laws] == [0, 2]
    assert found.laws[0] == whole.laws[0]


def test_a_level_beyond_what_was_tried_is_not_guessed():
    slow = Curve("slow", {size: Scores({0: 1 - 0.45 * (size / 50) ** -0.1}, 1, Scale(0.5, 0, 1)) for size in SIZES})
    assert (slow.needed(0.9).beyond, slow.needed(0.9).estimate) == (1, None)
    quick = curve(0.01, 0.3)
    assert (quick.needed(0.9).below, quick.needed(0.9).estimate) == (1, None)


def test_the_ends_of_what_was_tried_belong_to_it():
    needed = Needed((50.0, 1600.0), 50, 1600)
    assert (needed.below, needed.beyond) == (0, 0)
    assert needed.estimate.mean == pytest.approx(math.log(50 * 1600) / 2)
    assert PowerLaw(0.9, 0.4, 0.7, 50, 0.0).size_for(0.9) == math.inf, "the limit itself is never reached"


def studied(root, sizes=(100, 200, 400, 800), odd: dict | None = None, fallen: tuple[str, int] | None = None) -> Result:
    """Two encodings over some sizes, of three seeds. `fallen`: the arm and the seed that diverged."""
    arms = {
        f"{kind}, {size}": {"encoding.kind": kind, "data.train_size": size}
        for kind in ("fourier", "learnable")
        for size in sizes
    } | (odd or {})
    study = Study(name="sizes", question="How many images?", base=base(), plan=Ablation(arms, f"learnable, {sizes[0]}"))
    edition = study.at()
    with ByHand(root, edition) as hand:
        for trial, seed in hand.runs(arms, 3):
            exponent = 0.9 if "fourier" in trial.name else 0.2
            score = round(1 - (0.4 + 0.01 * seed) * (trial.recipe.data.train_size / 100) ** -exponent, 4)
            if (trial.name, seed) == fallen:
                hand.diverge(trial, seed, 2)
            else:
                hand.complete(trial, seed, score, score)
    return Result.open(Home(root), edition.id)


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Result:
    result = studied(tmp_path_factory.mktemp("whole"))
    result.report()
    return result


def text_of(result: Result) -> str:
    return (result.home.study(result.edition.id).report / "report.html").read_text()


def test_trials_that_differ_in_size_alone_are_a_curve(whole):
    result = whole
    assert [(one.name, [*one.scores]) for one in result.efficiency] == [
        ("fourier", [100, 200, 400, 800]),
        ("learnable", [100, 200, 400, 800]),
    ]
    text = text_of(result)
    assert "How the test accuracy grows with the number of training images" in text
    fourier, _ = result.efficiency
    assert fourier.over_seeds("exponent").mean == pytest.approx(0.9, abs=0.02)
    folder = result.home.study("sizes@base").report
    with (folder / "table-efficiency.csv").open(newline="") as file:
        rows = {row[0]: row[1:] for row in csv.reader(file) if row[1] == "100 to 800"}
    assert set(rows) == {"fourier", "learnable"}
    middle = stats.gmean([100 * ((0.4 + 0.01 * seed) / 0.25) ** (1 / 0.9) for seed in range(3)])
    assert f"{middle:.0f}" in rows["fourier"]
    assert any("over 800" in cell for cell in rows["learnable"])
    assert (folder / "table-efficiency.tex").exists()


def test_a_diverged_seed_has_no_law(tmp_path):
    fallen = studied(tmp_path, fallen=("fourier, 800", 1))
    assert fallen.efficiency[0].over_seeds("limit").n == 2


def test_three_sizes_or_doubles_are_no_curve(tmp_path):
    assert studied(tmp_path / "few", sizes=(100, 200, 400)).efficiency == []
    odd = {"longer": {"encoding.kind": "fourier", "data.train_size": 100, "optimizer.epochs": 9}}
    assert [one.name for one in studied(tmp_path / "odd", odd=odd).efficiency] == ["learnable"]


def test_a_curve_is_called_by_what_its_trials_share():
    def named(*names: str) -> list[str]:
        return data_efficiency._names([[Named(f"{name.format(size)}") for size in (50, 100)] for name in names])

    assert named("fourier, {}", "learnable sinusoidal, {}") == ["fourier", "learnable sinusoidal"]
    assert named("fourier {}", "none {}") == ["fourier", "none"]
    assert named("fourier, {}, mean", "fourier, {}, token") == ["fourier, mean", "fourier, token"]
    assert named("{}, fourier", "{}, none") == ["fourier", "none"]
    assert named("a{}", "b{}") == ["kind=a", "kind=b"], "nothing is shared"
    assert named("a {}", "a {}") == ["kind=a", "kind=a"]


class Named:
    """A trial with a name alone, whose encoding is its first letter."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.trial = SimpleNamespace(values={"encoding.kind": name[:1], "data.train_size": 50})
