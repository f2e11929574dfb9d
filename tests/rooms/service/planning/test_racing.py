"""The race over seeds: a point gets its next seed only while it may still be among the best five."""

import numpy as np
import pytest
from scipy import special
from scipy.stats import t

from service.analysis.best import Best, find_best
from service.planning.schedule import Assign, Decisions, Done, LeaveOut, Propose, Wait
from service.planning.stopping import behind, cdf, p_below, quantile, race_cutoff, saved_images
from service.storage.facts import TRIES, Counts, Planned, StoppedAt
from tests.rooms.service.planning.situations import Situation, arms, search
from trainables.recipe import FromTrial, Run


def raced(*scores: float, seeds: int = 3) -> Situation:
    """Five points that have all seeds, from 0.90 to 0.94, and a sixth with so many scores."""
    now = Situation(search(trials=9, seeds=seeds))
    for number in range(5):
        for run in now.plan(1.0 + number).runs(seeds):
            now.end(run, 0.9 + 0.01 * number)
    for run, score in zip(now.plan(9.0).runs(seeds), scores, strict=False):
        now.end(run, score)
    return now


@pytest.mark.parametrize(
    ("scores", "cutoff"),
    [((0.821,), None), ((0.819,), 0.9), ((0.87, 0.891), None), ((0.87, 0.889), 0.9), ((0.5,), 0.9)],
)
def test_a_point_is_out_where_the_best_seeds_seen_would_not_bring_it_among_the_best_five(scores, cutoff) -> None:
    """The fifth mean is 0.90, the best seed 0.94: (x + 2 * 0.94) / 3 = 0.90 at x = 0.82."""
    now = raced(*scores)
    trial = now.history.of("trial")[5]
    run = trial.run(len(scores))
    assert now.next() == (Assign(run, trial) if cutoff is None else LeaveOut(run, pytest.approx(cutoff)))


def test_a_first_seed_is_never_left_out_and_the_next_seed_waits_for_the_one_before() -> None:
    now = raced()
    trial = now.history.of("trial")[5]
    assert now.next() == Assign(trial.run(0), trial)
    now.end(trial.run(0), 0.93)
    assert now.next() == Assign(trial.run(1), trial)
    assert now.next(trial.run(1)) == Propose(6)


def test_nothing_is_left_out_before_five_points_have_all_seeds() -> None:
    now = Situation(search(trials=6, seeds=2))
    for number in range(5):
        for run in now.plan(1.0 + number).runs(2)[: 2 if number < 4 else 1]:
            now.end(run, 0.9 if number < 4 else 0.5)
    assert isinstance(now.next(), Assign)


def test_a_point_that_is_out_has_ended_and_stays_out() -> None:
    now = raced(0.7)
    trial, decisions = now.history.of("trial")[5], Decisions(now.history)
    (fact,) = decisions.facts(now.next())
    assert (
        fact.bare()
        == StoppedAt(run=trial.run(1).key, code=now.history.code(trial.run(1)), epoch=0, cutoff=fact.cutoff).bare()
    )
    now.add(fact)
    answer = now.history.answer(trial)
    assert (answer.status, answer.raced, answer.values, answer.cutoff) == ("stopped", True, {0: 0.7}, fact.cutoff)
    assert now.history.asked(trial) == [trial.run(0)]
    assert now.next() == Propose(6)
    now.add(Counts(seeds=5, trials=9))
    assert now.history.answer(trial).status == "stopped"
    assert trial not in now.history.unsettled("trial")


def arms_that_race(*rows: tuple[float, ...], seeds: int = 6) -> Situation:
    """Arms with so many scores each, in an ablation that races."""
    some = {f"arm {number}": {"encoding.gamma": 1.0 + number} for number in range(len(rows))}
    now = Situation(arms(some, seeds=seeds, race=True))
    for number, name in enumerate(some):
        now.add(Planned(role="trial", number=number, name=name, values=some[name]))
    for trial, scores in zip(now.history.of("trial"), rows, strict=True):
        for run, score in zip(trial.runs(seeds), scores, strict=False):
            now.end(run, score)
    return now


LEVEL, EVEN, LOW = (0.9, 0.92, 0.91), (0.91, 0.9, 0.93), (0.5, 0.52, 0.51)


