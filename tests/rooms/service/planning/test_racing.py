"""The race over seeds: a point gets its next seed only while it may still be among the best five."""

import random

import numpy as np
import pytest
from scipy.stats import t

from service.execution.decisions import Decisions
from service.planning.schedule import Assign, Done, LeaveOut, Propose, Wait
from service.planning.stopping import behind, p_below, race_cutoff, saved_images
from service.storage.facts import Counts, Planned, StoppedAt
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import read
from service.storage.states import TRIES
from tests.rooms.service.planning.situations import Situation, arms, search
from tests.rooms.toy import conduct


def raced(*scores: float, seeds: int = 3) -> Situation:
    """Five points that have all seeds, from 0.90 to 0.94, and a sixth with so many scores."""
    now = Situation(search(trials=9, seeds=seeds))
    for number in range(5):
        for run in now.plan(1.0 + number).runs(seeds):
            now.end(run, 0.9 + 0.01 * number)
    for run, score in zip(now.plan(9.0).runs(seeds), scores, strict=False):
        now.end(run, score)
    return now


def out(now: Situation) -> float | None:
    trial = now.history.of("trial")[5]
    run = trial.run(len(now.history.answer(trial).values))
    found = now.next()
    cutoff = race_cutoff(now.history, trial, run)
    assert found == (Assign(run, trial) if cutoff is None else LeaveOut(run, cutoff))
    return cutoff


def test_a_point_is_out_where_the_best_seeds_seen_would_not_bring_it_among_the_best_five() -> None:
    """The fifth mean is 0.90, the best seed 0.94: (x + 2 * 0.94) / 3 = 0.90 at x = 0.82."""
    assert out(raced(0.821)) is None
    assert out(raced(0.819)) == pytest.approx(0.9)
    assert out(raced(0.87, 0.891)) is None
    assert out(raced(0.87, 0.889)) == pytest.approx(0.9)
    assert out(raced(0.5)) == pytest.approx(0.9)


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
    assert fact.bare() == StoppedAt(run=trial.run(1).key, code="c0dec0dec0de", epoch=0, cutoff=fact.cutoff).bare()
    now.add(fact)
    answer = now.history.answer(trial)
    assert (answer.status, answer.raced, answer.values, answer.cutoff) == ("stopped", True, {0: 0.7}, fact.cutoff)
    assert now.history.asked(trial) == [trial.run(0)]
    assert now.next() == Propose(6)
    now.add(Counts(seeds=5, trials=9))
    assert now.history.answer(trial).status == "stopped"
    assert trial not in now.history.unsettled("trial")


def test_a_search_that_was_cut_leaves_out_what_the_undisturbed_one_does(tmp_path) -> None:
    edition = search(trials=24, seeds=3).study.at(set={"optimizer.epochs": 1})  # no rung: the race alone decides
    conduct(calm := Home(tmp_path / "calm"), edition)
    left_out = [
        fact for fact in read(calm.study(edition.id).journal)[0] if isinstance(fact, StoppedAt) and not fact.epoch
    ]
    assert len(left_out) > 1
    for cut in (12, 30, 45):
        hurt = Home(tmp_path / str(cut))
        assert conduct(hurt, edition, cut=cut) is None
        conduct(hurt, edition, random.Random(cut).random())
        again = [fact for fact in read(hurt.study(edition.id).journal)[0] if isinstance(fact, StoppedAt)]
        assert [one.bare() for one in again if not one.epoch] == [one.bare() for one in left_out]
        assert History.open(hurt, edition).confirms == History.open(calm, edition).confirms


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
    now.add(StoppedAt(run=low.run(3).key, code="c0dec0dec0de", epoch=0, cutoff=0.913))
    answer = now.history.answer(low)
    assert (answer.status, answer.raced, [*answer.values]) == ("stopped", True, [0, 1, 2])
    assert now.history.asked(low) == low.runs(3)
    assert now.next(best.run(3), even.run(3)) == Assign(best.run(4), best)
    assert now.next(*best.runs(6)[3:5], *even.runs(6)[3:5]) == Wait()  # no arm is two seeds ahead
    for run, score in ((run, 0.9) for trial in (best, even) for run in trial.runs(6)[3:]):
        now.end(run, score)
    assert now.next() == Done()
    assert saved_images(now.history).racing == 3 * 4 * low.recipe.data.image_counts.train


def test_three_seeds_of_every_arm_come_first() -> None:
    now = arms_that_race(LEVEL[:2], EVEN[:2], LOW[:2])
    low = now.history.of("trial")[2]
    assert race_cutoff(now.history, low, low.run(2)) is None


def test_a_run_that_fails_for_good_keeps_no_other_arm_waiting() -> None:
    now = arms_that_race(LEVEL, EVEN, LOW[:2])
    best, even, low = now.history.of("trial")
    now.fail(low.run(2), TRIES)
    assert now.next() == Assign(best.run(3), best)
    assert now.next(best.run(3), even.run(3)) == Assign(low.run(3), low)  # without its third seed nothing is told of it


def test_arms_that_differ_by_less_than_seeds_do_stay() -> None:
    now = arms_that_race((0.9, 0.8, 0.85), (0.8, 0.9, 0.84), (0.7, 0.95, 0.8))
    for trial in now.history.of("trial"):
        assert race_cutoff(now.history, trial, trial.run(3)) is None


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
