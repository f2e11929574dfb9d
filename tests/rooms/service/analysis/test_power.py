"""What seeds can tell apart, against a simulation of the very test that the tables use."""

import re

import numpy as np
import pytest
from scipy import stats

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Search, Study
from service.analysis.power import (
    GUESS,
    guessed_spread,
    paired_spread,
    power_sentence,
    seeds_needed,
    seeds_sentence,
    smallest_difference,
)
from service.analysis.statistics import Estimate, Scale, Scores, difference
from service.analysis.study_result import StudyResult
from service.reporting.results_table import measured
from service.storage.facts import Confirms
from service.storage.history import History
from tests.rooms.by_hand import ByHand, base
from trainables.recipe import Recipe


def test_the_smallest_difference_is_found_four_times_in_five():
    for pairs in (3, 5, 10):
        least = smallest_difference(pairs, 0.02)
        random = np.random.default_rng(0)
        found = 0
        for gaps in random.normal(least, 0.02, (4000, pairs)):
            one = Scores(dict(enumerate(0.5 + gaps)), pairs)
            other = Scores(dict.fromkeys(range(pairs), 0.5), pairs)
            found += difference(one, other).p() < 0.05
        assert found / 4000 == pytest.approx(0.8, abs=0.02), pairs


def test_it_is_the_published_formula():
    # the effect sizes (difference / std) of a two-sided paired test, from G*Power's tables: n = 34 pairs for 0.5
    assert smallest_difference(34, 1.0) == pytest.approx(0.4950, rel=0.02)
    assert smallest_difference(5, 0.04) == pytest.approx(2 * smallest_difference(5, 0.02))
    assert smallest_difference(3, 0.02) > smallest_difference(4, 0.02) > smallest_difference(10, 0.02)
    assert smallest_difference(2, 0.02) is None


FIRST, ALIKE = Scores({0: 0.5, 1: 0.7, 2: 0.9}, 3), Scores({0: 0.51, 1: 0.70, 2: 0.92}, 3)
ENCODINGS = {"none": {"encoding.kind": "none"}, "peg": {"encoding.kind": "peg"}, "irpe": {"encoding.kind": "irpe"}}


def test_the_spread_is_that_of_paired_differences():
    plan = Search(Space({"optimizer.lr": Real(1e-4, 1e-2)}))
    assert paired_spread({"a": FIRST, "b": ALIKE}, plan) == pytest.approx(0.01)
    assert paired_spread({"a": FIRST}, plan) == pytest.approx(2**0.5 * 0.2), "as if the other trial were independent"
    two = {name: Scores({seed: one.values[seed] for seed in (1, 2)}, 2) for name, one in (("a", FIRST), ("b", ALIKE))}
    assert paired_spread(two, plan) == pytest.approx(0.02 / 2**0.5), "two seeds have a spread"
    assert paired_spread({}, plan) is paired_spread({"a": Scores({0: 0.5}, 3)}, plan) is None


def test_the_spread_is_that_of_the_differences_that_are_asked():
    """A first arm whose seeds split says nothing of the others beside the baseline."""
    plan = Ablation(ENCODINGS, baseline="peg")
    wild = Scores({0: 0.1, 1: 0.9, 2: 0.2}, 3)
    scores = {"peg": FIRST, "irpe": ALIKE}
    assert paired_spread({"none": FIRST, **scores}, plan) == pytest.approx((0.01**2 / 2) ** 0.5)
    wide = paired_spread({"none": wild, **scores}, plan)
    both = [difference(one, FIRST) for one in (wild, ALIKE)]
    assert wide == pytest.approx((sum(3 * one.error**2 for one in both) / 2) ** 0.5)


