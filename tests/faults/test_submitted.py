"""A study on a cluster: submitted twice at one moment, or stopped while it is sent, starts, trains or resumes."""

import re
import threading
import time

import pytest

from tests.faults.killed import ended, facts, of, redone, require_whole, undisturbed
from tests.faults.proxy import Proxy
from tests.journeys.cluster import cluster_of_two
from tests.waiting import LONG_S, until

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1800)]

ID = "waves@long"
RUN = ("./study.py", "--budget", "long", "--seeds", "4")
REQUESTS = {
    "it asks for the version": ("GET", "/api/version"),
    "it looks for jobs": ("GET", "/api/jobs/"),
    "it looks for the package": ("GET", "/api/packages/"),
    "it uploads the package": ("PUT", "/api/packages/"),
    "it sends the job": ("POST", "/api/jobs/"),
}
"""What a client asks a cluster for, in order."""


@pytest.fixture(scope="module")
def cluster():
    with cluster_of_two() as found:
        yield found


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """The numbers of the study that nothing disturbed, on no cluster."""
    return undisturbed(tmp_path_factory.mktemp("calm"), "run", *RUN)


class Sent:
    """A laptop that submits the study to the cluster."""

    def __init__(self, terminals, cluster) -> None:
        self.terminal, self.at = terminals("laptop", **cluster.token), ("--address", cluster.address)
        self.study = ("submit", *RUN, "--home", str(self.terminal.home))
        self.send = (*self.study, *self.at)

    def told(self) -> list:
        return facts(self.terminal.home, ID)

    def measured(self) -> int:
        return len(of(self.told(), "measured"))

    def stop(self) -> None:
        stopped = self.terminal.do("stop", ID, *self.at)
        assert re.search(rf"{ID} +STOPPED", stopped.out), stopped.out

    def require_whole(self, calm) -> None:
        """The study goes to its end, with the numbers of the undisturbed one."""
        followed = self.terminal.type("logs", ID, *self.at, "-f")
        assert len(ended(self.told())) == 12, followed.out + followed.err
        require_whole(self.terminal, ID, calm)


class Holds(Proxy):
    """A proxy that holds a client's first request of a kind until it is let go."""

    def __init__(self, server: str, method: str, path: str) -> None:
        self._kind = method, path
        self.come, self.go, self.passed = threading.Event(), threading.Event(), threading.Event()
        super().__init__(server)

    def hears(self, method: str, path: str) -> None:
        if self._is(method, path):
            self.come.set()
            self.go.wait()

    def loses(self, method: str, path: str) -> bool:
        if self._is(method, path):
            self.passed.set()
        return False

    def _is(self, method: str, path: str) -> bool:
        return method == self._kind[0] and path.startswith(self._kind[1])


def test_it_is_submitted_twice_at_the_same_moment(terminals, cluster, calm, tally):
    sent = Sent(terminals, cluster)
    both = [sent.terminal.begin(*sent.send) for _ in range(2)]
    done = [one.end() for one in both]
    assert sorted(one.code for one in done) == [0, 2], [one.out + one.err for one in done]
    (second,) = [one.err for one in done if one.err]
    assert second.startswith(f"locus: {ID} is already running there as"), "Ray's own lines stay away"
    sent.require_whole(calm)
    assert len(of(sent.told(), "opened")) == 1, "one driver"
    tally(0)


def test_it_is_stopped_while_it_is_sent_starts_trains_and_resumes(terminals, cluster, calm, tally):
    sent = Sent(terminals, cluster)
    for name, request in REQUESTS.items():
        proxy = Holds(cluster.address, *request)
        cut = sent.terminal.begin(*sent.study, "--address", proxy.address)
        cut.wait_until(proxy.come.is_set, f"{name}: that did not happen")
        cut.interrupt()
        proxy.go.set()
        done = cut.end()
        until(proxy.passed.is_set)  # a job that is sent after the stop would run on
        proxy.end()
        assert done.code in (130, 0), done.out + done.err
        assert "Traceback" not in done.out + done.err
        stopped = sent.terminal.type("stop", ID, *sent.at)  # a job of a client that was cut off runs on
        assert stopped.code in (0, 2), stopped.out + stopped.err
        assert "Traceback" not in stopped.err
        assert len(ended(sent.told())) < 12, f"{name}: the job was not stopped, but went to its end"
        tally(0)

    for _ in ("it starts", "it resumes"):
        starts = sent.terminal.begin(*sent.send)
        starts.wait_for("sent ")
        sent.stop()
        starts.end()
        tally(redone(sent.terminal.home, ID))

        sent.terminal.do(*sent.send)
        before = sent.measured()
        until(
            lambda before=before: sent.measured() >= before + 10,
            lambda: sent.terminal.type("logs", ID, *sent.at).out,
            LONG_S,
        )
        sent.stop()
        assert not of(sent.told(), "failed")
        tally(redone(sent.terminal.home, ID))

    begun = time.time()
    sent.terminal.do(*sent.send)
    sent.require_whole(calm)
    tally(0, time.time() - begun)