def test_an_arm_that_cannot_be_the_best_gets_no_further_seed_and_the_others_go_on() -> None:
    now = arms_that_race(LEVEL, EVEN, LOW)
    best, even, low = now.history.of("trial")
    assert now.next() == Assign(best.run(3), best)
    assert now.next(best.run(3)) == Assign(even.run(3), even)
    assert now.next(best.run(3), even.run(3)) == LeaveOut(low.run(3), pytest.approx(sum(EVEN) / 3))
    now.add(StoppedAt(run=low.run(3).key, code=now.history.code(low.run(3)), epoch=0, cutoff=0.913))
    answer = now.history.answer(low)
    assert (answer.status, answer.raced, [*answer.values]) == ("stopped", True, [0, 1, 2])
    assert now.history.asked(low) == low.runs(3)
    assert now.next(best.run(3), even.run(3)) == Assign(best.run(4), best)
    assert now.next(*best.runs(6)[3:5], *even.runs(6)[3:5]) == Wait()  # no arm is two seeds ahead
    for run, score in ((run, 0.9) for trial in (best, even) for run in trial.runs(6)[3:]):
        now.end(run, score)
    assert now.next() == Done()
    assert saved_images(now.history).racing == 3 * 4 * low.recipe.data.image_counts.train


def left_out(now: Situation, number: int) -> Run:
    """Leaves the next seed of a trial out, as the race decides now."""
    trial = now.history.of("trial")[number]
    run = trial.runs(6)[len(now.history.answer(trial).values)]
    now.add(StoppedAt(run=run.key, code=now.history.code(run), epoch=0, cutoff=race_cutoff(now.history, trial, run)))
    assert now.history.answer(trial).raced
    return run


def test_an_arm_stays_out_when_later_seeds_of_the_best_fail_and_then_no_arm_is_best() -> None:
    """Three lucky seeds of an arm that often fails are above a steady one; the mean of all its seeds is not."""
    now = arms_that_race((0.7, 0.72, 0.71), (0.97, 0.96, 0.98), (0.93, 0.92, 0.93))
    none, lucky, steady = now.history.of("trial")
    left_out(now, 2)
    for seed, score in ((3, 0.97), (4, 0.97), (5, 0.5)):
        assert now.next(none.run(seed)) == Assign(lucky.run(seed), lucky)
        now.end(none.run(seed), 0.71)
        now.end(lucky.run(seed), score)
    assert now.next() == Done()
    assert find_best(now.history) == Best(ended=steady), "0.9267 is above 0.8917"


def test_while_the_best_keeps_its_lead_an_arm_that_is_out_changes_nothing() -> None:
    now = arms_that_race((0.7, 0.72, 0.71, 0.7, 0.7, 0.7), (0.97, 0.96, 0.98, 0.97, 0.97, 0.72), (0.93, 0.92, 0.93))
    left_out(now, 2)
    assert find_best(now.history).trials == (now.history.of("trial")[1],), "0.9283 is above 0.9267"


def test_an_arm_stays_out_when_the_code_of_the_best_was_edited() -> None:
    now = arms_that_race((0.7, 0.72, 0.71, 0.7, 0.7, 0.7), (0.97, 0.96, 0.98), (0.93, 0.92, 0.93))
    _, edited, steady = now.history.of("trial")
    left_out(now, 2)
    today = Situation(now.edition)
    today.history.code = lambda run: "ed17ed" if run.recipe == edited.recipe else now.history.code(run)
    for fact in now.facts:
        today.add(fact)
    assert today.next() == Assign(edited.run(0), edited)
    assert today.next(*edited.runs(3)) == Wait(), "nothing more of the others before three seeds of the edited one"
    assert today.history.answer(steady).raced


@pytest.mark.parametrize("kind", ["arm", "point"])
def test_a_lost_answer_of_what_is_out_is_trained_again(kind: str) -> None:
    now = arms_that_race(LEVEL, EVEN, LOW) if kind == "arm" else raced(0.7)
    trial, first = now.history.of("trial")[-1], now.history.of("trial")[0]
    left_out(now, trial.number)
    lost = trial.run(1 if kind == "arm" else 0)
    now.fail(lost)
    assert now.history.answer(trial).status == "open"
    assert now.next() == Assign(lost, trial)
    now.end(lost, 0.52)
    assert now.history.answer(trial).raced
    assert now.next() == (Assign(first.run(3), first) if kind == "arm" else Propose(6))


