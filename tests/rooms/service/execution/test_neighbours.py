"""Drivers of a home on one machine: together they never need more than there is, and none waits for ever."""

import json
import time
from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.execution import other_drivers
from service.execution.other_drivers import ASKS_S, Neighbours, Presence
from service.planning.placement import Placement
from service.storage.home import Home
from service.storage.journal import Journal


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch) -> None:
    """No clock runs in these tests, so a turn is over as soon as a run has ended."""
    monkeypatch.setattr(other_drivers, "TURN_S", 0.0)


class Driver:
    """Trains as many runs as it is admitted to; ends one when told."""

    def __init__(self, home: Home, id: str, fits: int, most: int) -> None:
        self.neighbours = Neighbours(home, id, Placement(max_concurrent=most, fits=fits))
        self.running, self.trained, self.fits, self.most = 0, 0, fits, most
        self.neighbours.tell()

    def fill(self) -> None:
        while self.running < self.most and self.neighbours.admit(self.running, self.most):
            self.running += 1
            self.trained += 1

    def end(self) -> None:
        self.running -= self.running > 0
        self.neighbours.tell(self.running)


def begun(home: Home, stack: ExitStack, id: str, fits: int, most: int) -> Driver:
    folder = home.study(id)
    stack.enter_context(Journal(folder.journal, folder.lock))
    return Driver(home, id, fits, most)


@pytest.fixture
def begin(home: Home):
    """Begins drivers of one home: `begin(id, fits, most)`."""
    with ExitStack() as stack:
        yield partial(begun, home, stack)


@settings(max_examples=25)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4),
    turns=st.lists(st.integers(0, 3), max_size=12),
)
def test_together_they_never_need_more_than_there_is_and_each_comes_next(tmp_path_factory, sizes, turns) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    with ExitStack() as stack:
        drivers = []
        for number, (fits, most) in enumerate(sizes):
            drivers.append(begun(home, stack, f"s{number}@base", fits, min(most, fits)))
            drivers[0].fill()
        for turn in [*turns, *range(4 * 4 * 9)]:
            first = turn % len(drivers)
            drivers[first].end()
            for driver in drivers[first:] + drivers[:first]:
                driver.fill()
            assert sum(one.running / one.fits for one in drivers) <= 1 + 1e-9
            if turn > 2 * 9 and all(driver.trained for driver in drivers):
                break
        assert all(driver.trained for driver in drivers), "one waits for ever"


def test_the_second_waits_until_the_first_has_run_down_to_its_half(begin) -> None:
    first = begin("first@base", 8, 8)
    first.fill()
    assert first.running == 8, "alone it has the whole machine"
    second = begin("second@base", 8, 8)
    second.fill()
    assert second.running == 0
    assert second.neighbours.names() == ["first@base"]
    for _ in range(4):
        first.end()
        first.fill()
        second.fill()
    assert (first.running, second.running) == (4, 4)
    second.neighbours.close()
    first.fill()
    assert first.running == 8


def test_two_that_need_the_whole_machine_take_turns(begin) -> None:
    drivers = [begin(f"{name}@base", 1, 1) for name in ("one", "other")]
    for _ in range(6):
        for driver in drivers:
            driver.fill()
        assert sum(driver.running for driver in drivers) == 1
        for driver in drivers:
            driver.end()
    assert [driver.trained for driver in drivers] == [3, 3]


def test_a_turn_lasts_for_several_runs(begin, monkeypatch) -> None:
    """A driver that gave up its place after each run would start Ray again for each short run."""
    monkeypatch.setattr(other_drivers, "TURN_S", 1000.0)
    one, other = (begin(f"{name}@base", 1, 1) for name in ("one", "other"))
    for _ in range(3):
        one.fill(), other.fill()
        one.end(), other.end()
    assert (one.trained, other.trained) == (3, 0)
    monkeypatch.setattr(other_drivers, "TURN_S", 0.0)
    one.fill(), other.fill()
    assert (one.running, other.running) == (0, 1), "the turn is over, and the other one waited"
    monkeypatch.setattr(other_drivers, "TURN_S", 1000.0)
    other.end(), other.fill(), one.fill()
    assert (one.running, other.running) == (0, 1), "it has a turn, too, although the first one waits again"


def test_one_that_needs_the_whole_machine_comes_next_beside_small_ones(begin) -> None:
    small, whole = begin("small@base", 8, 8), begin("whole@base", 1, 1)
    small.fill()
    for _ in range(8):
        whole.fill()
        small.end()
        small.fill()
    whole.fill()
    assert (whole.running, small.running) == (1, 0)


def test_a_driver_that_was_suspended_holds_nobody_up(begin, monkeypatch) -> None:
    small, whole = begin("small@base", 8, 8), begin("whole@base", 1, 1)
    small.fill()
    whole.fill()
    small.end()
    small.fill()
    assert small.running == 3, "the other one waits"
    monkeypatch.setattr("service.execution.other_drivers.ASKS_S", 0.0)
    small.fill()
    assert small.running == 4, "its share, as soon as the other one asks no more"


def test_a_clock_that_is_set_back_lets_nobody_wait_for_a_driver_that_asks_no_more(begin, monkeypatch) -> None:
    later = time.monotonic() + ASKS_S + 1
    first, suspended, next_one = (begin(f"{name}@base", 1, 1) for name in ("a", "b", "c"))
    for driver in (first, suspended, next_one):
        driver.fill()
    first.neighbours.close()
    hour_before = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: hour_before)
    monkeypatch.setattr(time, "monotonic", lambda: later)
    next_one.fill()
    assert next_one.running == 1


def test_who_asks_for_few_leaves_the_rest(begin) -> None:
    """A study with one concurrent run takes an eighth of a machine on which eight fit."""
    small = begin("small@base", 8, 1)
    small.fill()
    large = begin("large@base", 8, 8)
    large.fill()
    assert (small.running, large.running) == (1, 4)


def test_only_living_drivers_of_this_machine_and_device_count(home) -> None:
    with ExitStack() as stack:
        mine = begun(home, stack, "mine@base", 4, 4)
        here = Presence(mine.neighbours._told.host, "cpu", running=4, fits=4).__dict__
        told = {"killed@base": {}, "far@base": {"host": "another-machine"}, "gpu@base": {"device": "cuda"}}
        for id, values in told.items():
            folder = home.study(id)
            folder.root.mkdir(parents=True)
            folder.presence.write_text(json.dumps(here | values))
            if id != "killed@base":
                stack.enter_context(Journal(folder.journal, folder.lock))
        torn = home.study("torn@base")
        stack.enter_context(Journal(torn.journal, torn.lock))
        torn.presence.write_text('{"host"')
        mine.fill()
        assert (mine.running, mine.neighbours.names()) == (4, [])
        assert not home.study("killed@base").presence.exists()
