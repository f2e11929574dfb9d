"""`locus doctor` on a cluster of two nodes with a token, and on one that is open to everybody."""

import json

import pytest

from tests.journeys.cluster import cluster_of_two
from tests.journeys.terminal import Terminal
from tests.waiting import LIMIT_S

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def examined(laptop, *words):
    done = laptop.type("doctor", *words, "--json")
    assert done.err == "", done.err
    return done.code, json.loads(done.out)


def test_a_cluster_with_a_token_and_a_shared_home_is_sound(cluster, laptop, tmp_path):
    home = tmp_path / "shared"
    code, found = examined(laptop, "--address", cluster.address, "--home", str(home))
    assert code == 0, found
    assert not [one for one in found if one["state"] == "wrong"]
    assert [one["name"] for one in found[:2]] == ["cluster", "access"]
    nodes = [one["name"] for one in found if one["name"].startswith("node ")]
    assert len({*nodes}) == len(nodes) == 2
    assert sum(one["name"] == "memory" for one in found) == 2
    assert list(home.iterdir()) == [], "the file that the nodes look for is removed"


def test_a_home_that_everybody_may_write_is_wrong(cluster, laptop, tmp_path):
    home = tmp_path / "open"
    home.mkdir()
    home.chmod(0o777)
    code, found = examined(laptop, "--address", cluster.address, "--home", str(home))
    assert code == 1
    assert {one["do"] for one in found if one["state"] == "wrong"} == {f"chmod o-w {home}"}


def test_a_home_that_cannot_be_written_there_is_wrong(cluster, laptop):
    code, found = examined(laptop, "--address", cluster.address, "--home", "/proc/none/home")
    assert code == 1
    (wrong,) = [one for one in found if one["state"] == "wrong"]
    assert "home must be a folder that can be written" in wrong["detail"]


def test_an_open_cluster_is_refused_and_nothing_is_sent_there(tmp_path):
    with cluster_of_two(is_open=True) as cluster:
        laptop = Terminal(tmp_path)
        try:
            code, found = examined(laptop, "--address", cluster.address)
            assert code == 1
            (only,) = found
            assert (only["name"], only["state"]) == ("access", "wrong")
            assert "without a token" in only["detail"]
            jobs = laptop.python(
                f"import requests; print(requests.get('{cluster.address}/api/jobs/', timeout={LIMIT_S}).json())"
            )
            assert jobs.out.strip() == "[]"
        finally:
            laptop.clear()
