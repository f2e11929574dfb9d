"""Each example of the policy of statistics, and its table of looks, is what is computed, in the words of the page."""

from pathlib import Path

import numpy as np
from scipy import stats

from search_spaces.claim import AtLeast
from service.analysis.format import fixed, p_text
from service.analysis.multiple_testing import holm, staying, subtracted, together
from service.analysis.scores import group_words, unseen_words
from service.analysis.statistics import ALPHA, Scale, Scores, share_of
from service.planning.stopping import behind
from tests.rooms.by_hand import judge

POLICY = " ".join((Path(__file__).parents[4] / "service/README.md").read_text().split())
SCALE = Scale(0.5, 0.0, 1.0, 1 / 1000)


def says(words: str) -> bool:
    """Whether the page has these words; one is read over line ends, and over the columns of a table."""
    return " ".join(words.split()) in POLICY


def trial(*values: float, moves: tuple[float, ...] = (), scale: Scale = SCALE) -> Scores:
    further = {seed: tuple(value + move for move in moves) for seed, value in enumerate(values)} if moves else {}
    return Scores(dict(enumerate(values)), len(values), scale, further=further)


def interval(scores: Scores, digits: int) -> str:
    assert scores.interval is not None
    low, high = scores.interval
    return f"{low:.{digits}f} to {'1' if high == 1 else f'{high:.{digits}f}'}"


def test_rule_1_one_mean() -> None:
    one = trial(0.500, 0.964, 0.984, 0.991, 0.996)
    assert says("0.500, 0.964, 0.984, 0.991 and 0.996 of 1,000 images have the mean "
                f"{one.mean:.4f} and the interval {interval(one, 4)}: \"{group_words(one)}\".")  # fmt: skip
    few = trial(0.5, 0.98, 0.99)
    assert few.interval is not None
    assert (few.interval[0], trial(0.4, 0.45, 0.42).interval[0] < 0.5) == (0.5, True), "cut where the mean lies above"
    assert trial(0.9, 0.95).interval is None, "two seeds stand in place of an interval"


def test_rule_2_when_a_seed_has_failed() -> None:
    scores = trial(0.2250, 0.2750, 0.3250, 0.3625, 0.4125, scale=Scale(0.25, 0.0, 1.0, 1 / 80))
    least = 0.25 + stats.norm.ppf(0.999) * (0.25 * 0.75 / (5 * 80)) ** 0.5
    assert says("0.2250, 0.2750, 0.3250, 0.3625 and 0.4125 of 80 images in four classes: the mean, "
                f"{scores.mean:.2f}, is above {least:.4f}, so something was learned")  # fmt: skip
    assert (scores.above_chance, scores.failed, min(scores.values.values()) < 0.25) == (True, set(), True)


def test_rule_3_claims() -> None:
    assert says(f'"{unseen_words(trial(0.9, 0.91, 0.92, 0.93, 0.94))}"')
    claims = [AtLeast("a", value) for value in (0.9, 0.99, 0.95)]
    words = [judge([claim], lambda _: {"a": trial(0.945, 0.951, 0.953)})[0].word for claim in claims]
    assert words == ["SUPPORTED", "REFUTED", "INCONCLUSIVE"]


def test_rule_4_two_scales() -> None:
    assert says(f"three seeds at 1.000 of 1,000 images have the interval {interval(trial(1.0, 1.0, 1.0), 4)}.")


def power(pairs: int, effect: float, level: float) -> float:
    """The power of a two-sided t-test, by the noncentral t distribution."""
    edge, away = stats.t.ppf(1 - level / 2, pairs - 1), effect * pairs**0.5
    return float(stats.nct.sf(edge, pairs - 1, away) + stats.nct.cdf(-edge, pairs - 1, away))


