"""What comes next: a table of situations."""

from service.planning.schedule import (
    Assign,
    Confirm,
    Done,
    Propose,
    Wait,
)
from service.storage.facts import Confirms, Counts
from tests.rooms.service.planning.situations import Situation, search

POINTS = [2.5, 0.2, 8.0, 1.0, 20.0, 5.0]


def test_a_search_proposes_then_trains_then_proposes() -> None:
    now = Situation(search())
    assert now.next() == Propose(0)
    trial = now.plan(2.5)
    first, second = trial.runs(2)
    assert now.next() == Assign(first, trial)
    assert now.next(first) == Propose(1), "another point while the first seed is in flight"
    now.end(first)
    assert now.next() == Assign(second, trial), "a survivor gets its other seeds"
    now.end(second)
    assert now.next() == Propose(1)


def end_five(now: Situation) -> None:
    """Five points get all seeds, each better than the one before: nothing is stopped at a rung before."""
    for number in range(5):
        for run in now.plan(3.0 + number).runs(2):
            now.end(run, 0.9 + 0.01 * number)


def test_a_stopped_or_diverged_first_seed_spares_the_others() -> None:
    now = Situation(search(trials=9))
    end_five(now)
    now.stop(now.plan(0.2).runs(2)[0])
    assert now.next() == Propose(6)
    now.end(now.plan(0.3).runs(2)[0], outcome="diverged")
    assert now.next() == Propose(7)


def finished(trials: int = 4) -> Situation:
    now = Situation(search(trials=trials))
    for gamma in POINTS[:trials]:
        for seed, run in enumerate(now.plan(gamma).runs(2)):
            now.end(run, value=1 / (1 + abs(gamma - 8)) + 0.01 * seed)
    return now


def test_the_best_are_confirmed_best_first_and_without_doubles() -> None:
    now = finished()
    assert now.next() == Confirm((2, 0, 3, 1)), "8.0 and 2.5 stand nearest to 8"
    for number in (0, 2, 3, 1):
        now.plan(POINTS[number], "confirmation", number)
    now.add(Confirms(numbers=(2, 0, 3, 1)))
    runs = [trial.runs(2) for trial in now.history.of("confirmation")]
    assert now.next() == Assign(runs[0][0], now.history.of("confirmation")[0])
    now.end(runs[0][0])
    assert now.next() == Assign(runs[1][0], now.history.of("confirmation")[1]), "seeds outermost"
    for run in [*runs[0][1:], *runs[1], *runs[2], *runs[3]]:
        now.end(run)
    assert now.next() == Done()


def test_no_choice_before_the_last_trial_has_ended() -> None:
    now = finished()
    late = now.plan(5.0)
    now.add(Counts(seeds=2, trials=5))
    assert now.next(late.runs(1)[0]) == Wait()


def test_an_extension_that_changes_the_choice_confirms_the_new_ones() -> None:
    now = finished()
    for number in (0, 1, 2, 3):
        for run in now.plan(POINTS[number], "confirmation", number).runs(2):
            now.end(run)
    now.add(Confirms(numbers=(2, 0, 3, 1)), Counts(seeds=2, trials=5))
    assert now.next() == Propose(4)
    for run in now.plan(5.0).runs(2):
        now.end(run, value=2.0)
    assert now.next() == Confirm((4, 2, 0, 3, 1))
    fresh = now.plan(5.0, "confirmation", 4)
    now.add(Confirms(numbers=(4, 2, 0, 3, 1)))
    assert now.next() == Assign(fresh.runs(1)[0], fresh)


def test_the_papers_point_is_confirmed_even_where_it_was_stopped() -> None:
    now = Situation(search(trials=6))
    first = now.plan(2.5)
    end_five(now)
    now.stop(first.run(0))
    assert now.next() == Confirm((5, 4, 3, 2, 1, 0))


def test_a_search_in_which_all_diverged_ends() -> None:
    now = Situation(search(trials=2, first=False))
    for gamma in (30.0, 35.0):
        now.end(now.plan(gamma).runs(1)[0], outcome="diverged")
    assert now.next() == Done()
