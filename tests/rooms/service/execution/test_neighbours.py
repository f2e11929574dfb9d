"""Drivers of a home on one machine: together they never need more than there is, and each gets its part in the end."""

import json
from contextlib import ExitStack

from hypothesis import given, settings
from hypothesis import strategies as st

from service.execution import neighbours
from service.execution.neighbours import Neighbours
from service.planning.placement import Placement
from service.storage.home import Home
from service.storage.journal import Journal


class Driver:
    """Trains as many runs as it has room for; ends one when told."""

    def __init__(self, home: Home, id: str, since: int, fits: int, most: int) -> None:
        self.neighbours, self.running = Neighbours(home, id), 0
        self.neighbours._since = float(since)
        self.placement = Placement(max_concurrent=most, fits=fits)

    def fill(self) -> None:
        while self.running < self.room():
            self.running += 1
        self.room()

    def room(self) -> int:
        return self.neighbours.room(self.running, self.placement)


def begun(home: Home, stack: ExitStack, id: str, since: int, fits: int, most: int) -> Driver:
    folder = home.study(id)
    stack.enter_context(Journal(folder.journal, folder.lock))
    return Driver(home, id, since, fits, most)


@settings(max_examples=30)
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4),
    turns=st.lists(st.integers(0, 3), max_size=12),
)
def test_together_they_never_need_more_than_there_is(tmp_path_factory, sizes, turns) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    with ExitStack() as stack:
        stack.callback(setattr, neighbours, "READ_S", neighbours.READ_S)
        neighbours.READ_S = 0.0
        drivers = []
        for number, (fits, most) in enumerate(sizes):
            drivers.append(begun(home, stack, f"s{number}@base", number, fits, min(most, fits)))
            drivers[-1].room()
            drivers[0].fill()
        for turn in turns:
            driver = drivers[turn % len(drivers)]
            driver.running -= driver.running > 0
            driver.fill()
            assert sum(one.running / one.placement.fits for one in drivers) <= 1 + 1e-9
        for driver in drivers:
            driver.running = min(driver.running, driver.neighbours.part(driver.placement))
            driver.room()
        for driver in drivers:
            driver.fill()
        assert any(driver.running for driver in drivers)
        assert all(driver.running <= driver.neighbours.part(driver.placement) for driver in drivers)


def test_the_second_waits_until_the_first_has_run_down_to_its_half(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(neighbours, "READ_S", 0.0)
    home = Home(tmp_path)
    with ExitStack() as stack:
        first = begun(home, stack, "first@base", 1, 8, 8)
        first.fill()
        assert first.running == 8, "alone it has the whole machine"
        second = begun(home, stack, "second@base", 2, 8, 8)
        second.fill()
        assert second.running == 0
        assert second.neighbours.names() == ["first@base"]
        while first.running > first.room():
            first.running -= 1
        first.fill()
        second.fill()
        assert (first.running, second.running) == (4, 4)
        second.neighbours.close()
        assert first.room() == 8


def test_who_asks_for_few_leaves_the_rest_to_itself_alone(tmp_path, monkeypatch) -> None:
    """A study that trains one run at once takes one part of eight, not the whole machine."""
    monkeypatch.setattr(neighbours, "READ_S", 0.0)
    home = Home(tmp_path)
    with ExitStack() as stack:
        small = begun(home, stack, "small@base", 1, 8, 1)
        small.fill()
        large = begun(home, stack, "large@base", 2, 8, 8)
        large.fill()
        assert (small.running, large.running) == (1, 4)


def test_only_living_drivers_of_this_machine_count(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(neighbours, "READ_S", 0.0)
    home = Home(tmp_path)
    with ExitStack() as stack:
        mine = begun(home, stack, "mine@base", 1, 4, 4)
        for id, host in (("killed@base", mine.neighbours._host), ("far@base", "another-machine")):
            folder = home.study(id)
            folder.root.mkdir(parents=True)
            folder.presence.write_text(json.dumps({"host": host, "since": 0.0, "running": 4, "fits": 4}))
        far = home.study("far@base")
        stack.enter_context(Journal(far.journal, far.lock))
        torn = home.study("torn@base")
        stack.enter_context(Journal(torn.journal, torn.lock))
        torn.presence.write_text('{"host"')
        assert mine.room() == 4
        assert mine.neighbours.names() == []
