"""A storage that others use, too: one driver alone sends to it, and one that was taken over finds it out.

Files of strangers stay, and the end of a study does not wait without end for a storage that stands still.
"""

import json
import os
import re
import resource
import subprocess
import sys
import threading

import pytest
from filelock import FileLock

from service.storage import remote
from service.storage.home import Home
from service.storage.journal import read
from service.storage.leases import HeldError, Lease, TakenOverError
from service.storage.remote import Copies, JournalCopy, StorageSync, sent_journal
from tests.rooms.service.execution.studies import arms
from tests.rooms.service.storage.sending import command
from tests.rooms.toy import driving
from tests.waiting import until
from trainables.remote_files import RemoteFolder, StorageError


@pytest.fixture
def uri(tmp_path) -> str:
    return f"file://{tmp_path}/there"


@pytest.fixture(params=["file", "s3"])
def drivers(request, tmp_path) -> RemoteFolder:
    return RemoteFolder(request.getfixturevalue("s3") if request.param == "s3" else f"{tmp_path}/there", patience=5)


def begun(drivers: RemoteFolder, **limits) -> Lease:
    lease = Lease("a@b", drivers, **limits)
    lease.begin()
    return lease


def elsewhere(drivers: RemoteFolder, number: int, **changes) -> None:
    """The file of a driver on another machine."""
    content = {"host": "far", "pid": os.getpid(), "space": "far", "mark": "x", "ended": False} | changes
    drivers.write(f"{number}.json", json.dumps(content).encode())


def test_the_next_driver_begins_where_the_last_one_ended_died_or_gave_no_sign_of_life(drivers) -> None:
    first = begun(drivers)
    with pytest.raises(HeldError, match=r"a@b is being run by another driver with this storage, on .* \(process"):
        begun(drivers)
    first.end()
    second = begun(drivers)
    assert (first.number, second.number, drivers.names()) == (1, 2, ["2.json"])
    elsewhere(drivers, 7)
    with pytest.raises(HeldError, match=r"on far \(process .*\); if that machine is dead, try again in 60 s"):
        begun(drivers)
    stale = begun(drivers, stale_s=0.0)
    assert stale.number == 8
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    elsewhere(drivers, 9, space=stale._me["space"], pid=int(dead.stdout))
    assert begun(drivers).number == 10
    drivers.write("11.json", b"")
    with pytest.raises(HeldError, match=r"by another driver with this storage, which begins now; .* again in 60 s"):
        begun(drivers)
    assert begun(drivers, stale_s=0.0).number == 12, "a file that is not written yet holds the study until it is stale"
    assert drivers.names() == ["12.json"]


def test_a_driver_that_looked_too_early_takes_no_number_below_another_one(drivers, monkeypatch) -> None:
    late = Lease("a@b", drivers)
    read = late._read

    def others_come_and_go(number):
        monkeypatch.setattr(late, "_read", read)
        drivers.remove("1.json")
        elsewhere(drivers, 3)
        return None

    elsewhere(drivers, 1)
    monkeypatch.setattr(late, "_read", others_come_and_go)
    with pytest.raises(HeldError, match="which begins now"):
        late.begin()
    assert drivers.names() == ["3.json"]


def test_of_two_that_have_one_number_since_the_folder_was_emptied_the_later_one_goes_on(drivers) -> None:
    first = begun(drivers)
    drivers.remove("1.json")
    second = begun(drivers)
    assert second.beat() is None
    assert re.match(r"another driver, on .*, has taken a@b over with this storage", first.beat())
    assert second.beat() is None, "the first one has written nothing"


def test_one_of_many_that_begin_together_wins(drivers) -> None:
    won: list[int] = []

    def begin() -> None:
        try:
            won.append(begun(drivers).number)
        except HeldError:
            return

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [1]


def test_the_next_driver_is_the_newest_one_though_the_folder_of_drivers_was_lost(tmp_path, uri) -> None:
    for name in ("first", "second", "third"):
        copies = Copies(uri, Home(tmp_path / name), arms().id)
        command(copies.home, arms(), uri)
        if name == "second":
            copies.study.inside("drivers").remove("2.json")
    assert sent_journal(copies.journal) == copies.home.study(arms().id).journal.read_bytes()
    assert copies.study.inside("drivers").names() == ["3.json"]


def test_a_driver_that_was_taken_over_ends_and_sends_nothing_more(tmp_path, uri, monkeypatch) -> None:
    monkeypatch.setattr(remote, "SEND_S", 0.05)
    copies = Copies(uri, Home(tmp_path / "home"), arms().id)
    drivers = copies.study.inside("drivers")
    with StorageSync(copies) as sync, driving(copies.home, arms(), copies=copies) as driver:
        sync.open(driver.journal)
        driver.next()
        elsewhere(drivers, 2)
        sync._thread.join(20)
        with pytest.raises(TakenOverError, match=r"another driver, on far, has taken arms@base over with this storage"):
            driver.next()
        assert driver.journal.lost
    assert drivers.names() == ["1.json", "2.json"]
    assert b'"ended": false' in drivers.read("1.json")


