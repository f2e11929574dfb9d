"""Sessions: one driver at a time, also between hosts whose clocks differ and whose file system has no locks."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.storage.leases import (
    BEAT_S,
    STALE_S,
    HeldError,
    Host,
    Session,
    TakenOverError,
    at_work_elsewhere,
    newest,
)
from tests.waiting import until

HERE, THERE, FAR = (Host(name, f"start of {name}") for name in ("here", "there", "far"))


@pytest.fixture
def drivers(tmp_path: Path) -> Path:
    return tmp_path / "reach@cpu" / "drivers"


def session(drivers: Path, host: Host, **limits) -> Session:
    return Session(drivers, host, **{"beat_s": 60.0, "stale_s": 60.0, **limits})


def begun(drivers: Path, host: Host, **limits) -> Session:
    found = session(drivers, host, **limits)
    found.begin()
    return found


def age(drivers: Path, seconds: float) -> None:
    """Makes the newest driver's last sign of life so old, as a host would leave it that died."""
    found = newest(drivers)
    os.utime(drivers / f"{found.number}.json", (found.beat - seconds, found.beat - seconds))


def test_numbers_rise_and_only_the_newest_file_is_kept(drivers) -> None:
    for number in (1, 2, 3):
        one = begun(drivers, HERE)
        assert one.number == number
        one.end()
        assert [path.name for path in drivers.iterdir()] == [f"{number}.json"]
    assert newest(drivers).ended
    one.begin(above=17)
    assert one.number == 18, "the journal knows of more drivers than the folder"
    one.end()


def test_a_driver_on_another_host_is_refused_until_it_gives_no_sign_of_life(drivers) -> None:
    assert 10 * BEAT_S <= STALE_S, "the limits leave room for a busy host"
    first = begun(drivers, THERE)
    age(drivers, 50)
    sentence = rf"^reach@cpu is being run by another driver, on there \(process {os.getpid()}\); see locus status$"
    with pytest.raises(HeldError, match=sentence):
        session(drivers, HERE).begin()
    first.look()
    age(drivers, 59)
    assert at_work_elsewhere(drivers, HERE).number == 1
    age(drivers, 2)
    assert at_work_elsewhere(drivers, HERE) is None
    second = begun(drivers, HERE)
    assert second.number == 2
    why = rf"^another driver, on here \(process {os.getpid()}\), has taken reach@cpu over, because it saw no sign of li"
    for look in (first.look, first.recall):
        with pytest.raises(TakenOverError, match=why):
            look()
    second.look()
    first.end()
    assert (newest(drivers).number, newest(drivers).ended) == (2, False), "who lost the study leaves the other's file"
    second.end()


def test_a_driver_that_ended_or_was_on_this_machine_holds_nobody_up(drivers) -> None:
    begun(drivers, THERE).end()
    killed = begun(drivers, Host("container", HERE.boot))
    assert at_work_elsewhere(drivers, HERE) is None, "the lock, which the next one has, tells that it is dead"
    after = begun(drivers, HERE)
    assert after.number == 3
    with pytest.raises(TakenOverError):
        killed.look()
    after.end()
    killed.end()


@pytest.mark.parametrize("content", ["", "{", '{"host": 3}', "[]"])
def test_a_file_that_is_not_written_yet_counts_as_a_driver(drivers, content: str) -> None:
    drivers.mkdir(parents=True)
    (drivers / "4.json").write_text(content)
    with pytest.raises(HeldError, match="by another driver, which begins at this moment; see locus status"):
        session(drivers, HERE).begin()
    age(drivers, 61)
    one = begun(drivers, HERE)
    assert one.number == 5
    one.end()


@pytest.mark.parametrize(("hours", "seconds"), [(-5, 61), (5, 61), (0, -7200)])
def test_the_clock_of_a_host_does_not_matter_nor_a_time_in_the_future(drivers, monkeypatch, hours, seconds) -> None:
    """The clock of the file server was put back, too: a driver that lives has touched its file since."""
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 3600 * hours)
    first = begun(drivers, THERE)
    with pytest.raises(HeldError):
        session(drivers, HERE).begin()
    age(drivers, seconds)
    begun(drivers, HERE).end()
    first.end()


