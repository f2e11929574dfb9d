"""The journal: facts that round trip, one writer, a torn last line dropped and said, and what a second driver changes.

A driver that another one has taken over writes nothing that counts, and ends with a sentence.
"""

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.storage.facts import (
    Confirms,
    Counts,
    Ended,
    FailedWith,
    Measured,
    Opened,
    Planned,
    Started,
    StoppedAt,
    Tuned,
    line_of,
)
from service.storage.home import StudyFolder
from service.storage.journal import Journal, JournalError, Place, read, read_on
from service.storage.leases import STALE_S, HeldError, Host, Session, TakenOverError, newest

THERE = Host("there", "start of there")
RUN = {"run": 16 * "1", "code": 12 * "c"}
MEASURED = Measured(**RUN, epoch=1, values={"val/accuracy": 1 / 3})
STARTED = Started(**RUN, attempt=1, seed=0, label="0", placement={"max_concurrent": 2})
FACTS = [
    Counts(seeds=3, trials=None),
    Planned(role="trial", number=0, name="γ=2.5", values={"encoding.gamma": 0.1 + 0.2, "encoding.places": [-1, 0]}),
    STARTED,
    MEASURED,
    StoppedAt(**RUN, epoch=1, cutoff=0.7),
    FailedWith(run=16 * "2", code=12 * "c", reason="a\nnew line", counts=False),
    Ended(run=16 * "3", code=12 * "c", outcome="diverged", epoch=2, reused=True),
    Confirms(numbers=(3, 0)),
    Tuned(arm="near", number=None),
]


@pytest.fixture
def folder(tmp_path: Path) -> StudyFolder:
    return StudyFolder(tmp_path / "reach@cpu")


def opened(folder: StudyFolder, host: Host | None = None, stale_s: float = STALE_S) -> Journal:
    """A driver's journal; another host's has a lock of its own, as on a file system without locks between hosts."""
    lock = folder.root / f"lock of {host.name}" if host else folder.lock
    return Journal(folder.journal, lock, Session(folder.drivers, host, beat_s=3600, stale_s=stale_s))


def write(folder: StudyFolder, facts=FACTS) -> Path:
    with opened(folder) as journal:
        for fact in facts:
            journal.write(fact)
    return folder.journal


def bare(facts) -> list:
    return [fact.bare() for fact in facts if not isinstance(fact, Opened)]


def test_facts_round_trip_in_order_with_their_time(folder) -> None:
    assert read(folder.journal) == ([], False)
    folder.root.mkdir()
    folder.journal.touch()
    assert read(folder.journal) == ([], False), "as a crash may leave it"
    found, torn = read(write(folder))
    assert bare(found) == FACTS
    assert not torn
    assert [fact.time for fact in found] == sorted(fact.time for fact in found)
    assert found[0].time > 1.7e9
    lines = folder.journal.read_text().splitlines()
    assert len(lines) == 1 + len(FACTS)
    assert json.loads(lines[2])["values"]["encoding.gamma"] == 0.1 + 0.2


@pytest.mark.parametrize("kept", [1, 30, -1])
def test_a_torn_last_line_is_dropped_and_said(folder, kept: int) -> None:
    lines = write(folder).read_bytes().splitlines(keepends=True)
    folder.journal.write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
    facts, torn = read(folder.journal)
    assert (bare(facts), torn) == (FACTS[:-1], True)
    with opened(folder) as journal:
        assert journal.torn
        assert bare(journal.facts) == FACTS[:-1]
        journal.write(Tuned(arm="far", number=2))
    facts, torn = read(folder.journal)
    assert (bare(facts), torn) == ([*FACTS[:-1], Tuned(arm="far", number=2)], False)


def test_a_line_in_the_middle_that_is_no_fact_is_named(folder) -> None:
    lines = write(folder).read_text().splitlines(keepends=True)
    folder.journal.write_text("".join([*lines[:2], '{"fact":"guessed"}\n', *lines[2:]]))
    for act in (lambda: read(folder.journal), opened(folder).__enter__):
        with pytest.raises(JournalError, match=r"journal.jsonl, line 3, is no fact: .*guessed"):
            act()
    folder.journal.write_text("".join(lines))
    assert len(write(folder, []).read_text().splitlines()) == 2 + len(FACTS), "the lock was left free"


def test_there_is_one_writer(folder) -> None:
    with opened(folder) as journal:
        who = rf"on {socket.gethostname()} \(process {os.getpid()}\)"
        with pytest.raises(HeldError, match=f"^reach@cpu is being run by another driver, {who}; see locus status$"):
            opened(folder).__enter__()
        journal.write(FACTS[0])
    assert bare(read(folder.journal)[0]) == FACTS[:1]


