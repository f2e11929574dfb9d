"""Sessions: one driver at a time, also between hosts whose clocks differ and whose file system has no locks."""

import json
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


def drivers(root: Path) -> Path:
    return root / "reach@cpu" / "drivers"


def session(root: Path, host: Host, **limits) -> Session:
    return Session(drivers(root), host, **{"beat_s": 60.0, "stale_s": 60.0, **limits})


def age(root: Path, seconds: float) -> None:
    """Makes the newest driver's last sign of life so old, as a host would leave it that died."""
    found = newest(drivers(root))
    os.utime(drivers(root) / f"{found.number}.json", (found.beat - seconds, found.beat - seconds))


def begun(root: Path, host: Host, **limits) -> Session:
    found = session(root, host, **limits)
    found.begin()
    return found


def test_numbers_rise_and_only_the_newest_file_is_kept(tmp_path: Path) -> None:
    for number in (1, 2, 3):
        one = begun(tmp_path, HERE)
        assert one.number == number
        one.end()
        assert [path.name for path in drivers(tmp_path).iterdir()] == [f"{number}.json"]
    assert newest(drivers(tmp_path)).ended
    one.begin(above=17)
    assert one.number == 18, "the journal knows of more drivers than the folder"
    one.end()


def test_a_driver_on_another_host_is_refused_until_it_gives_no_sign_of_life(tmp_path: Path) -> None:
    first = begun(tmp_path, THERE)
    sentence = rf"^reach@cpu is being run by another driver, on there \(process {os.getpid()}\); see locus status$"
    age(tmp_path, 50)
    with pytest.raises(HeldError, match=sentence):
        session(tmp_path, HERE).begin()
    first.look()
    age(tmp_path, 59)
    assert at_work_elsewhere(drivers(tmp_path), HERE).number == 1
    age(tmp_path, 2)
    assert at_work_elsewhere(drivers(tmp_path), HERE) is None
    second = begun(tmp_path, HERE)
    assert second.number == 2
    said = (
        rf"^another driver, on here \(process {os.getpid()}\), has taken reach@cpu over, because it saw no sign of life"
    )
    with pytest.raises(TakenOverError, match=said):
        first.look()
    with pytest.raises(TakenOverError, match=said):
        first.recall()
    second.look()
    first.end()
    assert newest(drivers(tmp_path)).number == 2, "who has lost the study leaves the other one's file"
    assert not newest(drivers(tmp_path)).ended
    second.end()


def test_a_driver_that_ended_or_was_on_this_machine_holds_nobody_up(tmp_path: Path) -> None:
    begun(tmp_path, THERE).end()
    killed = begun(tmp_path, Host("container", HERE.boot))
    assert at_work_elsewhere(drivers(tmp_path), HERE) is None, "the lock, which the next one has, tells that it is dead"
    after = begun(tmp_path, HERE)
    assert after.number == 3
    with pytest.raises(TakenOverError):
        killed.look()
    after.end()
    killed.end()


@pytest.mark.parametrize("content", ["", "{", '{"host": 3}', "[]"])
def test_a_file_that_is_not_written_yet_counts_as_a_driver(tmp_path: Path, content: str) -> None:
    drivers(tmp_path).mkdir(parents=True)
    (drivers(tmp_path) / "4.json").write_text(content)
    with pytest.raises(HeldError, match="by another driver, which begins at this moment; see locus status"):
        session(tmp_path, HERE).begin()
    age(tmp_path, 61)
    one = begun(tmp_path, HERE)
    assert one.number == 5
    one.end()


@pytest.mark.parametrize("hours", [-5, 5])
def test_the_clock_of_a_host_does_not_matter(tmp_path: Path, monkeypatch, hours: int) -> None:
    right = time.time
    monkeypatch.setattr(time, "time", lambda: right() + 3600 * hours)
    first = begun(tmp_path, THERE)
    with pytest.raises(HeldError):
        session(tmp_path, HERE).begin()
    age(tmp_path, 61)
    begun(tmp_path, HERE).end()
    first.end()


def test_a_time_in_the_future_holds_nobody_up(tmp_path: Path) -> None:
    """The clock of the file server was put back: a driver that lives has touched its file since."""
    first = begun(tmp_path, THERE)
    age(tmp_path, -7200)
    begun(tmp_path, HERE).end()
    first.end()


def test_the_heartbeat_keeps_a_study_and_finds_out_that_it_is_lost(tmp_path: Path) -> None:
    first = begun(tmp_path, THERE, beat_s=0.05)
    for _ in range(3):
        age(tmp_path, 61)
        until(lambda: at_work_elsewhere(drivers(tmp_path), HERE))
        with pytest.raises(HeldError):
            session(tmp_path, HERE).begin()
    (drivers(tmp_path) / "1.json").unlink()
    until(lambda: first._lost is not None)
    with pytest.raises(TakenOverError, match=r"1\.json must be there while this driver runs reach@cpu, got none"):
        first.recall()
    first.end()


