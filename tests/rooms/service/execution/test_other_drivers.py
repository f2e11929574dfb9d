"""Drivers beside each other: on one machine, of one home, and one that another host has taken over."""

import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from search_spaces.study import Ablation, Edition, Study
from service.analysis.study_status import one_status
from service.execution import other_drivers
from service.execution.driver import FINISHED, DriverPolls
from service.execution.other_drivers import ASKS_S, InFlight, Neighbours, Presence
from service.execution.signals import Control, ask_driver, change, request
from service.execution.tune import DriverSearcher
from service.planning.placement import Placement
from service.planning.run_options import RunOptions
from service.removal import forgettable
from service.run_study import run_study
from service.storage.facts import Ended, Measured
from service.storage.home import Home
from service.storage.journal import Journal
from service.storage.leases import Host, Session, TakenOverError
from service.storage.outcomes import Outcomes
from service.terminal.live import Progress
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.service.planning.situations import BASE
from tests.rooms.toy import Toy, cliff, conduct, driving, measure, message
from trainables.launch.job import Job
from trainables.spec import LocusError


@pytest.fixture(autouse=True)
def _short_turns(monkeypatch) -> None:
    """No clock runs in these tests, so a turn is over as soon as a run has ended."""
    monkeypatch.setattr(other_drivers, "TURN_S", 0.0)


class Counted:
    """A driver that trains as many runs as it is admitted to, and ends one when told."""

    def __init__(self, home: Home, stack: ExitStack, id: str, fits: int, most: int) -> None:
        folder = home.study(id)
        stack.enter_context(Journal(folder.journal, folder.lock))
        self.neighbours = Neighbours(home, id, Placement(max_concurrent=most, fits=fits))
        self.running, self.trained, self.fits, self.most = 0, 0, fits, most
        self.neighbours.tell()

    def fill(self) -> int:
        while self.running < self.most and self.neighbours.admit(self.running, self.most):
            self.running += 1
            self.trained += 1
        return self.running

    def end(self) -> None:
        self.running -= self.running > 0
        self.neighbours.tell(self.running)


@pytest.fixture
def begin(home: Home):
    """Begins drivers of one home: `begin(id, fits, most)`."""
    with ExitStack() as stack:
        yield partial(Counted, home, stack)


@settings(max_examples=25)
@example(sizes=[(8, 8), (1, 1)], turns=[])
@example(sizes=[(1, 1), (1, 1)], turns=[])
@given(
    sizes=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=1, max_size=4),
    turns=st.lists(st.integers(0, 3), max_size=12),
)
def test_together_they_never_need_more_than_there_is_and_each_comes_next(tmp_path_factory, sizes, turns) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    with ExitStack() as stack:
        drivers = []
        for number, (fits, most) in enumerate(sizes):
            drivers.append(Counted(home, stack, f"s{number}@base", fits, min(most, fits)))
            drivers[0].fill()
        for turn in [*turns, *range(4 * 4 * 9)]:
            first = turn % len(drivers)
            drivers[first].end()
            for driver in drivers[first:] + drivers[:first]:
                driver.fill()
            assert sum(driver.running / driver.fits for driver in drivers) <= 1 + 1e-9
            if turn > 2 * 9 and all(driver.trained for driver in drivers):
                break
        assert all(driver.trained for driver in drivers), "one waits for ever"


def test_the_second_waits_until_the_first_has_run_down_to_its_half(begin) -> None:
    first = begin("first@base", 8, 8)
    assert first.fill() == 8, "alone it has the whole machine"
    second = begin("second@base", 8, 8)
    assert second.fill() == 0
    assert [*second.neighbours.others] == ["first@base"]
    for _ in range(4):
        first.end()
        first.fill()
        second.fill()
    assert (first.running, second.running) == (4, 4)
    second.neighbours.close()
    assert first.fill() == 8


def test_who_asks_for_few_leaves_the_rest(begin) -> None:
    """A study with one concurrent run takes an eighth of a machine on which eight fit."""
    small = begin("small@base", 8, 1)
    assert (small.fill(), begin("large@base", 8, 8).fill()) == (1, 4)