LONG_AGO = 1_000_000_000


@pytest.mark.parametrize(("of", "moment"), [(Copies, "fetch"), (JournalCopy, "remove_older"), (Copies, "keep_missing")])
def test_a_driver_gives_signs_of_life_while_it_fetches_and_while_it_sends(
    tmp_path, uri, monkeypatch, of, moment
) -> None:
    monkeypatch.setattr(remote, "SEND_S", 0.02)
    drivers = Copies(uri, Home(tmp_path / "a"), arms().id).study.inside("drivers")
    plain, seen = getattr(of, moment), []

    def slow(self, *given):
        (mine,) = (tmp_path / "there" / "studies" / arms().id / "drivers").glob("*.json")
        os.utime(mine, (LONG_AGO, LONG_AGO))
        until(lambda: mine.stat().st_mtime > LONG_AGO)
        try:
            begun(drivers)
            seen.append("taken over")
        except HeldError:
            seen.append("held")
        return plain(self, *given)

    monkeypatch.setattr(of, moment, slow)
    command(Home(tmp_path / "a"), arms(), uri)
    assert seen == ["held"]


def test_a_storage_that_stands_still_is_said_at_the_end(tmp_path, uri, monkeypatch) -> None:
    for name in ("SEND_S", "CLOSE_S"):
        monkeypatch.setattr(remote, name, 0.05)
    asking, beat = threading.Event(), Lease.beat
    copies = Copies(uri, Home(tmp_path / "home"), arms().id)
    away = tmp_path / "there" / "studies" / arms().id / "drivers" / "2.json"
    with StorageSync(copies) as mine, driving(copies.home, arms(), copies=copies) as driver:
        os.mkfifo(away)  # who reads it waits until another process writes
        monkeypatch.setattr(Lease, "beat", lambda lease: (asking.set(), beat(lease))[1])
        mine.open(driver.journal)
        assert asking.wait(60)
        warning = mine.close(driver.history)
    assert warning == f"the storage lacks a part ({uri} stands still); run the study again to send the rest"
    assert b'"ended": true' not in away.with_name("1.json").read_bytes(), "the next driver looks for signs of life"
    os.close(os.open(away, os.O_RDWR))
    mine._thread.join(60)
    assert not mine._thread.is_alive()


def test_a_journal_at_the_storage_outlives_a_command_that_looks_at_the_study_at_that_moment(
    tmp_path, uri, monkeypatch
) -> None:
    monkeypatch.setattr(remote, "LOCK_S", 60.0)
    command(Home(tmp_path / "a"), arms(), uri)
    other, copy = Home(tmp_path / "b"), Copies(uri, Home(tmp_path / "a"), arms().id).journal
    first, folder = sent_journal(copy), other.study(arms().id)
    folder.root.mkdir(parents=True)
    looks = FileLock(folder.lock, thread_local=False)  # as `locus status` does
    looks.acquire()
    threading.Timer(0.1, looks.release).start()
    command(other, arms(), uri)
    assert sent_journal(copy).startswith(first)


def test_what_is_removed_is_no_pattern_that_fits_files_of_others() -> None:
    mine, other = (RemoteFolder(f"memory://patterns/{name}/locus") for name in ("[anna]", "a"))
    for folder in (mine, other):
        folder.write("journal/000001/000000.jsonl", b"facts\n")
    for _ in range(2):
        mine.remove("journal/000001")
    assert other.names() == ["journal/000001/000000.jsonl"]
    assert mine.names() == []


def test_files_that_a_disk_server_adds_end_no_study(tmp_path, uri) -> None:
    command(Home(tmp_path / "a"), arms(), uri)
    journal = RemoteFolder(uri).inside(f"studies/{arms().id}/journal")
    for name in ("@eaDir/000001@SynoEAStream", ".DS_Store"):
        journal.write(name, b"")
    for name in (".DS_Store", "000000 (1).jsonl", "000000.conflict.jsonl", "Thumbs.db"):
        journal.write(f"000001/{name}", b"of another\n")
    command(Home(tmp_path / "b"), arms(), uri)
    assert read(Home(tmp_path / "b").study(arms().id).journal)[0]


def test_a_file_that_a_full_disk_did_not_take_leaves_nothing_there(tmp_path, uri) -> None:
    local, folder = tmp_path / "weights.pt", RemoteFolder(uri)
    local.write_bytes(bytes(2**20))
    folder.write("other", b"")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, before[1]))
    try:
        with pytest.raises(StorageError):
            folder.put(local, "weights.pt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["other"]
