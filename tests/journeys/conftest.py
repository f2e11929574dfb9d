"""A cluster of two nodes, and a laptop that submits to it."""

import tempfile
from pathlib import Path

import pytest

from tests.journeys.cluster import Cluster
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal


@pytest.fixture(scope="module")
def cluster():
    with tempfile.TemporaryDirectory(prefix="e-", ignore_cleanup_errors=True) as folder:
        found = Cluster(Path(folder))
        try:
            yield found
        finally:
            found.end()


@pytest.fixture
def laptop(cluster, tmp_path):
    terminal = Terminal(tmp_path, **{name: cluster.env[name] for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN_PATH")})
    terminal.env.pop("LOCUS_HOME")
    (tmp_path / "study.py").write_text(ENCODINGS)
    yield terminal
    terminal.clear()
