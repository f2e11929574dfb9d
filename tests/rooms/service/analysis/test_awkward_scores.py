"""Orders, margins, draws of images, limits and shares, on input that is awkward."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

from search_spaces.claim import AtLeast, KeepsMore
from search_spaces.study import Published
from service.analysis.comparison import _match
from service.analysis.data_efficiency import Curve
from service.analysis.power import smallest_difference
from service.analysis.scores import kept
from service.analysis.statistics import Scale, Scores, difference, level_of
from service.analysis.verdicts import judge, judge_published
from tests.rooms.service.analysis.test_statistics import scores


@pytest.mark.parametrize("values", [(1.0, 1.0, 1.0), (1.0,) * 10, (0.999, 1.0, 1.0, 1.0, 1.0)])
def test_a_margin_that_reaches_beyond_a_perfect_score_holds_there(values):
    """1.0000 lies within 0.009 of 0.9964, and its interval, [0.9945, 1], inside [0.9874, 1.0054]."""
    known = Published("arm", 0.9964, 0.0032, "table 1", same_data=True)
    low, high = scores(*values).interval
    assert 0.9964 - known.within < low <= high < 0.9964 + known.within
    assert judge_published({0: known}, {"arm": scores(*values)})[0].word == "equal"


def drawn(n: int) -> Scores:
    seeds = {seed: round(0.9 + 0.001 * (seed % 5 - 2), 3) for seed in range(n)}
    further = {seed: tuple(round(value + d, 3) for d in (0.012, -0.01, 0.006, -0.011)) for seed, value in seeds.items()}
    return Scores(seeds, n, Scale(0.5, 0.0, 1.0, 0.001), further=further)


def rounded(n: int) -> Scores:
    return scores(*[0.8] * n, scale=Scale(0.5, 0.0, 1.0, 0.01))


@pytest.mark.parametrize(("trial", "least"), [(drawn, 0.885), (rounded, 0.795)])
def test_more_seeds_are_not_said_to_decide_what_draws_of_images_or_rounding_leave_open(trial, least):
    claim = AtLeast("a", least)
    (found,) = judge([claim], lambda _: {"a": trial(5)})
    (many,) = judge([claim], lambda _: {"a": trial(1000)}, look=2)
    assert (found.word, many.word) == ("INCONCLUSIVE", "INCONCLUSIVE")
    assert found.needed == (None, None), found.why


def gap_of_draws():
    draw = np.random.default_rng(0)
    images = {"a": draw.normal(0, 0.01, 5), "b": draw.normal(0, 0.01, 5)}
    trials = []
    for name in "ab":
        rows = {seed: 0.8 + draw.normal(0, 0.003, 5) + images[name] for seed in range(10)}
        trials.append(
            Scores({s: r[0] for s, r in rows.items()}, 10, Scale(0.5, 0.0, 1.0, 1e-4),
                   further={s: tuple(r[1:]) for s, r in rows.items()})
        )  # fmt: skip
    return difference(*trials)


def test_the_smallest_difference_has_the_degrees_of_freedom_of_its_test():
    gap, level = gap_of_draws(), level_of(2)
    assert gap.freedom < gap.n - 1
    least = smallest_difference(gap.n, gap.spread, alpha=level, like=gap)
    t = stats.t.ppf(1 - level / 2, gap.freedom)
    assert stats.nct.sf(t, gap.freedom, least / gap.error) == pytest.approx(0.8, abs=0.005)


def test_seeds_that_do_not_learn_keep_nothing():
    """Of the seeds that learn “a” keeps 0.85 and “b” 0.90; seven seeds of “a” fail at 0.7, and keep that."""
    own = {"a": scores(0.990, 0.991, 0.989, *[0.7] * 7), "b": scores(*[0.990] * 10)}
    after = {"a": scores(0.916, 0.917, 0.916, *[0.7] * 7), "b": scores(*[0.941] * 10)}
    shares = {name: kept(after[name], own[name]) for name in own}
    assert len(own["a"].learnt) == 3
    (found,) = judge([KeepsMore("a", "b", 48)], lambda _: shares)
    assert found.word != "SUPPORTED", found


def test_limits_that_all_are_perfect_are_no_certainty():
    rows = {100: (0.70, 0.72, 0.69), 200: (0.90, 0.93, 0.91), 400: (0.99, 0.985, 0.992), 800: (1.0, 1.0, 1.0)}
    curve = Curve("x", {size: scores(*row) for size, row in rows.items()})
    low, high = curve.over_seeds("limit").interval()
    assert low < high, (low, high)


def test_runs_that_both_sides_share_are_in_no_test():
    trial = SimpleNamespace(recipe=SimpleNamespace(data=SimpleNamespace(scale="accuracy, 0.5")))

    def one(test, codes):
        answers = {
            seed: SimpleNamespace(run=SimpleNamespace(key=f"k{seed}"), name=code) for seed, code in enumerate(codes)
        }
        return SimpleNamespace(trial=trial, test=test, answers=answers, name="a")

    a = one(scores(0.90, 0.91, 0.92, 0.90, 0.91), "ooooo")
    b = one(scores(0.90, 0.91, 0.92, 0.95, 0.96), "ooonn")
    assert _match(a, b).estimate.mean == pytest.approx(0.05), "the three runs that both share differ by nothing"