def test_a_run_that_was_left_out_is_trained_where_another_arm_starts_from_it() -> None:
    some = {"base": {"encoding.gamma": 1.0}, "low": {"encoding.gamma": 3.0}}
    some["child"] = {"encoding.gamma": 3.0, "optimizer.lr": 0.01}
    some["child"]["init"] = FromTrial(values={"optimizer.lr": 0.001}).plain()
    now = Situation(arms(some, seeds=4, race=True))
    now.add(*(Planned(role="trial", number=n, name=name, values=some[name]) for n, name in enumerate(some)))
    base, low, child = now.history.of("trial")
    parent = next(iter(child.run(3).parents.values()))
    assert parent.key == low.run(3).key
    now.add(*Decisions(now.history).facts(now.next(*base.runs(4), *low.runs(4))))
    for trial, scores in ((base, (0.9, 0.91, 0.9, 0.9)), (low, (0.5, 0.51, 0.5)), (child, (0.95, 0.94, 0.95))):
        for run, score in zip(trial.runs(4), scores, strict=False):
            now.end(run, score)
    assert left_out(now, 1) == parent
    assert now.next().run == parent


def test_a_run_that_fails_for_good_keeps_no_other_arm_waiting() -> None:
    now = arms_that_race(LEVEL, EVEN, LOW[:2])
    best, even, low = now.history.of("trial")
    now.fail(low.run(2), TRIES)
    assert now.next() == Assign(best.run(3), best)
    assert now.next(best.run(3), even.run(3)) == Assign(low.run(3), low)  # without its third seed nothing is told of it


@pytest.mark.parametrize(
    "rows", [((0.9, 0.8, 0.85), (0.8, 0.9, 0.84), (0.7, 0.95, 0.8)), (LEVEL[:2], EVEN[:2], LOW[:2])], ids=str
)
def test_arms_stay_that_differ_by_less_than_seeds_do_or_have_fewer_than_three(rows) -> None:
    now = arms_that_race(*rows)
    for trial in now.history.of("trial"):
        assert race_cutoff(now.history, trial, trial.run(len(rows[0]))) is None


def test_where_every_seed_scores_the_same_one_image_decides_nothing() -> None:
    rows = {"a": [1.0] * 3, "b": [0.998] * 3, "c": [0.98] * 3}
    assert behind(rows, 3, step=0.002) == ["c"]
    assert behind(rows, 3) == ["b", "c"]


def test_the_p_of_a_pair_is_that_of_a_two_way_layout_or_its_own() -> None:
    """Against scipy and the residuals of a least-squares fit with a column for each arm and each seed."""
    stream = np.random.default_rng(0)
    for spread in (1.0, 8.0):
        scores = stream.normal(size=(4, 5)) + stream.normal(size=5)
        scores[1] *= spread
        rows = dict(zip("abcd", scores.tolist(), strict=True))
        design = np.array([[*(np.eye(4)[arm]), *(np.eye(5)[seed][1:])] for arm in range(4) for seed in range(5)])
        fit = np.linalg.lstsq(design, scores.ravel(), rcond=None)[0]
        shared = 2 * ((scores.ravel() - design @ fit) ** 2).sum() / 12
        gaps = scores[0] - scores[1]
        own = gaps.var(ddof=1)
        assert (own > shared) == (spread > 1)
        wanted = t.sf(gaps.mean() / np.sqrt(max(own, shared) / 5), 4 if own > shared else 12)
        assert p_below(rows, "b", "a") == pytest.approx(wanted, rel=1e-9)
        folds = t.sf(gaps.mean() / np.sqrt(max(own, shared) * (1 / 5 + 0.25)), 4 if own > shared else 12)
        assert p_below(rows, "b", "a", overlap=0.25) == pytest.approx(folds, rel=1e-9)


def test_students_t_is_scipys() -> None:
    for df in (1, 2, 3, 4, 7, 10, 29, 30):
        for x in (-50.0, -3.1, -0.1, 0.0, 0.7, 2.0, 9.0, 100.0):
            assert cdf(x, df) == pytest.approx(special.stdtr(df, x), abs=1e-14)
        for p in (0.001, 0.05, 0.4, 0.5, 0.6, 0.975, 0.9999):
            assert quantile(p, df) == pytest.approx(special.stdtrit(df, p), rel=1e-10, abs=1e-12)
    assert (cdf(float("inf"), 3), cdf(float("-inf"), 3)) == (1.0, 0.0)
