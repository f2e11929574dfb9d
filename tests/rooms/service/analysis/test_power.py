"""What seeds can tell apart, against scipy and a simulation of the very test that the tables use."""

import re

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from search_spaces.claim import AtLeast, Better
from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Search, Study
from service.analysis.multiple_testing import difference
from service.analysis.power import (
    GUESS,
    guessed_spread,
    paired_spread,
    power_sentence,
    seeds_needed,
    seeds_sentence,
    smallest_difference,
)
from service.analysis.power import tests_together as counted_together  # no test of this file
from service.analysis.statistics import Estimate, Scale, Scores
from service.analysis.study_result import StudyResult
from service.reporting.results_table import measured
from service.storage.facts import Confirms
from service.storage.history import History
from tests.rooms.by_hand import ByHand, base
from tests.rooms.service.analysis.test_statistics import drawn, scores
from trainables.recipe import Recipe

FOLDS = Estimate(3, 0.0, overlap=0.25)
FIRST = 0.05 * 3 / 4


def least(df: int, error: float, level: float) -> float:
    """The difference that a two-sided t-test at a level finds with a power of 80 %."""
    edge = stats.t.ppf(1 - level / 2, df)
    return error * brentq(lambda away: stats.nct.sf(edge, df, away) - 0.8, 0, 500)


@pytest.mark.parametrize("pairs", [3, 5, 10])
@pytest.mark.parametrize("level", [0.05, FIRST, FIRST / 10])
def test_the_smallest_difference_is_that_of_the_noncentral_t(pairs, level):
    assert smallest_difference(pairs, 0.02, alpha=level) == pytest.approx(least(pairs - 1, 0.02 / pairs**0.5, level))
    wider = 0.02 * (1 / pairs + 0.25) ** 0.5  # folds of the same images
    assert smallest_difference(pairs, 0.02, alpha=level, like=FOLDS) == pytest.approx(least(pairs - 1, wider, level))
    assert smallest_difference(2, 0.02) is None


@pytest.mark.parametrize("overlap", [0.0, 0.25])
def test_the_smallest_difference_is_found_four_times_in_five(overlap):
    """By values that correlate as Nadeau and Bengio take folds to do."""
    pairs, scale, share = 10, Scale(overlap=overlap), overlap / (1 + overlap)  # the correlation of two folds
    smallest = smallest_difference(pairs, 0.02, like=Estimate(3, 0.0, overlap=overlap))
    random = np.random.default_rng(0)
    both = share**0.5 * random.standard_normal((2000, 1)) + (1 - share) ** 0.5 * random.standard_normal((2000, pairs))
    gaps = smallest + 0.02 / (1 - share) ** 0.5 * both  # so that the spread within a study is 0.02
    other = scores(*[0.5] * pairs, scale=scale)
    found = sum(difference(scores(*(0.5 + some), scale=scale), other).p() < 0.05 for some in gaps)
    assert found / 2000 == pytest.approx(0.8, abs=0.03)


def test_the_smallest_difference_has_the_degrees_of_freedom_of_its_test():
    random = np.random.default_rng(0)
    rows = [0.8 + random.normal(0, 0.003, (10, 5)) + random.normal(0, 0.01, 5) for _ in range(2)]
    gap = difference(*(drawn(row, Scale(0.5, 0.0, 1.0, 1e-4)) for row in rows))
    assert gap.freedom < gap.n - 1
    found = smallest_difference(gap.n, gap.spread, alpha=FIRST, like=gap)
    assert found == pytest.approx(least(gap.freedom, gap.error, FIRST), rel=0.01)


def test_the_seeds_needed_are_those_of_gpowers_tables_and_have_ends():
    # G*Power 3.1: t tests, difference between two dependent means, two-sided, alpha 0.05, power 0.8
    for effect, published in ((0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10), (1.5, 6)):
        assert seeds_needed(effect, 1.0, 200) == seeds_needed(-effect * 0.02, 0.02, published) == published
        assert seeds_needed(effect, 1.0, published - 1) is None, "one fewer is too few"
    assert seeds_needed(100.0, 1.0, 9) == seeds_needed(0.1, 0.0, 9) == 3
    assert seeds_needed(0.0, 1.0, 9) is seeds_needed(0.0, 0.0, 9) is None
    needed = seeds_needed(0.05, 0.02, 99, alpha=FIRST, like=FOLDS)
    reach = [least(pairs - 1, 0.02 * (1 / pairs + 0.25) ** 0.5, FIRST) for pairs in (needed, needed - 1)]
    assert reach[0] <= 0.05 < reach[1]
    assert seeds_needed(0.02, 0.02, 99, like=FOLDS) is None, "what folds share is never averaged away"