def test_a_turn_lasts_for_several_runs(begin, monkeypatch) -> None:
    """A driver that gave up its place after each run would start Ray again for each short run."""
    monkeypatch.setattr(other_drivers, "TURN_S", 1000.0)
    first, other = (begin(f"{name}@base", 1, 1) for name in ("first", "other"))
    for _ in range(3):
        first.fill(), other.fill()
        first.end(), other.end()
    assert (first.trained, other.trained) == (3, 0)
    monkeypatch.setattr(other_drivers, "TURN_S", 0.0)
    assert (first.fill(), other.fill()) == (0, 1), "the turn is over, and the other one waited"
    monkeypatch.setattr(other_drivers, "TURN_S", 1000.0)
    other.end()
    assert (other.fill(), first.fill()) == (1, 0), "it has a turn, too, although the first one waits again"


def test_a_driver_that_was_suspended_holds_nobody_up(begin, monkeypatch) -> None:
    small, whole = begin("small@base", 8, 8), begin("whole@base", 1, 1)
    small.fill()
    whole.fill()
    small.end()
    assert small.fill() == 3, "the other one waits"
    monkeypatch.setattr(other_drivers, "ASKS_S", 0.0)
    assert small.fill() == 4, "its share, as soon as the other one asks no more"


def test_a_clock_that_is_set_back_lets_nobody_wait_for_a_driver_that_asks_no_more(begin, monkeypatch) -> None:
    later = time.monotonic() + ASKS_S + 1
    first, suspended, third = (begin(f"{name}@base", 1, 1) for name in ("a", "b", "c"))
    for driver in (first, suspended, third):
        driver.fill()
    first.neighbours.close()
    hour_before = time.time() - 3600
    monkeypatch.setattr(time, "time", lambda: hour_before)
    monkeypatch.setattr(time, "monotonic", lambda: later)
    assert third.fill() == 1


def test_only_living_drivers_of_this_machine_and_device_count(home, begin) -> None:
    mine = begin("mine@base", 4, 4)
    here = Presence(mine.neighbours._told.host, "cpu", running=4, fits=4).__dict__
    others = {"killed@base": here, "far@base": here | {"host": "another"}, "gpu@base": here | {"device": "cuda"}}
    with ExitStack() as stack:
        for id, presence in (others | {"torn@base": None}).items():
            folder = home.study(id)
            folder.root.mkdir(parents=True)
            folder.presence.write_text(json.dumps(presence) if presence else '{"host"')
            if id != "killed@base":
                stack.enter_context(Journal(folder.journal, folder.lock))
        assert (mine.fill(), mine.neighbours.others) == (4, {})
    assert not home.study("killed@base").presence.exists()


def test_what_a_driver_of_another_host_told_its_neighbours_stays(begin) -> None:
    neighbours = begin("mine@base", 2, 2).neighbours
    neighbours.close()
    assert not neighbours.path.exists()
    neighbours.tell()
    presence = neighbours.path.read_text().replace(neighbours._told.host, "far")
    neighbours.path.write_text(presence)
    neighbours.close()
    assert neighbours.path.read_text() == presence


def test_one_driver_holds_a_run_and_gives_it_back(tmp_path) -> None:
    """Runs are claimed in the thread in which Ray works, and given back in another."""
    first, other, third = (InFlight(Home(tmp_path)) for _ in range(3))
    thread = threading.Thread(target=first.claim, args=("run", "code"))
    thread.start()
    thread.join()
    assert not other.claim("run", "code")
    other.look()
    assert (other.keys, other.jobs) == ({"run"}, {})
    assert third.claim("run", "another code"), "another code gives another answer"
    assert other.claim("another run", "code")
    third.close()
    first.end("run")
    other.look()
    assert other.keys == set()
    assert other.claim("run", "code")
    other.close()
    assert first.claim("run", "code")
    first.close()
    assert not list((tmp_path / "outcomes" / ".claims").iterdir()), "no file stays for a run that nobody trains"


HOLDER = """
import sys
from pathlib import Path
from service.execution.other_drivers import InFlight
from service.storage.home import Home

held = InFlight(Home(Path(sys.argv[1])))
print(held.claim("run", "code"), flush=True)
sys.stdin.read()
"""


