"""A home that can only be read, as a colleague's or a backup: verbs that read work, the others refuse in a sentence."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from service.storage.home import Home
from service.storage.leases import Session
from tests.rooms.by_hand import searched

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount")]

MOUNTED = """
mount --bind {home} {home} && mount -o remount,ro,bind {home} || exit 77
exec {python} -c '
import sys
from typer.testing import CliRunner
from service.cli import app
for line in sys.stdin:
    done = CliRunner().invoke(app, [*line.split(), "--home", "{home}"])
    print("==", line.strip(), done.exit_code, type(done.exception).__name__, done.exception)
    print(done.output)
'
"""
READS = ("status", "status reach", "export reach --csv", "logs reach", "verify reach", "plan reach@base")
WRITES = ("report reach", "verify reach --repair", "forget reach@base --yes", "run reach@base")
CLOSED = """
import os, sys
from typer.testing import CliRunner
from service.cli import app, main
home, folder, *verb = sys.argv[1:]
CliRunner().invoke(app, [*verb, "--home", home])  # root may read what is imported for it
os.chmod(f"{home}/{folder}", 0o700)
os.seteuid(65534)
sys.argv = ["locus", *verb, "--home", home]
main()
"""


def typed(home: Path, *lines: str) -> dict[str, list[str]]:
    """What verbs print in a home that is mounted to be read; the first line has the exit code and the error."""
    script = MOUNTED.format(home=home, python=sys.executable)
    told = subprocess.run(
        ["unshare", "-m", "sh", "-c", script], input="\n".join(lines), capture_output=True, text=True, timeout=300
    )
    if told.returncode == 77 or "unshare" in told.stderr:
        pytest.skip(told.stderr.strip())
    assert told.returncode == 0, told.stderr
    parts = told.stdout.split("== ")[1:]
    return {line: part.splitlines() for line, part in zip(lines, parts, strict=True)}


def test_each_verb_reads_it_or_says_that_it_must_be_written_and_sees_a_driver_by_its_signs_of_life(tmp_path) -> None:
    home = tmp_path / "home"
    session = Session(Home(home).study(searched(home)).drivers)
    session.begin(above=7)
    try:
        assert any("running" in line for line in typed(home, "status")["status"])
    finally:
        session.end()
    found = typed(home, *READS, *WRITES)
    assert not any("running" in line for line in found["status"])
    for line in READS:
        assert found[line][0].startswith(f"{line} 0 NoneType"), found[line]
    for line in WRITES:
        assert found[line][0].startswith(f"{line} 1 LocusError "), found[line]
        assert "must be a folder that can be written" in found[line][0]


def test_what_cannot_even_be_read_is_named_in_a_sentence() -> None:
    with tempfile.TemporaryDirectory(prefix="locus-open-") as name:  # other users cannot read those of pytest
        os.chmod(name, 0o755)
        home = Path(name) / "home"
        id = searched(home)
        for folder, *verb in (
            (".", "status"),
            (f"studies/{id}", "plan", id),
            (f"studies/{id}/journal.jsonl", "status", id),
            ("outcomes", "export", id, "--csv"),
            (f"studies/{id}", "verify", id),
        ):
            words = [sys.executable, "-c", CLOSED, str(home), folder, *verb]
            closed = subprocess.run(words, capture_output=True, text=True, timeout=300)
            os.chmod(home / folder, 0o755)
            assert closed.returncode == 2, closed.stderr
            assert closed.stderr.startswith(f"locus: {home}"), closed.stderr
            assert "got: Permission denied; ask its owner, or give another --home" in closed.stderr
            assert closed.stderr.count("\n") == 1, closed.stderr