def test_arms_of_different_tasks_are_not_paired():
    tasks = {"left": {}, "half": {"data.task": "absolute"}}
    plan = Ablation(axes={"encoding": ENCODINGS, "task": tasks}, baseline="none", tasks="task")
    near = {f"{name}, left": scores for name, scores in (("none", FIRST), ("peg", ALIKE))}
    far = {f"{name}, half": Scores({0: 0.9, 1: 0.1, 2: 0.5}, 3) for name in ("none", "peg")}
    assert paired_spread({**near, **far}, plan) == pytest.approx((0.01**2 / 2) ** 0.5)


def test_the_sentence_names_its_numbers_and_where_they_are_from():
    free = Scale()
    assert power_sentence(2, None, free) == "2 seeds can detect no difference: a test needs 3 or more."
    assert power_sentence(3, None, free).endswith(f"standard deviation of differences {GUESS:.4f}, a guess).")
    assert "5 seeds can detect a difference of 0.0168 or more between two trials" in power_sentence(5, 0.01, free)
    assert power_sentence(5, 0.01, free).endswith("0.0100, as measured).")


def accuracy(images, chance=0.25, **more):
    return Scale(chance, 0.0, 1.0, 1 / images, **more)


def test_no_difference_is_named_that_the_scale_cannot_have():
    """The newcomer's study: four classes, 60 test images, and differences that deviate by 0.35."""
    found = power_sentence(3, 0.35, accuracy(60), 60)
    assert smallest_difference(3, 0.35) > 1.1 > 0.75
    needed = seeds_needed(0.1, std=0.35)
    assert found.startswith(
        f"3 seeds cannot tell two trials apart, whatever the difference; {needed} would detect 0.1 (power 80%"
    )
    assert power_sentence(3, 0.1, accuracy(60), 60).startswith(
        "3 seeds can detect a difference of 0.3264 or more, about 20 of 60 test images, between two trials"
    )
    assert "cannot" in power_sentence(3, 0.1, accuracy(60, chance=0.68), 60), "from 0.68 to 1 there is no room"
    assert "would" not in power_sentence(3, 50.0, accuracy(60)), "no number of seeds that anybody trains"
    skill = Scale(0.0, -1 / 3, 1.0, 4 / 3 / 60)
    assert "about 15 of 60" in power_sentence(3, 0.1, skill, 60), "0.33 of skill is 0.245 of an accuracy"


def test_the_guess_of_the_spread_knows_how_few_images_there_are():
    """As if two trials were right by luck on each image, at the middle between chance and a perfect score."""
    random = np.random.default_rng(0)
    drawn = random.binomial(60, 0.625, (2, 20_000)) / 60
    assert guessed_spread(accuracy(60)) == pytest.approx((drawn[0] - drawn[1]).std(), rel=0.02)
    assert guessed_spread(Scale(0.0, -1 / 3, 1.0, 4 / 3 / 60)) == pytest.approx(guessed_spread(accuracy(60)) * 4 / 3)
    assert guessed_spread(accuracy(10_000)) == guessed_spread(Scale(high=1.0)) == GUESS


FOLDS = Estimate(3, 0.0, overlap=0.25)


def test_folds_of_the_same_images_need_more_seeds_and_may_never_be_enough():
    """By a simulation of values that correlate as Nadeau and Bengio take folds to do."""
    least = smallest_difference(10, 0.02, like=FOLDS)
    assert least == pytest.approx(smallest_difference(10, 0.02) * (10 * (1 / 10 + 0.25)) ** 0.5)
    scale = Scale(overlap=0.25)
    share = 0.25 / 1.25  # n_test / (n_test + n_train), the correlation of two folds
    random = np.random.default_rng(0)
    both = share**0.5 * random.standard_normal((2000, 1)) + (1 - share) ** 0.5 * random.standard_normal((2000, 10))
    found = 0
    for gaps in least + 0.02 / (1 - share) ** 0.5 * both:  # so that the spread within a study is 0.02
        one = Scores(dict(enumerate(0.5 + gaps)), 10, scale)
        found += difference(one, Scores(dict.fromkeys(range(10), 0.5), 10, scale)).p() < 0.05
    assert found / 2000 == pytest.approx(0.8, abs=0.03)
    needed = seeds_needed(0.05, std=0.02, like=FOLDS)
    assert needed > seeds_needed(0.05, std=0.02)
    assert smallest_difference(needed, 0.02, like=FOLDS) <= 0.05 < smallest_difference(needed - 1, 0.02, like=FOLDS)
    assert seeds_needed(0.02, std=0.02, like=FOLDS) is None, "what folds share is never averaged away"


