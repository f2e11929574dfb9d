"""Whether a score equals a paper's number, by scipy's tests."""

import numpy as np
import pytest
from scipy import stats

from search_spaces.study import Published
from service.analysis.statistics import Scale, Scores
from service.analysis.verdicts import judge_published
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
    known = Published("arm", published, None, "table 1", margin=margin)
    found = judge_published({0: known}, {"arm": scores(*VALUES, scale=Scale())})[0]
    equal = max(
        stats.ttest_1samp(VALUES, published - margin, alternative="greater").pvalue,
        stats.ttest_1samp(VALUES, published + margin, alternative="less").pvalue,
    )
    other = 2 * min(
        stats.ttest_1samp(VALUES, published - margin, alternative="less").pvalue,
        stats.ttest_1samp(VALUES, published + margin, alternative="greater").pvalue,
    )
    assert found.words == words
    assert found.p == pytest.approx(other if found.word == "differs" else equal, abs=1e-9)


def test_an_agreement_says_of_how_many_seeds_it_is():
    known = {0: Published("arm", 0.96, None, "t", margin=0.1)}
    some = Scores(dict(enumerate([*VALUES, 0.5, 0.5])), len(VALUES) + 2, Scale(0.5, 0.0, 1.0, 0.001))
    assert judge_published(known, {"arm": some})[0].words == (
        f"equal within 0.1 of seeds that learn ({len(VALUES)} of {len(VALUES) + 2})"
    )


def test_several_numbers_are_adjusted_together():
    known = {place: Published("arm", 0.96, None, "t", margin=0.0045) for place in range(3)}
    alone = judge_published({0: known[0]}, {"arm": scores(*VALUES)})[0]
    together = judge_published(known, {"arm": scores(*VALUES)})
    assert alone.word == "equal"
    assert together[0].p == pytest.approx(3 * alone.p)


def test_at_the_edge_of_the_margin_few_are_called_equal_or_different():
    random, words = np.random.default_rng(0), []
    known = {0: Published("a", 0.8, None, "t", margin=0.01), 1: Published("b", 0.8, None, "t", margin=0.01)}
    for _ in range(1000):
        rows = {name: Scores(dict(enumerate(random.normal(0.81, 0.004, 5))), 5) for name in "ab"}
        words.append({one.word for one in judge_published(known, rows).values()})
    most = stats.binom.ppf(0.999, 1000, 0.05)
    assert sum("equal" in found for found in words) <= most
    assert sum("differs" in found for found in words) <= most


def test_a_margin_is_positive_and_changes_no_text():
    with pytest.raises(SpecError, match="margin must be a positive margin, or null, got 0"):
        Published("arm", 0.9, None, "t", margin=0)
    assert str(Published("arm", 0.9, None, "t", margin=0.1)) == str(Published("arm", 0.9, None, "t"))


def test_for_the_papers_own_images_the_margin_follows_from_its_deviation():
    def within(spread, **more):
        return Published("arm", 0.9, spread, "t", **more).within

    assert within(0.0032, same_data=True) == pytest.approx(2 * (0.0032**2 + 0.0032**2) ** 0.5, abs=1e-4)
    assert within(0.0003, same_data=True) == 0.005
    assert (within(0.149, same_data=True), within(None, same_data=True), within(0.0032)) == (None, None, None)
    assert within(0.0032, same_data=True, margin=0.02) == 0.02