A, ALIKE = Scores({0: 0.5, 1: 0.7, 2: 0.9}, 3), Scores({0: 0.51, 1: 0.70, 2: 0.92}, 3)
ENCODINGS = {"none": {"encoding.kind": "none"}, "peg": {"encoding.kind": "peg"}, "irpe": {"encoding.kind": "irpe"}}


def test_the_spread_is_that_of_paired_differences_that_are_asked():
    """A first arm whose seeds split says nothing of the others beside the baseline; other tasks are not paired."""
    search, plan = Search(Space({"optimizer.lr": Real(1e-4, 1e-2)})), Ablation(ENCODINGS, baseline="peg")
    assert paired_spread({"a": A, "b": ALIKE}, search) == pytest.approx(0.01)
    assert paired_spread({"a": A}, search) == pytest.approx(2**0.5 * 0.2), "as if the other trial were independent"
    two = {name: Scores({seed: one.values[seed] for seed in (1, 2)}, 2) for name, one in (("a", A), ("b", ALIKE))}
    assert paired_spread(two, search) == pytest.approx(0.02 / 2**0.5), "two seeds have a spread"
    assert paired_spread({}, search) is paired_spread({"a": Scores({0: 0.5}, 3)}, search) is None
    wild, own = Scores({0: 0.1, 1: 0.9, 2: 0.2}, 3), np.array([0.01, 0.0, 0.02])
    assert paired_spread({"none": A, "peg": A, "irpe": ALIKE}, plan) == pytest.approx((own.var(ddof=1) / 2) ** 0.5)
    pooled = (np.var([0.4, -0.2, 0.7], ddof=1) + own.var(ddof=1)) / 2
    assert paired_spread({"none": wild, "peg": A, "irpe": ALIKE}, plan) == pytest.approx(pooled**0.5)
    tasks = Ablation(axes={"encoding": ENCODINGS, "task": {"left": {}, "half": {"data.task": "absolute"}}},
                     baseline="none")  # fmt: skip
    arms = {"none, left": A, "peg, left": ALIKE, "none, half": wild, "peg, half": wild}
    assert paired_spread(arms, tasks) == pytest.approx((own.var(ddof=1) / 2) ** 0.5)


def accuracy(images, chance=0.25):
    return Scale(chance, 0.0, 1.0, 1 / images)


@pytest.mark.parametrize(
    ("pairs", "spread", "scale", "images", "tests", "look"),
    [(5, 0.01, Scale(), 0, 1, 1), (3, 0.1, accuracy(60), 60, 1, 1), (5, 0.02, accuracy(200), 200, 10, 2),
     (10, 0.05, Scale(0.0, -1 / 3, 1.0, 4 / 3 / 60), 60, 3, 1), (5, 0.02, Scale(overlap=0.25), 0, 1, 1)],
)  # fmt: skip
def test_the_sentence_names_its_numbers(pairs, spread, scale, images, tests, look):
    found = power_sentence(pairs, spread, scale, images, tests, look)
    error = spread * (1 / pairs + scale.overlap) ** 0.5
    smallest = least(pairs - 1, error, FIRST / 4 ** (look - 1) / tests)
    assert found.startswith(f"{pairs} seeds can detect a difference of {smallest:.4f} or more")
    share = smallest / (scale.high - scale.low)  # of skill as of an accuracy
    assert (f", about {share * images:.0f} of {images} test images," in found) == bool(images)
    assert (f"tested with {tests - 1} other{'s' * (tests > 2)}" if tests > 1 else "tested alone") in found
    assert found.endswith(f"(power 80 %, standard deviation of differences {spread:.4f}, as measured).")


