"""A storage that others use, too: drivers of other homes, files of strangers, names that are patterns, a full disk."""

import os
import random
import resource
import threading

import pytest
from filelock import FileLock

from service.storage import remote
from service.storage.home import Home
from service.storage.journal import read
from service.storage.leases import HeldError, Lease
from service.storage.remote import Copies, JournalCopy, StorageSync, sent_journal
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import Toy, driving
from tests.waiting import until
from trainables.remote_files import RemoteFolder, StorageError


def command(home, edition, uri):
    copies = Copies(uri, home, edition.id)
    with StorageSync(copies) as sync, driving(home, edition, copies=copies) as driver:
        sync.open(driver.journal)
        Toy(driver, random.Random(0)).drive()
        assert sync.close(driver.history) is None
    return sent_journal(copies.journal)


def test_a_journal_at_the_storage_outlives_a_command_that_looks_at_the_study_at_that_moment(tmp_path, monkeypatch):
    monkeypatch.setattr(remote, "LOCK_S", 60.0)
    uri, edition = f"file://{tmp_path}/there", arms()
    first = command(Home(tmp_path / "a"), edition, uri)
    other = Home(tmp_path / "b")
    folder = other.study(edition.id)
    folder.root.mkdir(parents=True)
    looks = FileLock(folder.lock, thread_local=False)  # as `locus status` does
    looks.acquire()
    threading.Timer(0.1, looks.release).start()
    assert command(other, edition, uri).startswith(first)


LONG_AGO = 1_000_000_000


@pytest.mark.parametrize(("of", "moment"), [(Copies, "fetch"), (JournalCopy, "remove_older"), (Copies, "keep_missing")])
def test_a_driver_gives_signs_of_life_while_it_fetches_and_while_it_sends(tmp_path, monkeypatch, of, moment):
    monkeypatch.setattr(remote, "SEND_S", 0.02)
    uri, edition = f"file://{tmp_path}/there", arms()
    rival = Lease(edition.id, RemoteFolder(uri).inside(f"studies/{edition.id}/drivers"))
    plain, seen = getattr(of, moment), []

    def slow(self, *given):
        (mine,) = (tmp_path / "there" / "studies" / edition.id / "drivers").glob("*.json")
        os.utime(mine, (LONG_AGO, LONG_AGO))
        until(lambda: mine.stat().st_mtime > LONG_AGO)
        try:
            rival.begin()
            seen.append("taken over")
        except HeldError:
            seen.append("held")
        return plain(self, *given)

    monkeypatch.setattr(of, moment, slow)
    try:
        command(Home(tmp_path / "a"), edition, uri)
    except Exception as error:
        seen.append(type(error).__name__)
    assert seen == ["held"]


def test_what_is_removed_is_no_pattern_that_fits_files_of_others():
    mine, other = (RemoteFolder(f"memory://patterns/{name}/locus") for name in ("[anna]", "a"))
    for place in (mine, other):
        place.write("journal/000001/000000.jsonl", b"facts\n")
    mine.remove("journal/000001")
    assert other.names() == ["journal/000001/000000.jsonl"]
    assert mine.names() == []
    mine.remove("journal/000001")


def test_files_that_a_disk_server_adds_end_no_study(tmp_path):
    edition, uri = arms(), f"file://{tmp_path}/there"
    command(Home(tmp_path / "a"), edition, uri)
    RemoteFolder(uri).write(f"studies/{edition.id}/journal/@eaDir/000001@SynoEAStream", b"")
    RemoteFolder(uri).write(f"studies/{edition.id}/journal/.DS_Store", b"")
    for name in (".DS_Store", "000000 (1).jsonl", "000000.conflict.jsonl", "Thumbs.db"):
        RemoteFolder(uri).write(f"studies/{edition.id}/journal/000001/{name}", b"of another\n")
    command(Home(tmp_path / "b"), edition, uri)
    assert read(Home(tmp_path / "b").study(edition.id).journal)[0]


def test_a_file_that_a_full_disk_did_not_take_leaves_nothing_there(tmp_path):
    local, place = tmp_path / "weights.pt", RemoteFolder(f"file://{tmp_path}/there")
    local.write_bytes(bytes(2**20))
    place.write("other", b"")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2**19, before[1]))
    try:
        with pytest.raises(StorageError):
            place.put(local, "weights.pt")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [path.name for path in (tmp_path / "there").iterdir()] == ["other"]