def test_a_killed_process_holds_nothing(tmp_path) -> None:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLDER, tmp_path], **pipes) as holder:
        assert holder.stdout.readline() == "True\n"
        mine = InFlight(Home(tmp_path))
        assert not mine.claim("run", "code")
        holder.kill()
        holder.wait()
        mine.look()
        assert mine.claim("run", "code")


def study(name: str, arms: list[str], seeds: int = 1) -> Edition:
    values = {arm: {} if arm == "none" else {"encoding.gamma": float(arm)} for arm in arms}
    return Study(name=name, question="?", base=BASE, plan=Ablation(arms=values, baseline=arms[0]), seeds=seeds).at()


@settings(max_examples=12)
@given(
    arms=st.lists(
        st.lists(st.sampled_from(["none", "2.0", "3.0", "30.0"]), min_size=2, unique=True), min_size=2, max_size=3
    ),
    seeds=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    chance=st.randoms(use_true_random=False),
)
def test_each_run_of_studies_of_one_home_is_trained_once(tmp_path_factory, arms, seeds, chance) -> None:
    """All are driven to their end, a step of one and a step of another as chance decides."""
    home = Home(tmp_path_factory.mktemp("home"))
    editions = [study(f"s{number}", names, seeds[number]) for number, names in enumerate(arms)]
    with ExitStack() as stack:
        drivers = [stack.enter_context(driving(home, edition)) for edition in editions]
        toys = [Toy(driver, chance, chance.randint(1, 3)) for driver in drivers]
        ended = [False] * len(toys)
        while not all(ended):
            ended = [toy._fill() and not toy.workers for toy in toys]
            busy = [toy for toy in toys if toy.workers]
            assert all(ended) or busy, "each waits for the other"
            keys = [key for toy in busy for key in toy.workers]
            assert len(keys) == len(set(keys)), "two drivers train one run at the same time"
            if busy:
                toy = chance.choice(busy)
                toy._advance(chance.choice(sorted(toy.workers)))
    assert {*sum((toy.trained for toy in toys), start=Counter()).values()} <= {1}
    for edition, driver in zip(editions, drivers, strict=True):
        for trial in driver.history.trials:
            for run in driver.history.runs(trial).values():
                assert driver.history.state(run).status == ("diverged" if cliff(run) else "completed")
        assert conduct(home, edition).trained == {}, "nothing is missing"
    assert not list(home.claims.iterdir())


def test_what_fails_elsewhere_is_trained_here(home) -> None:
    edition, other = study("one", ["none", "2.0"]), study("other", ["none", "2.0"])
    with driving(home, edition) as first, driving(home, other) as second:
        job, rival = first.next(), second.next()
        assert {job.run.key, rival.run.key} == {trial.run(0).key for trial in second.history.trials}
        assert second.next() is None
        notes: list[str] = []
        polls = DriverPolls(second, notes.append)
        polls.look()
        polls.look()
        assert notes == ["another study of this home trains 1 run of this one; its answers are used here"]
        first.on_failure(job, reason="the worker died", final=True)
        assert second.next().run.key == job.run.key


def test_a_study_with_nothing_to_train_waits_for_nobody(home) -> None:
    """The neighbour uses the whole machine; what is only to be reused needs none of it."""
    conduct(home, study("one", ["none", "2.0"]))
    with ExitStack() as stack:
        drivers = []
        for name, gamma in (("neighbour", "3.0"), ("again", "2.0"), ("more", "30.0")):
            edition, one_place = study(name, ["none", gamma]), Placement(max_concurrent=1, fits=1)
            drivers.append(
                stack.enter_context(driving(home, edition, neighbours=Neighbours(home, edition.id, one_place)))
            )
            drivers[-1].placement = one_place
            if name == "neighbour":
                assert isinstance(drivers[0].next(), Job)
            if name == "again":
                assert drivers[1].next() is FINISHED
                drivers[1].in_flight.close()
        assert drivers[2].next() is None
        assert DriverSearcher(drivers[2]).suggest("1") == "FINISHED", "Tune would wait for minutes"
        notes: list[str] = []
        DriverPolls(drivers[2], notes.append).look()
        assert notes == ["this machine is shared with neighbour@base: at most 1 concurrent run here"]


