"""A journal that another driver takes over: who was suspended writes nothing that counts, and ends with a sentence."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.storage.facts import Counts, Ended, Measured, Opened, Started, line_of
from service.storage.home import StudyFolder
from service.storage.journal import Journal, Place, read, read_on
from service.storage.leases import STALE_S, HeldError, Host, Session, TakenOverError, newest

THERE = Host("there", "start of there")
MEASURED = Measured(run=16 * "1", code=12 * "c", epoch=1, values={"val/accuracy": 0.5})


def folder_of(root: Path) -> StudyFolder:
    return StudyFolder(root / "reach@cpu")


def journal_of(root: Path, host: Host | None = None, stale_s: float = STALE_S) -> Journal:
    """A driver's journal; another host's has a lock of its own, as on a file system without locks between hosts."""
    folder = folder_of(root)
    lock = folder.root / f"lock of {host.name}" if host else folder.lock
    return Journal(folder.journal, lock, Session(folder.drivers, host, beat_s=3600, stale_s=stale_s))


@contextmanager
def taken_over(root: Path) -> Iterator[Journal]:
    """The journal of the driver that takes over, where the first one's last sign of life is as old as it may be."""
    drivers = folder_of(root).drivers
    with pytest.raises(HeldError):
        journal_of(root, THERE).__enter__()
    last = newest(drivers)
    os.utime(drivers / f"{last.number}.json", (last.beat - STALE_S, last.beat - STALE_S))
    with journal_of(root, THERE) as journal:
        yield journal


WRITER = """
import sys, time
from pathlib import Path
from service.storage.facts import Counts, Measured
from service.storage.journal import Journal
from service.storage.leases import Session, TakenOverError
folder = Path(sys.argv[1])
session = Session(folder / "drivers", beat_s=0.1)
try:
    with Journal(folder / "journal.jsonl", folder / "lock", session) as journal:
        for number in range(1, 10_000_000):
            journal.write(Measured(run=16 * "1", code=12 * "c", epoch=number, values={}))
            journal.write(Counts(seeds=1 + number % 1000))
            if number == 3:
                print("began", flush=True)
            time.sleep(0.001)
except TakenOverError as error:
    print(error)
    sys.exit(2)
"""


def test_a_driver_that_was_suspended_ends_with_a_sentence(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(folder.root)], stdout=subprocess.PIPE, text=True)
    try:
        assert writer.stdout.readline() == "began\n"
        with pytest.raises(HeldError, match=rf"is being run by another driver, on .* \(process {writer.pid}\); see"):
            journal_of(tmp_path, THERE).__enter__()
        os.kill(writer.pid, signal.SIGSTOP)
        os.waitpid(writer.pid, os.WUNTRACED)  # it stands still from here on
        with taken_over(tmp_path) as second:
            second.write(Counts(seeds=77))
            os.kill(writer.pid, signal.SIGCONT)
            said = writer.communicate(timeout=60)[0]
            second.write(Counts(seeds=78))
    finally:
        writer.kill()
        writer.wait()
    who = rf"another driver, on there (process {os.getpid()}), has taken reach@cpu over, because it saw no sign"
    assert said.startswith(who)
    assert writer.returncode == 2
    facts, torn = read(folder.journal)
    first = [fact for fact in facts if fact.by == 1]
    assert facts[: len(first)] == first
    assert second.facts == first, "all that the first has written, and nothing later"
    assert [fact.bare() for fact in facts[len(first) + 1 :]] == [Counts(seeds=77), Counts(seeds=78)]
    assert not torn
    late = [json.loads(line) for line in folder.journal.read_text().splitlines()[len(first) :]]
    on_its_way = [line["fact"] for line in late if line["by"] == 1]
    assert on_its_way in ([], ["measured"], ["counts"], ["counts", "measured"]), "it may have looked before it stopped"


def test_a_line_that_comes_late_is_dropped(tmp_path: Path) -> None:
    folder = folder_of(tmp_path)
    with journal_of(tmp_path) as first:
        first.write(Counts(seeds=3))
        whole, place = read_on(folder.journal)
        with taken_over(tmp_path) as second:
            assert [fact.by for fact in second.facts] == [1, 1]
            first.write(MEASURED)  # before a measurement it does not look
            for fact in (Counts(seeds=4), Started(run=16 * "1", code=12 * "c", attempt=1, seed=0, label="0")):
                with pytest.raises(TakenOverError):
                    first.write(fact)
            with pytest.raises(TakenOverError):
                first.write(MEASURED)
            second.write(Ended(run=16 * "1", code=12 * "c", outcome="completed", epoch=1))
        assert first.lost
    assert len(folder.journal.read_text().splitlines()) == 5
    facts, torn = read(folder.journal)
    assert [(fact.fact, fact.by) for fact in facts] == [("opened", 1), ("counts", 1), ("opened", 2), ("ended", 2)]
    assert not torn
    more, _ = read_on(folder.journal, place)
    assert [*whole, *more] == facts, "who follows the journal reads the same"


def test_what_the_first_wrote_at_the_last_moment_is_read_by_the_second(tmp_path: Path) -> None:
    """It is written after the second has read the journal, and before the second's own first fact."""
    with journal_of(tmp_path) as first:
        first.write(Counts(seeds=3))
        second = journal_of(tmp_path, THERE, stale_s=0.0)
        begin, write = second.session.begin, second.write

        def begun(above: int) -> None:
            first.write(Counts(seeds=4))
            begin(above)

        def written(fact) -> None:
            first.write(MEASURED)
            write(fact)

        second.session.begin, second.write = begun, written
        with second:
            known = [fact.bare() for fact in second.facts if not isinstance(fact, Opened)]
    assert known == [Counts(seeds=3), Counts(seeds=4), MEASURED]
    assert [fact.bare() for fact in read(folder_of(tmp_path).journal)[0] if not isinstance(fact, Opened)] == known


def test_numbers_go_on_where_the_files_of_the_drivers_are_gone(tmp_path: Path) -> None:
    """A copy of a home may lack them: a lower number would make every new fact a late one."""
    folder = folder_of(tmp_path)
    for seeds in (1, 2):
        with journal_of(tmp_path) as journal:
            journal.write(Counts(seeds=seeds))
    for path in folder.drivers.iterdir():
        path.unlink()
    with journal_of(tmp_path) as journal:
        journal.write(Counts(seeds=3))
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
    for place, by in enumerate(numbers, start=1):
        if all(fact.by != by for fact in written):
            written.append(Opened(host="h", pid=1, version="0", by=by))
        written.append(Counts(seeds=place, by=by))
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
