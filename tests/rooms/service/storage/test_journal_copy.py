"""Room: the copy of a journal is its beginning, always, whoever sends beside."""

import contextlib
from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from service.storage.remote import JournalCopy, sent_journal
from trainables.remote_files import RemoteFolder, StorageError

LINE = st.binary(max_size=30).map(lambda text: text.replace(b"\n", b""))
LINES = st.lists(st.tuples(LINE, st.booleans()), max_size=30)


@given(lines=LINES, torn=LINE)
def test_what_was_sent_is_the_journal_to_its_last_whole_line(tmp_path_factory, lines, torn):
    folder = tmp_path_factory.mktemp("journal")
    journal, remote = folder / "journal.jsonl", RemoteFolder(str(folder / "there"), patience=0)
    copy = JournalCopy(journal, remote, 7, segment=16)
    copy.send(0.0)
    assert sent_journal(remote) is None
    written = b""
    for line, sends in lines:
        written += line + b"\n"
        journal.write_bytes(written + torn)
        if sends:
            copy.send(0.0)
            assert sent_journal(remote) == written
    copy.send(0.0)
    assert (sent_journal(remote) or b"") == written


@dataclass(frozen=True)
class TakenOver(RemoteFolder):
    """A folder in which another driver takes over before a reader's first read."""

    new: list[JournalCopy] = field(default_factory=list)

    def read(self, name):
        if self.new:
            copy = self.new.pop()
            copy.send(0.0)
            copy.remove_older()
        return super().read(name)


def test_a_copy_that_is_removed_while_it_is_read_is_not_taken_for_an_empty_one(tmp_path):
    remote, journal = RemoteFolder(str(tmp_path / "there"), patience=0), tmp_path / "journal.jsonl"
    journal.write_bytes(b"one\ntwo\nthree\n")
    JournalCopy(journal, remote, 9, segment=4).send(0.0)
    journal.write_bytes(b"one\ntwo\nthree\nfour\n")
    new = JournalCopy(journal, RemoteFolder(remote.uri, 0), 10, segment=4)
    assert sent_journal(TakenOver(remote.uri, 0, new=[new])) == journal.read_bytes()


@given(before=LINES, late=LINES, after=LINES, removed=st.booleans())
def test_what_a_driver_sends_after_another_took_over_counts_for_nothing(tmp_path_factory, before, late, after, removed):
    folder = tmp_path_factory.mktemp("journal")
    remote = RemoteFolder(str(folder / "there"), patience=0)
    first, second = folder / "first.jsonl", folder / "second.jsonl"
    common = b"begin\n" + b"".join(line + b"\n" for line, _ in before)
    first.write_bytes(common)
    old = JournalCopy(first, remote, 9, segment=16)
    old.send(0.0)
    second.write_bytes(sent_journal(remote))
    new = JournalCopy(second, remote, 10, segment=16)
    new.send(0.0)
    if removed:
        new.remove_older()
    mine, theirs = common, common
    for (line, sends), (other, others) in zip(
        after + [(b"", True)] * len(late), late + [(b"", True)] * len(after), strict=True
    ):
        mine, theirs = mine + line + b"\n", theirs + other + b"\n"
        second.write_bytes(mine)
        first.write_bytes(theirs)
        if others:
            old.send(0.0)
        if sends:
            new.send(0.0)
            assert sent_journal(remote) == mine
    new.send(0.0)
    assert sent_journal(remote) == mine


@given(lines=st.lists(LINE, min_size=1), room=st.integers(0, 8))
def test_a_driver_that_dies_while_it_begins_changes_nothing(tmp_path_factory, lines, room):
    folder = tmp_path_factory.mktemp("journal")
    remote, journal = RemoteFolder(str(folder / "there"), patience=0), folder / "journal.jsonl"
    journal.write_bytes(b"".join(line + b"\n" for line in lines))
    JournalCopy(journal, remote, 1, segment=16).send(0.0)
    dying = JournalCopy(journal, Filling(remote.uri, 0.0, room=[room]), 2, segment=16)
    with contextlib.suppress(StorageError):
        dying.send(0.0)
    assert sent_journal(remote) == journal.read_bytes()


@dataclass(frozen=True)
class Filling(RemoteFolder):
    """A place that takes so many files, and no more."""

    room: list[int] = field(default_factory=list)

    def write(self, name, content):
        self.room[0] -= 1
        if self.room[0] < 0:
            raise StorageError("it is full")
        super().write(name, content)
