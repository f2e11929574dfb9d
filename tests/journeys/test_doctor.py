"""`locus doctor` on a cluster of two nodes with a token, and on one that is open to everybody."""

import json

import pytest

from tests.journeys.cluster import cluster_of_two
from tests.journeys.terminal import Terminal
from tests.waiting import LIMIT_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def examined(terminal, *words):
    done = terminal.type("doctor", *words, "--json")
    assert done.err == "", done.err
    return done.code, json.loads(done.out)


def test_a_cluster_with_a_token_says_how_large_it_is(cluster, laptop):
    code, (found,) = examined(laptop, "--address", cluster.address)
    size = "2 nodes, 2 cores, 0 GPUs"
    assert (code, found["state"]) == (0, "ok"), found
    assert found["detail"] == f"{cluster.address} takes jobs with this token, and has this Ray: {size}"


def test_an_open_cluster_is_refused_and_nothing_is_sent_there(tmp_path):
    with cluster_of_two(is_open=True) as cluster:
        laptop = Terminal(tmp_path)
        try:
            code, (only,) = examined(laptop, "--address", cluster.address)
            assert (code, only["name"], only["state"]) == (1, "access", "wrong")
            assert "without a token" in only["detail"]
            jobs = laptop.python(
                f"import requests; print(requests.get('{cluster.address}/api/jobs/', timeout={LIMIT_S}).json())"
            )
            assert jobs.out.strip() == "[]"
        finally:
            laptop.clear()
