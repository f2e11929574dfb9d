"""The race over seeds: a point gets its next seed only while it may still be among the best five."""

import random

import pytest

from service.execution.decisions import Decisions
from service.planning.schedule import Assign, LeaveOut, Propose
from service.planning.search.racing import race_cutoff
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import Counts, StoppedAt, read
from tests.rooms.service.planning.situations import Situation, search
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