def test_no_difference_is_named_that_the_scale_or_the_seeds_cannot_have():
    """The newcomer's study: four classes, 60 test images, and differences that deviate by 0.35."""
    assert power_sentence(3, 0.35, accuracy(60), 60) == "3 seeds cannot tell two trials apart, whatever the difference."
    assert "cannot" in power_sentence(3, 0.1, accuracy(60, chance=0.68), 60), "from 0.68 to 1 there is no room"
    assert power_sentence(2, None, Scale()) == "2 seeds can detect no difference: a test needs 3 or more."
    assert power_sentence(3, None, Scale()).endswith(f"standard deviation of differences {GUESS:.4f}, a guess).")


def edition(plan, claims=()):
    return Study(name="counted", question="?", base=base(), plan=plan, claims=claims, seeds=3).at()


def test_the_tests_that_are_made_together_are_counted():
    """The claim on two arms is also their difference, so it is one test."""
    claims = (Better("irpe", "peg"), AtLeast("none", 0.9))
    assert counted_together(edition(Ablation(ENCODINGS, "peg")), 0) == 2
    assert counted_together(edition(Ablation(ENCODINGS, "peg"), claims), 0) == 3
    assert counted_together(edition(Ablation(ENCODINGS, "peg", race=True), claims), 0) == 3
    search = edition(Search(Space({"encoding.gamma": Real(low=0.1, high=40)})))
    assert [counted_together(search, points) for points in (1, 2, 5)] == [1, 1, 10]


def test_the_guess_of_the_spread_knows_how_few_images_there_are():
    """As if two trials were right by luck on each image, at the middle between chance and a perfect score."""
    random = np.random.default_rng(0)
    one, other = random.binomial(60, 0.625, (2, 20_000)) / 60
    assert guessed_spread(accuracy(60)) == pytest.approx((one - other).std(), rel=0.02)
    assert guessed_spread(Scale(0.0, -1 / 3, 1.0, 4 / 3 / 60)) == pytest.approx(guessed_spread(accuracy(60)) * 4 / 3)
    assert guessed_spread(accuracy(10_000)) == guessed_spread(Scale(high=1.0)) == GUESS


def test_of_tasks_with_many_and_few_test_images_the_few_are_promised():
    """Two arms of 60 test images cannot be told apart as well as two of 2,000."""
    arms = {"many": {}, "few": {"data.test_size": 60}, "few and none": {"data.test_size": 60, "encoding.kind": "none"}}
    recipe = Recipe().put({"data.test_size": 2000, "encoding.kind": "learnable"})
    edition = Study(name="mixed", question="?", base=recipe, plan=Ablation(arms, baseline="few"), seeds=5).at()
    smallest = least(4, (2 * 0.75 * 0.25 / 60) ** 0.5 / 5**0.5, FIRST / 2)
    assert f"about {60 * smallest:.0f} of 60 test images" in seeds_sentence(History(edition))


def test_a_plan_and_the_page_name_one_difference_once_points_are_confirmed(tmp_path):
    """The seeds that chose the points differ less than fresh ones; `plan` took these, and promised a fifth of it."""
    plan = Search(Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}), trials=2)
    edition = Study(name="gamma", question="?", base=base(), plan=plan, seeds=3).at()
    values = {number: {"encoding.gamma": gamma} for number, gamma in enumerate((1.0, 2.0))}
    said = []
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        for role, noise in (("trial", 0.005), ("confirmation", 0.05)):
            rows = [[0.8 + noise * luck for luck in row] for row in ((1, -1, 0), (-1, 0.5, 1))]
            if role == "confirmation":
                hand.journal.write(Confirms(numbers=(1, 0)))
            hand.points(role, values, lambda number, place, known=rows: (known[number][place],) * 2)
            said.append(seeds_sentence(History.open(hand.home, edition)))
    before, after = (float(re.search(r"difference of ([\d.]+) or more", sentence)[1]) for sentence in said)
    assert after > 5 * before
    sentence, _, look = said[1].partition(" This is look ")
    assert sentence in measured(StudyResult.open(hand.home, edition.id)).note
    assert ("tested alone" in sentence, look[0]) == (True, "1"), "two points were confirmed, not five"