def test_no_heartbeat_after_the_end_and_none_keeps_a_process_alive(tmp_path: Path) -> None:
    one = begun(tmp_path, HERE, beat_s=0.02)
    one.end()
    until(lambda: not one._thread.is_alive())
    code = (
        "import sys; from pathlib import Path; from service.storage.leases import Session\n"
        "Session(Path(sys.argv[1]), beat_s=0.01).begin(); print('began')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(drivers(tmp_path))], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("began\n", 0), done.stderr
    assert not newest(drivers(tmp_path)).ended


def test_the_limits_leave_room_for_a_busy_host() -> None:
    assert 10 * BEAT_S <= STALE_S


def race(root: Path, count: int) -> list[int | None]:
    """So many drivers of as many hosts that begin at the same moment: each one's number, None where it was refused."""
    gate, numbers = threading.Barrier(count), [None] * count

    def begin(place: int) -> None:
        one = session(root, Host(f"host{place}", f"start{place}"))
        gate.wait()
        try:
            one.begin()
        except HeldError:
            return
        numbers[place] = one.number
        one._over.set()

    threads = [threading.Thread(target=begin, args=(place,)) for place in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return numbers


def test_of_threads_that_begin_at_the_same_moment_one_wins(tmp_path: Path) -> None:
    for attempt in range(60):
        root = tmp_path / str(attempt)
        numbers = race(root, 5)
        assert [number for number in numbers if number] == [1], attempt
        age(root, 61)
        assert [number for number in race(root, 5) if number] == [2], "one that takes over"


def test_a_full_disk_leaves_no_file_that_holds_others_up(tmp_path: Path, monkeypatch) -> None:
    def full(*given, **more):
        raise OSError("no space left")

    one = session(tmp_path, HERE)
    with monkeypatch.context() as patched:
        patched.setattr(one, "_content", full)
        with pytest.raises(OSError, match="no space left"):
            one.begin()
    assert newest(drivers(tmp_path)) is None


class Late(Session):
    """Between its look and its own file another driver begins and ends, and a third one begins."""

    other: Session | None = None

    def _create(self, number: int, before: set[int]) -> bool:
        if self.other is None:
            for host in (THERE, FAR):
                self.other = Session(self.folder, host)
                self.other.begin()
                if host == THERE:
                    self.other.end()
        return super()._create(number, before)


def test_a_number_that_was_given_back_is_not_taken_again(tmp_path: Path) -> None:
    late = Late(drivers(tmp_path), HERE)
    with pytest.raises(HeldError, match="another driver, on far"):
        late.begin()
    late.other.look()
    assert [path.name for path in drivers(tmp_path).iterdir()] == ["2.json"]
    late.other.end()


RACER = """
import json, sys, time
from pathlib import Path
from service.storage.leases import HeldError, Host, Session
me = sys.argv[2]
print("ready", flush=True)
for line in sys.stdin:
    at, folder = json.loads(line)
    one = Session(Path(folder), Host(me, me), beat_s=60)
    time.sleep(max(at - time.time(), 0))
    try:
        one.begin()
        print(one.number, flush=True)
        one._over.set()
    except HeldError:
        print(0, flush=True)
"""


def test_of_processes_that_begin_at_the_same_moment_one_wins(tmp_path: Path) -> None:
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, "-", f"host{place}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for place in range(3)
    ]
    try:
        assert [racer.stdout.readline() for racer in racers] == ["ready\n"] * 3
        for attempt in range(40):
            start = json.dumps([time.time() + 0.02, str(tmp_path / str(attempt) / "drivers")])
            for racer in racers:
                racer.stdin.write(f"{start}\n")
                racer.stdin.flush()
            assert sorted(int(racer.stdout.readline()) for racer in racers) == [0, 0, 1], attempt
    finally:
        for racer in racers:
            racer.stdin.close()
            racer.wait(60)
            racer.stdout.close()


@settings(max_examples=60)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from(["begin", "look", "end", "sleep", "lose the folder"]), st.integers(0, 2)),
        max_size=25,
    )
)
def test_whoever_may_write_is_the_only_one(tmp_path_factory, steps) -> None:
    """Three hosts in any order of steps: at most one may write, it has the greatest number, and none is forgotten."""
    root = tmp_path_factory.mktemp("home")
    hosts, mine, highest = (HERE, THERE, FAR), {}, 0
    for step, place in steps:
        if step == "sleep" and newest(drivers(root)):
            age(root, 61)
        elif step == "lose the folder":
            for path in drivers(root).glob("*"):
                path.unlink()
        elif step == "begin" and place not in mine:
            one = session(root, hosts[place])
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
        alive = [one for one in mine.values() if (drivers(root) / f"{one.number}.json").exists()]
        assert len(alive) <= 1
        assert all(one.number == highest for one in alive)
    for one in mine.values():
        one.end()
