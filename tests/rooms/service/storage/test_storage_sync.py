"""Room: the end of a study does not wait without end for a storage that stands still."""

import os
import threading

from service.storage import remote
from service.storage.home import Home
from service.storage.leases import Lease
from service.storage.remote import Copies, StorageSync
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import driving


def test_a_storage_that_stands_still_is_said_at_the_end(tmp_path, monkeypatch):
    for name in ("SEND_S", "CLOSE_S"):
        monkeypatch.setattr(remote, name, 0.05)
    asking, beat = threading.Event(), Lease.beat

    def told(lease):
        asking.set()
        return beat(lease)

    home, edition = Home(tmp_path / "home"), arms()
    copies = Copies(f"file://{tmp_path}/there", home, edition.id)
    away = tmp_path / "there" / "studies" / edition.id / "drivers" / "2.json"
    with StorageSync(copies) as mine, driving(home, edition, copies=copies) as driver:
        os.mkfifo(away)  # who reads it waits until another process writes
        monkeypatch.setattr(Lease, "beat", told)
        mine.open(driver.journal)
        assert asking.wait(60)
        thread = mine._thread
        warning = mine.close(driver.history)
    assert warning == (
        f"the storage lacks a part (file://{tmp_path}/there stands still); run the study again to send the rest"
    )
    assert b'"ended": true' not in away.with_name("1.json").read_bytes(), "the next driver looks for signs of life"
    os.close(os.open(away, os.O_RDWR))
    thread.join(60)
    assert not thread.is_alive()
