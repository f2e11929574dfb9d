"""Whether a score equals a paper's number, by scipy's tests."""

import numpy as np
import pytest
from scipy import stats

from search_spaces.study import Published
from service.analysis.statistics import Scale, Scores
from service.analysis.verdicts import agreements, judge_published
from tests.rooms.service.analysis.test_statistics import scores
from trainables.spec import SpecError

VALUES = (0.958, 0.961, 0.957, 0.962)


@pytest.mark.parametrize(
    ("published", "margin", "words"),
    [
        (0.96, 0.01, "equal within 0.01"),
        (0.96, 0.002, "not resolved within 0.002"),
        (0.98, 0.01, "differs by more than 0.01"),
        (0.94, 0.01, "differs by more than 0.01"),
        (0.97, 0.01, "not resolved within 0.01"),
    ],
)
def test_a_published_number_is_equal_or_not_or_not_resolved(published, margin, words):
    known = {place: Published("arm", published, None, "t", margin=margin) for place in range(2)}
    ends = [(published - margin, "greater"), (published + margin, "less")]
    inside = max(stats.ttest_1samp(VALUES, end, alternative=side).pvalue for end, side in ends)
    sides = [(published - margin, "less"), (published + margin, "greater")]
    outside = min(stats.ttest_1samp(VALUES, end, alternative=side).pvalue for end, side in sides)
    for look, share in ((1, 3 / 4), (2, 3 / 16)):
        for count in (1, 2):  # numbers that are judged together
            found = judge_published(dict([*known.items()][:count]), {"arm": scores(*VALUES, scale=Scale())}, look)[0]
            p = min(1.0, 2 * count * (outside if found.word == "differs" else inside) / share)
            assert found.p == pytest.approx(p, abs=1e-9)
            assert (found.p < 0.05) == (found.word != "not resolved")
    alone = judge_published({0: known[0]}, {"arm": scores(*VALUES, scale=Scale())})[0]
    assert alone.words == words


@pytest.mark.parametrize("values", [(1.0, 1.0, 1.0), (1.0,) * 10, (0.999, 1.0, 1.0, 1.0, 1.0)])
def test_a_margin_that_reaches_beyond_a_perfect_score_holds_there(values):
    """1.0000 lies within 0.009 of 0.9964, and its interval, [0.9945, 1], inside [0.9874, 1.0054]."""
    known = Published("arm", 0.9964, 0.0032, "table 1", same_data=True)
    low, high = scores(*values).interval
    assert 0.9964 - known.within < low <= high < 0.9964 + known.within
    assert judge_published({0: known}, {"arm": scores(*values)})[0].word == "equal"


def test_seeds_that_lack_diverged_or_are_two_and_numbers_without_a_margin_are_not_judged():
    known = [Published(who, 0.9, None, "t", margin=0.1) for who in ("whole", "lacks", "fell", "two", "absent", "whole")]
    known += [Published("whole", 0.9, None, "t")]
    trials = {
        "whole": scores(0.9, 0.91, 0.9),
        "lacks": scores(0.9, 0.91, 0.9, asked=4),
        "fell": scores(0.5, 0.9, 0.91, diverged=(0,)),
        "two": scores(0.9, 0.91),
    }
    assert {*agreements(known, trials, lambda figure: figure is not known[5])} == {0}


def test_at_the_edge_of_the_margin_few_are_called_equal_or_different():
    random, words = np.random.default_rng(0), []
    known = {place: Published(name, 0.8, None, "t", margin=0.01) for place, name in enumerate("ab")}
    for _ in range(1000):
        rows = {name: Scores(dict(enumerate(random.normal(0.81, 0.004, 5))), 5) for name in "ab"}
        words.append({one.word for one in judge_published(known, rows).values()})
    most = stats.binom.ppf(0.999, 1000, 0.05 * 0.75 / 2)
    assert all(sum(word in found for found in words) <= most for word in ("equal", "differs"))


def test_a_margin_is_positive_and_that_of_the_papers_own_images_follows_from_its_deviation():
    def within(spread, **more):
        return Published("arm", 0.9, spread, "t", **more).within

    with pytest.raises(SpecError, match="margin must be a positive margin, or null, got 0"):
        within(None, margin=0)
    assert within(0.0032, same_data=True) == pytest.approx(2 * (0.0032**2 + 0.0032**2) ** 0.5, abs=1e-4)
    assert within(0.0003, same_data=True) == 0.005
    assert (within(0.149, same_data=True), within(None, same_data=True), within(0.0032)) == (None, None, None)
    assert within(0.0032, same_data=True, margin=0.02) == 0.02
    assert str(Published("arm", 0.9, None, "t", margin=0.1)) == str(Published("arm", 0.9, None, "t"))