def test_a_fact_is_in_the_file_before_write_returns_and_a_decision_on_the_disk(folder, monkeypatch) -> None:
    synced: list[int] = []
    with opened(folder) as journal:
        monkeypatch.setattr(os, "fsync", synced.append)
        kinds = []
        for count, fact in enumerate(FACTS, start=1):
            before = len(synced)
            journal.write(fact)
            assert len(read(folder.journal)[0]) == 1 + count
            kinds += [fact.fact] * (len(synced) > before)
    assert kinds == ["counts", "planned", "stopped", "failed", "ended", "confirms", "tuned"]


@contextmanager
def taken_over(folder: StudyFolder) -> Iterator[Journal]:
    """The journal of the driver that takes over, where the first one's last sign of life is as old as it may be."""
    with pytest.raises(HeldError):
        opened(folder, THERE).__enter__()
    last = newest(folder.drivers)
    os.utime(folder.drivers / f"{last.number}.json", (last.beat - STALE_S, last.beat - STALE_S))
    with opened(folder, THERE) as journal:
        yield journal


def test_a_line_that_comes_late_is_dropped(folder) -> None:
    with opened(folder) as first:
        first.write(Counts(seeds=3))
        whole, place = read_on(folder.journal)
        with taken_over(folder) as second:
            assert [fact.by for fact in second.facts] == [1, 1]
            first.write(MEASURED)  # before a measurement it does not look
            for fact in (Counts(seeds=4), STARTED, MEASURED):
                with pytest.raises(TakenOverError):
                    first.write(fact)
            second.write(Ended(**RUN, outcome="completed", epoch=1))
        assert first.lost
    assert len(folder.journal.read_text().splitlines()) == 5
    facts, torn = read(folder.journal)
    assert [(fact.fact, fact.by) for fact in facts] == [("opened", 1), ("counts", 1), ("opened", 2), ("ended", 2)]
    assert not torn
    assert [*whole, *read_on(folder.journal, place)[0]] == facts, "who follows the journal reads the same"


def test_what_the_first_wrote_at_the_last_moment_is_read_by_the_second(folder) -> None:
    """It is written after the second has read the journal, and before the second's own first fact."""
    with opened(folder) as first:
        first.write(Counts(seeds=3))
        second = opened(folder, THERE, stale_s=0.0)
        begin, write = second.session.begin, second.write
        second.session.begin = lambda above: (first.write(Counts(seeds=4)), begin(above))
        second.write = lambda fact: (first.write(MEASURED), write(fact))
        with second:
            assert bare(second.facts) == [Counts(seeds=3), Counts(seeds=4), MEASURED]
    assert bare(read(folder.journal)[0]) == [Counts(seeds=3), Counts(seeds=4), MEASURED]


def test_numbers_go_on_where_the_files_of_the_drivers_are_gone(folder) -> None:
    """A copy of a home may lack them: a lower number would make every new fact a late one."""
    for seeds in (1, 2, 3):
        if seeds == 3:
            for path in folder.drivers.iterdir():
                path.unlink()
        write(folder, [Counts(seeds=seeds)])
    assert [fact.by for fact in read(folder.journal)[0]] == [1, 1, 2, 2, 3, 3]


@settings(max_examples=80)
@given(
    numbers=st.lists(st.integers(1, 4), max_size=12),
    cuts=st.lists(st.integers(0, 12), max_size=4),
    torn=st.booleans(),
)
def test_facts_count_up_to_the_next_driver_however_they_are_read(tmp_path_factory, numbers, cuts, torn) -> None:
    path = tmp_path_factory.mktemp("study") / "journal.jsonl"
    written = [Opened(host="h", pid=1, version="0", by=1)]
    for seeds, by in enumerate(numbers, start=1):
        if all(fact.by != by for fact in written):
            written.append(Opened(host="h", pid=1, version="0", by=by))
        written.append(Counts(seeds=seeds, by=by))
    lines = [line_of(fact.plain()) for fact in written]
    expected = [fact for number, fact in enumerate(written) if fact.by == max(one.by for one in written[: number + 1])]
    found, place = [], Place()
    for count in [*sorted(cuts), len(lines)]:
        path.write_bytes(b"".join(lines[:count]) + (b'{"fact":"cou' if torn else b""))
        facts, place = read_on(path, place)
        found += facts
    assert found == expected
    assert place.left_out == len(written) - len(expected)
    assert read(path) == (found, torn)
