"""The numbers in the examples of the policy of statistics are what is computed."""

from pathlib import Path

from search_spaces.claim import AtLeast
from service.analysis.statistics import Scale, Scores
from service.analysis.verdicts import judge
from service.planning.t_distribution import quantile

POLICY = " ".join((Path(__file__).parents[4] / "service/README.md").read_text().split())
SCALE = Scale(0.5, 0.0, 1.0, 1 / 1000)


def trial(*values: float, moves: tuple[float, ...] = (), diverged: tuple[int, ...] = ()) -> Scores:
    further = {seed: tuple(value + move for move in moves) for seed, value in enumerate(values)} if moves else {}
    return Scores(dict(enumerate(values)), len(values), SCALE, frozenset(diverged), further)


def test_the_intervals_of_the_examples_are_right() -> None:
    def words(scores: Scores, digits: int) -> str:
        assert scores.interval is not None
        low, high = scores.interval
        return f"{low:.{digits}f} to {'1' if high == 1 else f'{high:.{digits}f}'}"

    seeds = (0.990, 0.992, 0.991)
    assert f"Their interval, {words(trial(*seeds), 3)}, says" in POLICY
    moved = trial(*seeds, moves=(-0.006, 0.005, -0.002, 0.003))
    assert (
        f"0.006 less, 0.005 more, 0.002 less and 0.003 more on four further draws, it becomes {words(moved, 3)}."
        in POLICY
    )
    assert f"three seeds at 1.000 of 1,000 images have the interval {words(trial(1.0, 1.0, 1.0), 4)}." in POLICY
    t = quantile(1 - 0.0125 / 17, 34)
    assert (
        f"its t is {t:.2f}, so an arm is out if it is {t:.2f} x 0.01 x sqrt(2 / 3) = {t * 0.01 * (2 / 3) ** 0.5:.3f}"
        in POLICY
    )


def test_what_is_left_out_is_the_lower_group_and_what_diverged() -> None:
    """A seed below the threshold of learning that is in one group with others counts, as rules 2 and 8 say."""
    some = trial(0.5, 0.52, 0.60, 0.62, diverged=(0,))
    assert some.learnt == {2, 3}
    assert {*some.sound.values} == {1, 2, 3}
    assert {*trial(0.999, 0.633, 0.976).sound.values} == {0, 2}
    (verdict,) = judge([AtLeast("a", 0.9)], lambda claim: {"a": trial(0.5, 0.51, 0.495)})
    assert verdict.word == "REFUTED"