def test_a_serial_search_waits_for_a_point_that_is_trained_elsewhere(home) -> None:
    """It would propose the next point without the score of this one, and another search would come out."""
    with driving(home, search()) as first, driving(home, search(name="twin")) as second:
        first.placement = second.placement = Placement(max_concurrent=1)
        job = first.next()
        assert second.next() is None
        assert len(second.history.trials) == 1
        first.release(job)
        assert second.next().run.key == job.run.key


FAR = Host("far", "start of far")


def far(home: Home) -> Journal:
    """The journal of a driver on another host, whose file system has no locks between hosts."""
    folder = home.study(arms().id)
    return Journal(folder.journal, folder.root / "lock of far", Session(folder.drivers, FAR, stale_s=0.0))


def stopped_before_its_last_epoch(driver) -> Job:
    """A run of which all epochs but the last are measured."""
    job = driver.next()
    for epoch in range(1, job.run.recipe.optimizer.epochs):
        assert driver.on_result(job, message(measure(job.run, epoch), job))
    return job


def test_a_driver_that_was_taken_over_records_begins_and_reads_nothing(home: Home) -> None:
    with driving(home, arms()) as driver:
        job = stopped_before_its_last_epoch(driver)
        last = message(measure(job.run, job.run.recipe.optimizer.epochs), job)
        polls = DriverPolls(driver, lambda line: None)
        polls.look()
        with far(home):
            before = driver.folder.journal.read_bytes()
            ask_driver(driver.folder, Control(stop="now"))
            for act in (
                lambda: driver.on_result(job, last),
                lambda: driver.on_failure(job, reason="the worker died"),
                driver.next,
                polls.look,
            ):
                with pytest.raises(TakenOverError, match=r"^another driver, on far \(process \d+\), has taken arms@b"):
                    act()
            assert driver.folder.journal.read_bytes() == before
            assert [path for path in home.outcomes.glob("[!.]*/*") if path.is_file()] == []
            assert len([*driver.folder.root.glob("work/*/*/*")]) == 1, "no folder that the other one may use"
            assert driver.folder.control.exists(), "the request is the other one's"
    assert not facts(home, arms(), Ended)


def test_the_other_one_goes_on_where_it_was(home: Home) -> None:
    calm = Home(home.root / "calm")
    conduct(calm, arms())
    with driving(home, arms()) as driver:
        job = stopped_before_its_last_epoch(driver)
        with far(home) as journal:
            measured = [fact.run for fact in journal.facts if isinstance(fact, Measured)]
            assert measured == [job.run.key] * (job.run.recipe.optimizer.epochs - 1)
            with pytest.raises(TakenOverError):
                driver.on_failure(job, reason="the worker died")
    conduct(home, arms())
    assert {fact.run for fact in facts(home, arms(), Ended)} == {fact.run for fact in facts(calm, arms(), Ended)}
    for fact in facts(calm, arms(), Ended):
        assert Outcomes(home).get(fact.run, fact.code).repeats(Outcomes(calm).get(fact.run, fact.code))


def test_a_driver_on_another_host_is_named(home: Home) -> None:
    with driving(home, arms()) as driver:
        assert driver.folder.driver.pid == os.getpid()
        assert one_status(home, arms().id).host == "", "of this machine"
        Toy(driver, random.Random(0)).drive()
    folder, who = home.study(arms().id), rf"on far \(process {os.getpid()}\)"
    is_run = "arms@base is being run by another driver"
    with far(home):
        assert (folder.driven, folder.driver.host) == (True, FAR)
        status = one_status(home, arms().id)
        assert (status.state, status.host) == ("running", "far")
        assert str(status).startswith("arms@base: running on far, 6 of 6 runs")
        refused = rf"^arms@base must have ended to be forgotten, but a driver runs it {who}; nothing was removed$"
        with pytest.raises(LocusError, match=refused):
            forgettable(home, arms().id)
        sentence = f"{is_run}, {folder.driver}, which does all of this; see locus status"
        assert str(change(arms(), home, RunOptions())) == sentence
        with pytest.raises(LocusError, match=rf"^{is_run}, {who}, which does all"):
            run_study(arms(), RunOptions(home=str(home.root)), Progress(arms()))
    assert not folder.driven
    with pytest.raises(LocusError, match="is not being run here"):
        request(home, arms().id, Control(stop="now"))