def test_the_heartbeat_keeps_a_study_and_finds_out_that_it_is_lost(drivers) -> None:
    first = begun(drivers, THERE, beat_s=0.05)
    for _ in range(3):
        age(drivers, 61)
        until(lambda: at_work_elsewhere(drivers, HERE))
        with pytest.raises(HeldError):
            session(drivers, HERE).begin()
    (drivers / "1.json").unlink()
    until(lambda: first._lost is not None)
    with pytest.raises(TakenOverError, match=r"1\.json must be there while this driver runs reach@cpu, got none"):
        first.recall()
    first.end()
    assert not first._thread.is_alive()


def test_no_heartbeat_keeps_a_process_alive(drivers) -> None:
    code = (
        "import sys; from pathlib import Path; from service.storage.leases import Session\n"
        "Session(Path(sys.argv[1]), beat_s=0.01).begin(); print('began')"
    )
    done = subprocess.run([sys.executable, "-c", code, str(drivers)], capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.returncode) == ("began\n", 0), done.stderr
    assert not newest(drivers).ended


def race(drivers: Path, count: int) -> list[int]:
    """The numbers that drivers get of so many which begin at the same moment, each on a host of its own."""
    gate, numbers = threading.Barrier(count), []

    def begin(place: int) -> None:
        one = session(drivers, Host(f"host{place}", f"start{place}"))
        gate.wait()
        try:
            one.begin()
        except HeldError:
            return
        numbers.append(one.number)
        one._over.set()

    threads = [threading.Thread(target=begin, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return numbers


def test_of_those_that_begin_at_the_same_moment_one_wins(tmp_path: Path) -> None:
    for attempt in range(60):
        drivers = tmp_path / str(attempt)
        assert race(drivers, 5) == [1], attempt
        age(drivers, 61)
        assert race(drivers, 5) == [2], "one that takes over"


def test_a_full_disk_leaves_no_file_that_holds_others_up(drivers, monkeypatch) -> None:
    def full(*given, **more):
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        session(drivers, HERE).begin()
    assert newest(drivers) is None


class Late(Session):
    """Between its look and its own file another driver begins and ends, and a third one begins."""

    other: Session | None = None

    def _create(self, number: int, before: set[int]) -> bool:
        if self.other is None:
            begun(self.folder, THERE).end()
            self.other = begun(self.folder, FAR)
        return super()._create(number, before)


def test_a_number_that_was_given_back_is_not_taken_again(drivers) -> None:
    late = Late(drivers, HERE)
    with pytest.raises(HeldError, match="another driver, on far"):
        late.begin()
    late.other.look()
    assert [path.name for path in drivers.iterdir()] == ["2.json"]
    late.other.end()


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["begin", "look", "end", "sleep", "lose the folder"]), st.integers(0, 2)),
        max_size=25,
    )
)
def test_whoever_may_write_is_the_only_one(tmp_path_factory, steps) -> None:
    """Three hosts in any order of steps: at most one may write, it has the greatest number, and none is forgotten."""
    drivers = tmp_path_factory.mktemp("home") / "drivers"
    hosts, mine, highest = (HERE, THERE, FAR), {}, 0
    for step, place in steps:
        if step == "sleep" and newest(drivers):
            age(drivers, 61)
        elif step == "lose the folder":
            for path in drivers.glob("*"):
                path.unlink()
        elif step == "begin" and place not in mine:
            one = session(drivers, hosts[place])
            try:
                one.begin(above=highest)  # as the journal tells
            except HeldError:
                continue
            assert one.number > highest
            mine[place], highest = one, one.number
        elif step == "end" and place in mine:
            mine.pop(place).end()
        elif step == "look" and place in mine:
            try:
                mine[place].look()
            except TakenOverError:
                mine.pop(place).end()
        alive = [one for one in mine.values() if (drivers / f"{one.number}.json").exists()]
        assert len(alive) <= 1
        assert all(one.number == highest for one in alive)
    for one in mine.values():
        one.end()
