"""Under pytest the shapes written at the boundaries of encodings and backbones are checked.

A property's examples have no limit of time: on a busy machine the same example takes many times as long. They are the
same in each run; `make nightly` draws others (`--hypothesis-profile nightly`) and prints the seed. What a test draws
from the generators of Python, NumPy and torch without a seed of its own depends on that seed alone, not on the tests
that ran before it.
"""

import contextlib
import gc
import os
import random
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook
from xdist.scheduler import LoadFileScheduling

from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal
from tests.processor import on_processor
from tests.s3_server import S3Server

gc.disable()  # until all is imported: the garbage collector would look at it again and again, and find nothing

ROOT = Path(__file__).parents[1]
CHECKED = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for room in ("encodings", "backbones")
    for file in sorted((ROOT / "trainables" / room).glob("*_torch.py"))
]

install_import_hook(CHECKED, "beartype.beartype")

MINE = tempfile.TemporaryDirectory(prefix="locus-user-")
"""What this process, and the commands that tests type, keep for their user: none of it is kept for the real one."""
CACHE = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
os.environ.setdefault("MPLCONFIGDIR", f"{CACHE}/matplotlib")  # its list of fonts takes seconds to make
os.environ["XDG_STATE_HOME"] = f"{MINE.name}/state"
os.environ["XDG_CACHE_HOME"] = f"{MINE.name}/cache"

BUSY = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("gate", BUSY, derandomize=True, database=None)
settings.register_profile("nightly", BUSY, derandomize=False, print_blob=True)
settings.load_profile("gate")
ROOMS_OF_OTHERS = ("benchmarks", "browser", "e2e", "faults", "gpu")
"""Folders without a fast test. What they import is not imported for nothing: a tenth of all that collecting costs."""
RERUNS = ("slow", "fault")
"""Tests that start real clusters and kill processes run once more if they fail; the summary lists them."""


SHARING = {
    "tests/rooms/service/reporting/": "pages",
    "tests/rooms/service/tracking/": "databases",
    "tests/rooms/service/storage/test_copies.py": "server",
    "tests/rooms/service/storage/test_journal_copy.py": "server",
    "tests/rooms/service/storage/test_storage_": "server",
    "tests/rooms/trainables/launch/test_work_files.py": "server",
    "tests/rooms/trainables/test_remote_files.py": "server",
}
"""Files that share what takes long to make: one process runs them all, so that it is made once."""


def pytest_addoption(parser):
    """Adds the number of a played processor (`tests/processor.py`)."""
    parser.addoption("--processor", type=int, default=None, help="round matrix products as processor N would")


def pytest_ignore_collect(collection_path, config):
    """Leaves those folders out of the fast tests; None asks pytest."""
    fast = str(config.option.markexpr).startswith("not slow")
    other = collection_path.parent == ROOT / "tests" and collection_path.name in ROOMS_OF_OTHERS
    return True if fast and other else None


class BySharing(LoadFileScheduling):
    """Gives a process a file at a time, or all files that share something."""

    def _split_scope(self, nodeid: str) -> str:
        found = [name for start, name in SHARING.items() if nodeid.startswith(start)]
        return found[0] if found else super()._split_scope(nodeid)


def pytest_xdist_make_scheduler(config, log):
    """Takes the place of `--dist loadfile`; None leaves the others as they are."""
    return BySharing(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items):
    """Lets slow and fault tests have a second try."""
    for item in items:
        if any(item.get_closest_marker(name) for name in RERUNS):
            item.add_marker(pytest.mark.flaky(reruns=1))


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Lets the garbage collector pass over all that was imported, and look rarely from here on."""
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(10_000)
        gc.enable()


def pytest_sessionfinish():
    """Lets the process end as it would have."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Runs a test, with its fixtures, on that processor; the shared generators begin at one place."""
    seed = int(item.config.getoption("--hypothesis-seed") or 0)
    random.seed(seed), np.random.seed(seed % 2**32), torch.manual_seed(seed)
    number = item.config.getoption("--processor")
    with contextlib.nullcontext() if number is None else on_processor(number):
        return (yield)


@pytest.fixture
def terminals(tmp_path):
    """Makes a terminal by name, text of its `study.py` and variables of its environment; each has its own home."""
    made: list[Terminal] = []

    def make(name: str, text: str = ENCODINGS, **env: str) -> Terminal:
        folder = tmp_path / name
        folder.mkdir()
        (folder / "study.py").write_text(text)
        made.append(Terminal(folder, **env))
        return made[-1]

    yield make
    for terminal in made:
        terminal.clear()


@pytest.fixture
def terminal(terminals):
    """A terminal in front of a study of three encodings."""
    return terminals("terminal")


@pytest.fixture(scope="session")
def s3_server():
    """A server that all tests of a process share; each uses a folder of its own in the bucket."""
    found = S3Server()
    yield found
    found.end()


@pytest.fixture
def s3(s3_server, monkeypatch, tmp_path):
    """The URI of an empty place at an S3-compatible server, which clients in this process reach."""
    s3_server.reach(monkeypatch)
    return f"{s3_server.uri}/{tmp_path.parent.name}-{tmp_path.name}"
