"""Room: when a run counts as silent, and when as too long. Time is a number here."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.execution.watchdog import FIRST_S, PAUSES, SILENT_S, Watchdog


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def watched(run_hours: float | None = None) -> tuple[Watchdog, Clock]:
    clock = Clock()
    dog = Watchdog(run_hours, clock)
    dog.begin("run")
    return dog, clock


def wait(dog: Watchdog, clock: Clock, seconds: float) -> None:
    """Time passes, and the driver looks twice a second."""
    for _ in range(round(2 * seconds)):
        clock.now += 0.5
        dog.look()


def test_a_run_may_take_an_hour_to_its_first_report() -> None:
    dog, clock = watched()
    wait(dog, clock, FIRST_S - 1)
    assert dog.silent("run") is None
    wait(dog, clock, 1)
    assert dog.silent("run") == "it gave no sign of life for 60 min, since its start: it was killed"


def test_the_time_to_the_first_report_counts_until_a_second_one_comes() -> None:
    dog, clock = watched()
    wait(dog, clock, 100)
    dog.report("run")
    wait(dog, clock, 900)
    assert dog.silent("run") is None
    dog.report("run")
    wait(dog, clock, 10)
    dog.report("run")
    wait(dog, clock, 9000)
    assert dog.silent("run") == "it gave no sign of life for 150 min, and 15 min at most before: it was killed"


def test_a_start_that_is_longer_than_an_epoch_is_forgotten_at_the_second_report() -> None:
    dog, clock = watched()
    for pause in (1000, 10):
        wait(dog, clock, pause)
        dog.report("run")
    wait(dog, clock, SILENT_S)
    assert dog.silent("run") == "it gave no sign of life for 5 min, and 10 s at most before: it was killed"


@pytest.mark.parametrize(("epoch", "allowed"), [(2.0, SILENT_S), (60.0, PAUSES * 60.0)])
def test_then_ten_times_its_longest_pause_and_five_minutes_at_least(epoch: float, allowed: float) -> None:
    dog, clock = watched()
    for _ in range(3):
        wait(dog, clock, epoch)
        dog.report("run")
    wait(dog, clock, allowed - 1)
    assert dog.silent("run") is None
    wait(dog, clock, 1)
    assert dog.silent("run") is not None


def test_a_new_checkpoint_is_a_sign_and_an_old_one_is_none() -> None:
    dog, clock = watched()
    dog.begin("run", sign=7.0)
    wait(dog, clock, 100)
    dog.sign("run", 7.0)
    dog.sign("run", None)
    wait(dog, clock, FIRST_S - 100)
    assert dog.silent("run") is not None, "the checkpoint is that of the attempt before"
    dog.sign("run", 8.0)
    assert dog.silent("run") is None


def test_time_in_which_the_driver_sleeps_does_not_count() -> None:
    dog, clock = watched(run_hours=0.5)
    for _ in range(10):
        clock.now += 3600.0
        dog.look()
    assert dog.silent("run") is None
    assert dog.overdue("run") is None


def test_a_run_with_a_limit_ends_at_its_report_and_is_killed_where_none_comes() -> None:
    dog, clock = watched(run_hours=0.5)
    wait(dog, clock, 1799)
    dog.report("run")
    assert dog.overdue("run") is None
    wait(dog, clock, 1)
    assert dog.overdue("run") == "it took longer than --run-hours 0.5; the same command continues it"
    assert dog.silent("run") is None, "its next report is waited for"
    wait(dog, clock, SILENT_S)
    assert dog.silent("run") == dog.overdue("run")


@given(st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=20))
def test_a_run_that_reports_at_an_even_pace_is_never_killed(pauses: list[float]) -> None:
    """No pause up to ten times the longest one before it counts, whatever came before."""
    clock = Clock()
    dog = Watchdog(None, clock)
    dog.begin("run")
    before: list[float] = []
    for pause in pauses:
        longest = max(before[1:] or before, default=0.0)
        pause = min(pause, (max(PAUSES * longest, SILENT_S) if before else FIRST_S) - 2)
        dog._awake += pause
        assert dog.silent("run") is None
        dog.report("run")
        before.append(pause)


def test_a_run_that_has_ended_is_not_watched() -> None:
    dog, clock = watched(run_hours=0.1)
    dog.end("run")
    dog.end("run")
    wait(dog, clock, 4000)
    dog.report("run")
    dog.sign("run", 3.0)
    assert dog.silent("run") is dog.overdue("run") is None
