"""A disk that is full or read-only while a study trains: it ends in a sentence, and goes on once there is room."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from service.storage.home import Home
from tests.faults.killed import facts, measured_once, numbers, recovery_s, redone
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small file system"),
]

RUN = ("run", "./study.py", "-v", "--budget", "long")
ID = "encodings@long"
WAIT_S = 400
"""How long a study may take on a busy machine."""
END_S = 60
"""How long a study may take from the fault to its end."""


def mount(*words: str) -> None:
    """Mounts a file system. Skips the test where even root may not."""
    done = subprocess.run(["mount", *words], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"cannot mount: {done.stderr.strip()}")


@pytest.fixture
def small(tmp_path):
    """A terminal whose home is a file system of 64 MiB."""
    terminal = Terminal(tmp_path)
    (tmp_path / "study.py").write_text(ENCODINGS)
    terminal.home.mkdir()
    mount("-t", "tmpfs", "-o", "size=64m", "tmpfs", str(terminal.home))
    try:
        yield terminal
    finally:
        terminal.clear()
        subprocess.run(["umount", "-l", str(terminal.home)], check=True)


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> dict:
    """The numbers of the study that nothing disturbed."""
    terminal = Terminal(tmp_path_factory.mktemp("calm"))
    (terminal.folder / "study.py").write_text(ENCODINGS)
    try:
        done = terminal.type(*RUN, timeout_s=WAIT_S)
        assert done.code == 0, done.out + done.err
        return numbers(facts(terminal.home, ID))
    finally:
        terminal.clear()


def fill(home: Path) -> None:
    """Leaves no byte free."""
    with (home / "ballast").open("wb", buffering=0) as file:
        for size in (2**20, 2**12, 1):
            try:
                while file.write(b"x" * size) == size:
                    pass
            except OSError:
                continue


def make_room(home: Path) -> None:
    (home / "ballast").unlink()


def read_only(home: Path) -> None:
    mount("-o", "remount,ro", str(home))


def writable(home: Path) -> None:
    mount("-o", "remount,rw", str(home))


FAULTS = {
    "full": (fill, make_room, "No space left on device"),
    "read-only": (read_only, writable, "Read-only file system"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_it_ends_in_a_sentence_and_goes_on_where_it_can_write_again(small, calm, tally, fault):
    begin, end, why = FAULTS[fault]
    running = small.begin(*RUN)
    running.wait_for("epoch 7/40")
    begin(small.home)
    over = time.monotonic()
    done = running.end(END_S)
    said = done.out + done.err
    print(said)
    assert done.code == 2
    assert "Traceback" not in said
    assert said.splitlines()[-1].startswith("locus: ")
    assert why in said
    assert time.monotonic() - over < END_S
    assert not [line for line in left(running) if "ray::" in line or "service" in line]
    end(small.home)
    again, begun = redone(small.home, ID), time.time()
    done = small.type(*RUN, timeout_s=WAIT_S)
    assert done.code == 0, done.out + done.err
    told = facts(small.home, ID)
    assert numbers(told) == calm
    assert measured_once(told)
    verified = small.type("verify", "encodings")
    assert verified.code == 0, verified.out
    assert Home(small.home).study(ID).report.exists()
    tally(again, recovery_s(told, begun))


def left(command) -> list[str]:
    """What still lives of a command's session after half a minute at most."""
    until = time.monotonic() + 30
    while command.group() and time.monotonic() < until:
        time.sleep(0.5)
    return command.group()
