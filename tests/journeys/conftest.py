"""A cluster of two nodes, and a laptop that submits to it."""

import pytest

from tests.journeys.cluster import cluster_of_two
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal


@pytest.fixture(scope="module")
def cluster():
    with cluster_of_two() as found:
        yield found


@pytest.fixture
def laptop(cluster, tmp_path):
    (tmp_path / "study.py").write_text(ENCODINGS)
    with Terminal(tmp_path, **cluster.token) as terminal:
        terminal.env.pop("LOCUS_HOME")
        yield terminal
