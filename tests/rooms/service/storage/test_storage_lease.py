"""Room: one driver alone sends to a storage; one that was taken over finds it out."""

import json
import os
import re
import subprocess
import sys
import threading

import pytest

from service.storage import remote
from service.storage.home import Home
from service.storage.leases import HeldError, Lease, TakenOverError
from service.storage.remote import Copies, StorageSync, sent_journal
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import driving
from trainables.remote_files import RemoteFolder


@pytest.fixture(params=["file", "s3"])
def drivers(request, tmp_path):
    return RemoteFolder(request.getfixturevalue("s3") if request.param == "s3" else f"{tmp_path}/there", patience=5)


def elsewhere(drivers: RemoteFolder, number: int, **changes) -> None:
    """The file of a driver on another machine."""
    content = {"host": "far", "pid": os.getpid(), "space": "far", "mark": "x", "ended": False} | changes
    drivers.write(f"{number}.json", json.dumps(content).encode())


def test_the_next_driver_begins_where_the_last_one_ended_died_or_gave_no_sign_of_life(drivers):
    first = Lease("a@b", drivers)
    first.begin()
    with pytest.raises(HeldError, match=r"a@b is being run by another driver with this storage, on .* \(process"):
        Lease("a@b", drivers).begin()
    first.end()
    second = Lease("a@b", drivers)
    second.begin()
    assert (first.number, second.number, drivers.names()) == (1, 2, ["2.json"])
    elsewhere(drivers, 7)
    with pytest.raises(HeldError, match=r"on far \(process .*\); if that machine is dead, try again in 60 s"):
        Lease("a@b", drivers).begin()
    stale = Lease("a@b", drivers, stale_s=0.0)
    stale.begin()
    assert stale.number == 8
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    elsewhere(drivers, 9, space=stale._me["space"], pid=int(dead.stdout))
    again = Lease("a@b", drivers)
    again.begin()
    assert again.number == 10


def test_a_driver_whose_file_is_not_written_yet_holds_the_study_until_the_file_is_stale(drivers):
    drivers.write("1.json", b"")
    with pytest.raises(HeldError, match=r"by another driver with this storage, which begins now; .* again in 60 s"):
        Lease("a@b", drivers).begin()
    stale = Lease("a@b", drivers, stale_s=0.0)
    stale.begin()
    assert (stale.number, drivers.names()) == (2, ["2.json"])


def test_a_driver_that_looked_too_early_takes_no_number_below_another_one(drivers, monkeypatch):
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


def test_of_two_that_have_one_number_since_the_folder_was_emptied_the_later_one_goes_on(drivers):
    first, second = Lease("a@b", drivers), Lease("a@b", drivers)
    first.begin()
    drivers.remove("1.json")
    second.begin()
    assert second.beat() is None
    assert re.match(r"another driver, on .*, has taken a@b over with this storage", first.beat())
    assert second.beat() is None, "the first one has written nothing"


def test_the_next_driver_is_the_newest_one_though_the_folder_of_drivers_was_lost(tmp_path):
    edition, uri = arms(), f"file://{tmp_path}/there"
    for name in ("first", "second", "third"):
        copies = Copies(uri, Home(tmp_path / name), edition.id)
        with StorageSync(copies) as mirror, driving(copies.home, edition, copies=copies) as driver:
            mirror.open(driver.journal)
            driver.begin()
            mirror.close(driver.history)
        if name == "second":
            copies.study.inside("drivers").remove("2.json")
    assert sent_journal(copies.journal) == driver.journal.path.read_bytes()
    assert copies.study.inside("drivers").names() == ["3.json"]


def test_one_of_many_that_begin_together_wins(drivers):
    won: list[int] = []

    def begin() -> None:
        lease = Lease("a@b", drivers)
        try:
            lease.begin()
        except HeldError:
            return
        won.append(lease.number)

    threads = [threading.Thread(target=begin) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [1]


def test_a_driver_that_was_taken_over_ends_and_sends_nothing_more(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "SEND_S", 0.05)
    edition, home = arms(), Home(tmp_path / "home")
    copies = Copies(f"file://{tmp_path}/there", home, edition.id)
    with StorageSync(copies) as mirror, driving(home, edition, copies=copies) as driver:
        mirror.open(driver.journal)
        driver.next()
        elsewhere(copies.study.inside("drivers"), 2)
        mirror._thread.join(20)
        with pytest.raises(TakenOverError, match=r"another driver, on far, has taken arms@base over with this storage"):
            driver.next()
        assert driver.journal.lost
    assert copies.study.inside("drivers").names() == ["1.json", "2.json"]
    assert b'"ended": false' in copies.study.inside("drivers").read("1.json")