def in_all(effect: float, studies: int = 400_000) -> float:
    """How often 5 pairs find a difference at the first look, or 10 at the second one."""
    gaps = np.random.default_rng(0).normal(effect, 1, (studies, 10))
    found = np.zeros(studies, bool)
    for look, seeds in ((1, 5), (2, 10)):
        some = gaps[:, :seeds]
        t = some.mean(1) / some.std(1, ddof=1) * seeds**0.5
        found |= abs(t) > stats.t.ppf(1 - ALPHA * share_of(look) / 2, seeds - 1)
    return float(found.mean())


def test_rule_5_looks() -> None:
    first, second, third = (ALPHA * share_of(look) for look in (1, 2, 3))
    five, ten = ([f"{power(pairs, effect, first):.2f}" for effect in (1, 1.5)] for pairs in (5, 10))
    both = [f"{in_all(effect):.2f}" for effect in (1, 1.5)]
    for row in (
        f"| first | {first:.4f} | {' / '.join(five)} |",
        f"| second | {second:.4f} | in all {' / '.join(both)} |",
        f"| third | {third:.4f} | |",
        f"| (one look with 10 seeds) | {first:.4f} | {' / '.join(ten)} |",
    ):
        assert says(row), row
    scale, than = Scale(0.5, 0.0, 1.0, 1 / 2000), (0.71, 0.69, 0.72, 0.7, 0.68, 0.7, 0.71)
    who = (0.74, 0.778, 0.865, 0.79, 0.7145, 0.725, 0.7245)
    looks = [
        together(subtracted({"a": (trial(*who[:seeds], scale=scale), trial(*than[:seeds], scale=scale))}), look)
        for look, seeds in ((1, 5), (2, 7))
    ]
    (found,) = staying(looks[1], looks[0]).values()
    later = found.later
    assert later is not None
    assert (found.significant, later.significant) == (True, False)
    assert says(f"5 seeds find {fixed(found.mean)} with p {p_text(found.p)}; with 7 seeds it is {fixed(later.mean)}.")


def test_rule_6_together() -> None:
    adjusted = [one.p for one in holm({"a": 0.004, "b": 0.02, "c": 0.3}).values()]
    a, b, c = (f"{p:.4f}".rstrip("0") for p in adjusted)
    assert says(f"three ps of 0.004, 0.02 and 0.3 become {a}, {b} and {c} at the first look: one finding.")
    assert [p < ALPHA for p in adjusted] == [True, False, False]


def test_rule_7_images() -> None:
    seeds, moves = (0.990, 0.992, 0.991), (-0.006, 0.005, -0.002, -0.003)
    assert says(f"seeds at 0.990, 0.992 and 0.991 have the interval {interval(trial(*seeds), 3)}. If all three score "
                "0.006 less, 0.005 more, 0.002 less and 0.003 less on four further draws, it becomes "
                f"{interval(trial(*seeds, moves=moves), 3)}.")  # fmt: skip


def test_rule_8_race() -> None:
    """Residuals of one size have the standard deviation of 0.01; an arm is out where the page says, to 0.0001."""
    level = 3 * 0.05 / (3 * 4)
    t = stats.t.ppf(1 - level / 17, 34)
    least = t * 0.01 * (2 / 3) ** 0.5
    assert says(f"The level is {level:.4f} / 17 = {level / 17:.4f}, its t is {t:.2f}, so an arm is out if it is "
                f"{t:.2f} x 0.01 x sqrt(2 / 3) = {least:.3f} below the best.")  # fmt: skip
    noise = np.random.default_rng(0).normal(0, 1, (18, 3))
    noise[1] = noise[0] + 0.1 * noise[2]  # a pair that differs less than all arms do
    noise -= noise.mean(1, keepdims=True)
    noise -= noise.mean(0)
    noise *= 0.01 / ((noise**2).sum() / 34) ** 0.5
    for below, out in ((least - 0.0001, []), (least + 0.0001, ["1"])):
        means = 0.9 - 0.001 * (np.arange(18) > 1) - below * (np.arange(18) == 1)
        rows = {str(arm): [*map(float, mean + row)] for arm, (mean, row) in enumerate(zip(means, noise, strict=True))}
        assert behind(rows, 18) == out