def test_the_seeds_needed_are_those_of_gpowers_tables():
    # G*Power 3.1: t tests, difference between two dependent means, two-sided, alpha 0.05, power 0.8
    for effect, published in ((0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10), (1.5, 6)):
        assert seeds_needed(effect, std=1.0) == seeds_needed(-effect * 0.02, std=0.02) == published


def test_the_seeds_needed_have_ends():
    assert seeds_needed(100.0, std=1.0) == seeds_needed(0.1, std=0.0) == 3
    assert seeds_needed(0.001, std=1.0) is seeds_needed(0.0, std=1.0) is seeds_needed(0.0, std=0.0) is None
    for effect in (0.31, 0.77, 2.2):
        found = seeds_needed(effect, std=1.0)
        assert smallest_difference(found, 1.0) <= effect
        assert found == 3 or smallest_difference(found - 1, 1.0) > effect


@pytest.mark.parametrize(("mean", "std"), [(0.0, 0.05), (0.0, 0.02), (0.004, 0.05), (0.015, 0.03)])
def test_the_seeds_needed_for_an_equivalence_pass_both_its_tests_four_times_in_five(mean, std):
    margin, repeats = 0.03, 4000
    needed = seeds_needed(margin - mean, margin + mean, std=std, alpha=0.1)

    def power(pairs):
        gaps = np.random.default_rng(0).normal(mean, std, (repeats, pairs))
        center, error = gaps.mean(1), gaps.std(1, ddof=1) / pairs**0.5
        reach = stats.t.ppf(0.95, pairs - 1) * error
        return np.mean((center - reach > -margin) & (center + reach < margin))

    assert power(needed) > 0.78
    assert power(needed - 2) < 0.8


def test_of_tasks_with_many_and_few_test_images_the_few_are_promised():
    """Two arms of 60 test images cannot be told apart as well as two of 2,000."""
    arms = {"many": {}, "few": {"data.test_size": 60}, "few and none": {"data.test_size": 60, "encoding.kind": "none"}}
    base = Recipe().put({"data.test_size": 2000, "encoding.kind": "learnable"})
    edition = Study(name="mixed", question="?", base=base, plan=Ablation(arms, baseline="few"), seeds=5).at()
    assert "about 8 of 60 test images" in seeds_sentence(History(edition, lambda recipe: "code"), 1)


def test_a_plan_and_the_page_name_one_difference_once_points_are_confirmed(tmp_path):
    """The seeds that chose the points differ less than fresh ones; `plan` took these, and promised a fifth of it."""
    plan = Search(Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}), trials=2)
    edition = Study(name="gamma", question="?", base=base(), plan=plan, seeds=3).at()
    values = {number: {"encoding.gamma": gamma} for number, gamma in enumerate((1.0, 2.0))}
    said = []
    with ByHand(tmp_path, edition, seeds=3, trials=2) as hand:
        for role, noise in (("trial", 0.005), ("confirmation", 0.05)):
            scores = [[0.8 + noise * luck for luck in row] for row in ((1, -1, 0), (-1, 0.5, 1))]
            if role == "confirmation":
                hand.journal.write(Confirms(numbers=(1, 0)))
            hand.points(role, values, lambda number, place, known=scores: (known[number][place],) * 2)
            said.append(seeds_sentence(History.open(hand.home, edition), 1))
    before, after = (float(re.search(r"difference of ([\d.]+) or more", sentence)[1]) for sentence in said)
    assert after > 5 * before
    assert said[1] in measured(StudyResult.open(hand.home, edition.id)).note
