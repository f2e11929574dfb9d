"""A driver whose study another host has taken over: it records nothing, trains nothing, and leaves requests alone."""

import os
import random
from pathlib import Path

import pytest

from service.analysis.study_status import one_status
from service.execution.driver import DriverPolls
from service.execution.other_drivers import Neighbours
from service.execution.signals import Control, ask_driver, change, request
from service.planning.placement import Placement
from service.planning.run_options import RunOptions
from service.removal import forgettable
from service.run_study import run_study
from service.storage.facts import Ended, Measured
from service.storage.home import Home
from service.storage.journal import Journal, read
from service.storage.leases import Host, Session, TakenOverError
from service.storage.outcomes import Outcomes
from service.terminal.live import Progress
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import Toy, conduct, driving, measure, message
from trainables.launch.job import Job
from trainables.spec import LocusError

FAR = Host("far", "start of far")


def far(home: Home, stale_s: float = 0.0) -> Journal:
    """The journal of a driver on another host, whose file system has no locks between hosts."""
    folder = home.study(arms().id)
    return Journal(folder.journal, folder.root / "lock of far", Session(folder.drivers, FAR, stale_s=stale_s))


def answers(home: Home) -> list[Path]:
    return sorted(path for path in home.outcomes.glob("[!.]*/*") if path.is_file())


def stopped_before_its_last_epoch(driver) -> Job:
    """A run of which all epochs but the last are measured."""
    job = driver.next()
    for epoch in range(1, job.run.recipe.optimizer.epochs):
        assert driver.on_result(job, message(measure(job.run, epoch), job))
    return job


def test_no_fact_and_no_answer_after_it(home: Home) -> None:
    with driving(home, arms()) as driver:
        job = stopped_before_its_last_epoch(driver)
        last = message(measure(job.run, job.run.recipe.optimizer.epochs), job)
        with far(home):
            before = driver.folder.journal.read_bytes()
            for record in (
                lambda: driver.on_result(job, last),
                lambda: driver.on_failure(job, reason="the worker died"),
                lambda: driver.next(),
            ):
                with pytest.raises(
                    TakenOverError, match=r"^another driver, on far \(process \d+\), has taken arms@base"
                ):
                    record()
            assert driver.folder.journal.read_bytes() == before
            assert answers(home) == []
    assert not [fact for fact in facts(home, arms(), Ended)]


def test_no_folder_of_a_run_is_begun_that_the_other_one_may_train(home: Home) -> None:
    with driving(home, arms()) as driver:
        driver.next()
        with far(home), pytest.raises(TakenOverError):
            driver.next()
        assert len([*driver.folder.root.glob("work/*/*/*")]) == 1


def test_it_notices_within_a_second_and_takes_no_request_of_the_other_one(home: Home) -> None:
    with driving(home, arms()) as driver:
        attention = DriverPolls(driver, lambda line: None)
        attention.look()
        with far(home):
            ask_driver(driver.folder, Control(stop="now"))
            with pytest.raises(TakenOverError):
                attention.look()
            assert driver.folder.control.exists()


def test_the_other_one_goes_on_where_it_was(home: Home) -> None:
    calm = Home(home.root / "calm")
    conduct(calm, arms())
    with driving(home, arms()) as driver:
        job = stopped_before_its_last_epoch(driver)
        with far(home) as journal:
            known = [fact for fact in journal.facts if isinstance(fact, Measured)]
            assert [fact.run for fact in known] == [job.run.key] * (job.run.recipe.optimizer.epochs - 1)
            with pytest.raises(TakenOverError):
                driver.on_failure(job, reason="the worker died")
    conduct(home, arms())
    assert {fact.run for fact in facts(home, arms(), Ended)} == {fact.run for fact in facts(calm, arms(), Ended)}
    for one in facts(calm, arms(), Ended):
        assert Outcomes(home).get(one.run, one.code).repeats(Outcomes(calm).get(one.run, one.code))


def test_what_the_other_one_told_its_neighbours_stays(home: Home) -> None:
    placement = Placement(max_concurrent=2, fits=2)
    neighbours = Neighbours(home, arms().id, placement)
    presence = home.study(arms().id).presence
    presence.parent.mkdir(parents=True)
    neighbours.tell()
    neighbours.close()
    assert not presence.exists()
    neighbours.tell()
    told = presence.read_text().replace(neighbours._told.host, "far")
    presence.write_text(told)
    neighbours.close()
    assert presence.read_text() == told


def test_a_driver_on_another_host_is_named(home: Home) -> None:
    conduct(home, arms())
    folder, who = home.study(arms().id), rf"on far \(process {os.getpid()}\)"
    assert one_status(home, arms().id).host == ""
    with far(home):
        assert folder.driven
        assert folder.driver.host == FAR
        found = one_status(home, arms().id)
        assert (found.state, found.host) == ("running", "far")
        assert str(found).startswith("arms@base: running on far, 6 of 6 runs")
        with pytest.raises(
            LocusError,
            match=rf"^arms@base must have ended to be forgotten, but a driver runs it {who}; nothing was removed$",
        ):
            forgettable(home, arms().id)
        said = str(change(arms(), home, RunOptions()))
        assert (
            said
            == f"arms@base is being run by another driver, {folder.driver}, which does all of this; see locus status"
        )
        with pytest.raises(LocusError, match=rf"^arms@base is being run by another driver, {who}, which does all"):
            run_study(arms(), RunOptions(home=str(home.root)), Progress(arms()))
    assert not folder.driven
    with pytest.raises(LocusError, match="is not being run here"):
        request(home, arms().id, Control(stop="now"))


def test_a_driver_of_this_machine_has_no_host(home: Home) -> None:
    with driving(home, arms()) as driver:
        assert driver.folder.driver.pid == os.getpid()
        assert one_status(home, arms().id).host == ""
        Toy(driver, random.Random(0)).drive()
    assert len(read(driver.folder.journal)[0]) > 6
