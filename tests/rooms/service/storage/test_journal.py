"""The journal: facts that round trip, one writer, a torn last line dropped and said."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

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
)
from service.storage.journal import Journal, JournalError, read

FACTS = [
    Counts(seeds=3, trials=None),
    Planned(role="trial", number=0, name="γ=2.5", values={"encoding.gamma": 0.1 + 0.2, "encoding.places": [-1, 0]}),
    Started(run=16 * "1", code=12 * "c", attempt=1, seed=0, label="0", placement={"max_concurrent": 2}),
    Measured(run=16 * "1", code=12 * "c", epoch=1, values={"val/accuracy": 1 / 3}),
    StoppedAt(run=16 * "1", code=12 * "c", epoch=1, cutoff=0.7),
    FailedWith(run=16 * "2", code=12 * "c", reason="a\nnew line", counts=False),
    Ended(run=16 * "3", code=12 * "c", outcome="diverged", epoch=2, reused=True),
    Confirms(numbers=(3, 0)),
    Tuned(arm="near", number=None),
]


def write(folder: Path, facts=FACTS) -> Path:
    with Journal(folder / "journal.jsonl", folder / "lock") as journal:
        for fact in facts:
            journal.write(fact)
    return folder / "journal.jsonl"


def unstamped(facts) -> list:
    return [fact.bare() for fact in facts if not isinstance(fact, Opened)]


def test_facts_round_trip_in_order_with_their_time(tmp_path: Path) -> None:
    path = write(tmp_path)
    found, torn = read(path)
    assert unstamped(found) == FACTS
    assert not torn
    assert [fact.time for fact in found] == sorted(fact.time for fact in found)
    assert found[0].time > 1.7e9
    assert len(path.read_text().splitlines()) == 1 + len(FACTS)


def test_no_journal_is_no_facts(tmp_path: Path) -> None:
    assert read(tmp_path / "none.jsonl") == ([], False)


@pytest.mark.parametrize("kept", [1, 30, -1])
def test_a_torn_last_line_is_dropped_and_said(tmp_path: Path, kept: int) -> None:
    path = write(tmp_path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1][:kept])
    assert unstamped(read(path)[0]) == FACTS[:-1]
    assert read(path)[1]
    with Journal(path, tmp_path / "lock") as journal:
        assert journal.torn
        assert unstamped(journal.facts) == FACTS[:-1]
        journal.write(Tuned(arm="far", number=2))
    found, torn = read(path)
    assert unstamped(found) == [*FACTS[:-1], Tuned(arm="far", number=2)]
    assert not torn


def test_a_line_in_the_middle_that_is_no_fact_is_named(tmp_path: Path) -> None:
    path = write(tmp_path)
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join([*lines[:2], '{"fact":"guessed"}\n', *lines[2:]]))
    with pytest.raises(JournalError, match=r"journal.jsonl, line 3, is no fact: .*guessed"):
        read(path)
    unread = Journal(path, tmp_path / "lock")
    with pytest.raises(JournalError, match="line 3"):
        unread.__enter__()
    path.write_text("".join(lines))
    assert len(write(tmp_path, []).read_text().splitlines()) == 2 + len(FACTS), "the lock was left free"


def test_there_is_one_writer(tmp_path: Path) -> None:
    folder = tmp_path / "reach@cpu"
    folder.mkdir()
    with Journal(folder / "journal.jsonl", folder / "lock") as journal:
        code = (
            "import sys; from pathlib import Path; from service.storage.journal import Journal\n"
            "from service.storage.leases import HeldError\n"
            "folder = Path(sys.argv[1])\n"
            "try: Journal(folder / 'journal.jsonl', folder / 'lock').__enter__()\n"
            "except HeldError as error: print(error)"
        )
        shown = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True, cwd=os.getcwd())
        who = f"on {socket.gethostname()} (process {os.getpid()})"
        assert shown.stdout.strip() == f"reach@cpu is being run by another driver, {who}; see locus status"
        journal.write(FACTS[0])
    assert unstamped(read(folder / "journal.jsonl")[0]) == FACTS[:1]


def test_a_fact_is_in_the_file_before_write_returns(tmp_path: Path) -> None:
    with Journal(tmp_path / "journal.jsonl", tmp_path / "lock") as journal:
        for count, fact in enumerate(FACTS, start=1):
            journal.write(fact)
            assert len(read(tmp_path / "journal.jsonl")[0]) == 1 + count


def test_decisions_are_durable_measurements_only_flushed(tmp_path: Path, monkeypatch) -> None:
    synced: list[int] = []
    with Journal(tmp_path / "journal.jsonl", tmp_path / "lock") as journal:
        monkeypatch.setattr(os, "fsync", synced.append)
        kinds = []
        for fact in FACTS:
            before = len(synced)
            journal.write(fact)
            kinds += [fact.fact] * (len(synced) > before)
    assert kinds == ["counts", "planned", "stopped", "failed", "ended", "confirms", "tuned"]


def test_lines_are_plain_json(tmp_path: Path) -> None:
    first = json.loads(write(tmp_path).read_text().splitlines()[2])
    assert first["fact"] == "planned"
    assert first["values"]["encoding.gamma"] == 0.1 + 0.2
