"""A disk that is full or read-only while a study trains: it ends in a sentence, and goes on once there is room."""

import os
import shutil
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest

from service.storage.home import Home
from tests.faults.killed import recovery_s, redone, require_whole, undisturbed
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal

pytestmark = [
    pytest.mark.fault,
    pytest.mark.timeout(1200),
    pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk"),
]

RUN = ("run", "./study.py", "-v", "--budget", "long")
ID = "waves@long"


class Disk:
    """An ext4 file system of 64 MiB in a file. Skips the test where even root may not mount it."""

    def __init__(self, folder: Path) -> None:
        self.image, self.folder = folder / "image", folder / "home"
        self.folder.mkdir()
        with self.image.open("wb") as file:
            file.truncate(64 * 2**20)
        self._do("mkfs.ext4", "-q", str(self.image))
        self.mount()

    def mount(self) -> None:
        self._do("mount", "-o", "loop", str(self.image), str(self.folder))

    def fill(self) -> None:
        """Leaves no byte free."""
        with (self.folder / "ballast").open("wb", buffering=0) as file:
            for size in (2**20, 2**12, 1):
                with suppress(OSError):
                    while file.write(b"x" * size) == size:
                        pass

    def make_room(self) -> None:
        (self.folder / "ballast").unlink()

    def fail(self) -> None:
        """Makes the file system read-only, for files that are open too, as it does itself after a broken sector."""
        self._do("mount", "-o", "remount,abort", str(self.folder))

    def repair(self) -> None:
        self._do("umount", str(self.folder))
        subprocess.run(["e2fsck", "-fy", str(self.image)], capture_output=True)
        self.mount()

    def end(self) -> None:
        subprocess.run(["umount", "-l", str(self.folder)], capture_output=True)

    def _do(self, *words: str) -> None:
        if shutil.which(words[0]) is None:
            pytest.skip(f"wants {words[0]}")
        done = subprocess.run(words, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{words[0]}: {done.stderr.strip()}")


@pytest.fixture
def disk(tmp_path):
    found = Disk(tmp_path)
    yield found
    found.end()


@pytest.fixture
def small(tmp_path, disk):
    """A terminal whose home is a small disk."""
    (tmp_path / "study.py").write_text(ENCODINGS)
    with Terminal(tmp_path) as terminal:
        yield terminal


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> dict:
    return undisturbed(tmp_path_factory.mktemp("calm"), *RUN)


FAULTS = {
    "full": (Disk.fill, Disk.make_room, "No space left on device"),
    "read-only": (Disk.fail, Disk.repair, "Read-only file system"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_it_ends_in_a_sentence_and_goes_on_where_it_can_write_again(small, disk, calm, tally, fault):
    begin, end, why = FAULTS[fault]
    running = small.begin(*RUN)
    running.wait_for("epoch 7/40")
    begin(disk)
    done = running.end()
    said = done.out + done.err
    assert done.code == 2, said
    assert "Traceback" not in said
    assert f"locus: {small.home} must be on a disk that can be written, got: {why}" in " ".join(said.split())
    running.wait_until_gone()
    end(disk)
    again, begun = redone(small.home, ID), time.time()
    small.do(*RUN)
    told = require_whole(small, ID, calm)
    assert Home(small.home).study(ID).report.exists()
    tally(again, recovery_s(told, begun))
