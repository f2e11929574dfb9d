"""Room: a driver does what another command asks of it while it runs."""

import random

from service.execution.driver import Driver
from service.execution.signals import Control, ask_driver
from service.planning.placement import Placement
from service.storage import editions
from service.storage.facts import Counts, Ended, Started
from service.storage.home import Home
from service.storage.journal import Journal
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import Toy, driving


class Asked(Toy):
    """An engine that lets the driver read its requests after each epoch. `asks`: a request by the epoch it comes at."""

    def __init__(self, driver, asks: dict[int, Control], **more) -> None:
        super().__init__(driver, random.Random(0), **more)
        self.asks, self.epochs, self.most = asks, 0, 0

    def _advance(self, key: str) -> None:
        self.most = max(self.most, len(self.driver.in_flight))
        self.epochs += 1
        if self.epochs in self.asks:
            ask_driver(self.driver.folder, self.asks[self.epochs])
        super()._advance(key)
        self.driver.heed()


def test_what_is_asked_before_the_driver_begins_is_done(home: Home) -> None:
    """The lock is held from here on, so that another command is told that its request will be heard."""
    folder = home.study(arms().id)
    with Journal(folder.journal, folder.lock) as journal:
        editions.save_edition(arms(), home)
        driver = Driver(arms(), home, journal, Placement(max_concurrent=1))
        ask_driver(folder, Control(seeds=4, stop="after the epoch"))
        driver.begin()
        assert driver.heed() == Control(seeds=4, stop="after the epoch")
        assert (driver.history.seeds, driver.stop.asked) == (4, True)


def test_more_seeds_are_trained_by_the_driver_that_runs(home: Home) -> None:
    with driving(home, arms()) as driver:
        Asked(driver, {3: Control(seeds=4)}).drive()
    assert len(facts(home, arms(), Ended)) == 3 * 4
    assert [fact.seeds for fact in facts(home, arms(), Counts)] == [2, 4]


def test_more_trials_too_and_counts_never_fall(home: Home) -> None:
    edition = search(trials=6, stop=None)
    with driving(home, edition) as driver:
        Asked(driver, {3: Control(trials=9), 5: Control(trials=4, seeds=1)}).drive()
        assert len(driver.history.of("trial")) == 9
        assert driver.history.seeds == 2


def test_runs_at_once_change_in_both_directions(home: Home) -> None:
    for number, (asks, most) in enumerate([({}, 2), ({1: Control(max_concurrent=3)}, 3)]):
        there = Home(home.root / str(number))
        with driving(there, arms()) as driver:
            driver.placement = Placement(max_concurrent=2)
            toy = Asked(driver, asks, max_concurrent=8).drive()
            assert toy.most == most
        assert len(facts(there, arms(), Ended)) == 6
    with driving(there := Home(home.root / "fewer"), arms()) as driver:
        driver.placement = Placement(max_concurrent=3)
        Asked(driver, {1: Control(max_concurrent=1)}, max_concurrent=8).drive()
    begun = [fact.placement["max_concurrent"] for fact in facts(there, arms(), Started)]
    assert begun == [3, 3, 3, 1, 1, 1]


def test_a_stop_ends_each_run_at_its_report(home: Home) -> None:
    with driving(home, arms()) as driver:
        Asked(driver, {2: Control(stop="after the epoch")}, max_concurrent=2).drive()
        assert driver.stop.asked
    assert not facts(home, arms(), Ended)
