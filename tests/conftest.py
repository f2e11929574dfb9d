"""Under pytest the shapes written at the boundaries of encodings and backbones are checked.

A property's examples have no limit of time: on a busy machine the same example takes many times as long.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal
from tests.s3_server import S3Server

ROOT = Path(__file__).parents[1]
CHECKED = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for room in ("encodings", "backbones")
    for file in sorted((ROOT / "trainables" / room).glob("*_torch.py"))
]

install_import_hook(CHECKED, "beartype.beartype")

usual = settings.get_profile(settings.get_current_profile_name())
settings.register_profile("busy", usual, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")


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
