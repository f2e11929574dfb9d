"""A node of a cluster dies, comes back, or is drained: the numbers stay the same, and no attempt is spent."""

import os
import re
import signal
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import reduce
from pathlib import Path

import pytest

from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.faults.killed import ended, facts, measured_once, numbers, of, recovery_s, redone, require_whole
from tests.journeys.cluster import HEAD_NODE, WORKER_NODE, Cluster, cluster_of_two
from tests.journeys.files import SMALL
from tests.journeys.terminal import Terminal
from tests.waiting import LONG_S, until
from trainables.launch.errors import KILLED, LOST

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1200)]

STUDY = (
    SMALL
    + '''
import os
import time
from pathlib import Path

PIDS = Path("FOLDER")
CALLS = 0


class Signed(CodeSpec):
    """The place in the image; whoever builds it writes its pid into a file with the name of its rank.

    After some epochs it waits until there is a file `go`.
    """

    kind: str = Field(default="mine.py:Signed", init=False)
    scale: float = Field(default=1.0, gt=0, description="a positive factor")

    def params(self, dim, grid):
        global CALLS
        CALLS = 0
        (PIDS / os.environ.get("RANK", "alone")).write_text(str(os.getpid()))
        return linear("project", 2, dim)

    def code(self, p, at):
        global CALLS
        CALLS += 1
        while CALLS > HELD_AT and not (PIDS / "go").exists():
            time.sleep(0.01)
        return at.prefixed(p.linear("project", self.scale * at.centered))


study = Study(
    name="nodes",
    question="Do they come back?",
    base=BASE.put({"data.train_size": 1000, "optimizer.epochs": EPOCHS}),
    plan=Ablation(
        arms={"near": {"encoding": Signed()}, "far": {"encoding": Signed(scale=2.0)}}, baseline="near"
    ),
    budgets={"groups": Budget(values={"data.train_size": 400, "optimizer.epochs": 100}, seeds=1)},
    seeds=2,
)
'''
)
ID = "nodes@base"
EPOCHS = 40
HELD_AT = 250
"""The call at which a run is held: an epoch has 25 steps, and some more calls to evaluate."""
TOGETHER = re.compile(rf"its process was killed.*|worker \d: .*|{LOST}")


def write_study(folder: Path) -> None:
    """Writes `mine.py`, and makes the folder in which its processes leave their pids."""
    (folder / "pids").mkdir()
    values = {"EPOCHS": EPOCHS, "HELD_AT": HELD_AT, "FOLDER": folder / "pids"}
    (folder / "mine.py").write_text(reduce(lambda text, one: text.replace(one[0], str(one[1])), values.items(), STUDY))


class Study:
    """A study on a cluster of its own: sent, disturbed, and compared with the one that nothing disturbed."""

    def __init__(self, cluster: Cluster, folder: Path, budget: tuple[str, ...] = (), id: str = ID) -> None:
        self.cluster, self.folder, self.id = cluster, folder, id
        self.terminal = Terminal(folder, **cluster.token)
        write_study(folder)
        at = ("--home", str(self.terminal.home), "--address", cluster.address)
        self.send = ("submit", "./mine.py", *budget, *at)

    def submit(self) -> None:
        self.terminal.do(*self.send)

    def facts(self) -> list:
        return facts(self.terminal.home, self.id)

    def wait(self, holds: Callable[[list], object]) -> None:
        """Waits until the facts are as asked for."""

        def why() -> tuple:
            return self.facts()[-5:], self.terminal.type("logs", "nodes", *self.send[-2:]).out

        until(lambda: holds(self.facts()), why, LONG_S)

    def wait_for_training(self) -> None:
        """Waits until two runs, one on each node, have trained some epochs; both are held there."""
        self.wait(lambda told: sum(len(curve) >= 5 for curve in numbers(told).values()) == 2)

    def let_go(self) -> None:
        """Lets runs train on."""
        (self.folder / "pids" / "go").touch()

    def wait_for_end(self, runs: int) -> None:
        """Waits until all runs have their answers, and their driver has ended."""
        self.wait(lambda told: len(ended(told)) == runs)
        self.terminal.type("logs", "nodes", *self.send[-2:], "-f")


@pytest.fixture(scope="module")
def calm(tmp_path_factory) -> dict:
    """The numbers of the study that nothing disturbed, on no cluster."""
    folder = tmp_path_factory.mktemp("calm")
    write_study(folder)
    (folder / "pids" / "go").touch()
    with Terminal(folder) as terminal:
        terminal.do("run", "./mine.py")
        return numbers(facts(terminal.home, ID))


@pytest.fixture
def cluster():
    with cluster_of_two() as found:
        yield found


@pytest.fixture
def studies(cluster, tmp_path):
    """Makes studies on the cluster by name of their folder, options and id."""
    with ExitStack() as ends:

        def make(name: str, options: tuple[str, ...] = (), id: str = ID) -> Study:
            (tmp_path / name).mkdir()
            found = Study(cluster, tmp_path / name, options, id)
            ends.callback(found.terminal.clear)
            return found

        yield make


@pytest.fixture
def study(studies):
    return studies("study")


def require_lost(told) -> set[str]:
    """The runs that failed, each of them with its node, which spends no attempt."""
    failed = of(told, "failed")
    assert {fact.reason for fact in failed} == {LOST}
    assert not [fact for fact in failed if fact.counts]
    return {fact.run for fact in failed}


@pytest.mark.parametrize("joins", [True, False], ids=["it comes back", "it stays away"])
def test_a_node_dies(study, cluster, calm, tally, joins):
    study.submit()
    study.wait_for_training()
    cluster.kill(WORKER_NODE)
    begun, again = time.time(), redone(study.terminal.home, ID)
    study.let_go()
    if joins:
        cluster.start(WORKER_NODE)
    study.wait_for_end(4)
    hurt = require_lost(study.facts())
    assert hurt
    told = require_whole(study.terminal, ID, calm)
    tally(again, recovery_s(told, begun, hurt))


def test_the_head_dies_with_the_driver_and_the_cluster_is_started_anew(study, cluster, calm, tally):
    study.submit()
    study.wait_for_training()
    cluster.kill(HEAD_NODE)
    cluster.kill(WORKER_NODE)
    again = redone(study.terminal.home, ID)
    study.let_go()
    cluster.start(HEAD_NODE)
    cluster.start(WORKER_NODE)
    begun = time.time()
    study.submit()
    study.wait_for_end(4)
    assert not of(study.facts(), "failed")
    told = require_whole(study.terminal, ID, calm)
    tally(again, recovery_s(told, begun))


def test_a_node_is_taken_away_after_a_notice(study, cluster, calm, tally):
    study.submit()
    study.wait_for_training()
    cluster.drain(seconds=600)
    again, begun = redone(study.terminal.home, ID), time.time()
    cluster.kill(WORKER_NODE)
    study.let_go()
    study.wait_for_end(4)
    hurt = require_lost(study.facts())
    told = require_whole(study.terminal, ID, calm)
    tally(again, recovery_s(told, begun, hurt or None))


VICTIMS = ("rank 0", "rank 1", "ray::TrainController", "ray::GroupTrial ray::ResourceTrainable")
"""The last one has two titles: where it waits, and where it computes."""


def test_processes_of_a_group_over_two_nodes_are_killed(studies, tally):
    """A process for each of the study's four runs, in its first attempt."""
    groups = ("--budget", "groups", "--seeds", "2", "--workers", "2")
    hurt, plain = (studies(name, groups, "nodes@groups") for name in ("hurt", "calm"))
    hurt.let_go()
    plain.let_go()
    hurt.submit()
    kills = [kill_in(hurt, number, victim) for number, victim in enumerate(VICTIMS)]
    hurt.wait_for_end(4)
    plain.submit()
    plain.wait_for_end(4)
    told = require_whole(hurt.terminal, hurt.id, numbers(plain.facts()))
    failed = of(told, "failed")
    assert len(failed) == len(VICTIMS), failed
    assert all(TOGETHER.fullmatch(fact.reason) for fact in failed), failed
    assert [fact.reason for fact in failed[:2]] == [f"worker 0: {KILLED}", f"worker 1: {KILLED}"]
    for fact, (again, begun) in zip(failed, kills, strict=True):
        tally(again, recovery_s(told, begun, {fact.run}))


def kill_in(study: Study, number: int, victim: str) -> tuple[int, float]:
    """Kills a process of the run of this number, once it has trained five epochs: epochs to redo, and when."""

    def in_its_midst(told) -> bool:
        order = [*dict.fromkeys(fact.run for fact in of(told, "started"))]
        return len([fact for fact in of(told, "measured") if fact.run in order[number : number + 1]]) >= 5

    study.wait(in_its_midst)
    if victim.startswith("rank"):
        pid = int((study.folder / "pids" / victim.removeprefix("rank ")).read_text())
    else:
        (pid,) = study.cluster.processes(*victim.split())
    os.kill(pid, signal.SIGKILL)
    return redone(study.terminal.home, study.id), time.time()


def test_a_group_goes_on_with_the_workers_that_are_left(studies, cluster):
    """Its second node is gone for good, and one worker is enough."""
    study = studies("study", ("--budget", "groups", "--workers", "1-2"), "nodes@groups")
    study.submit()
    study.wait(lambda told: len(of(told, "measured")) >= 5)
    cluster.kill(WORKER_NODE)
    study.let_go()
    study.wait_for_end(2)
    told = study.facts()
    failed = of(told, "failed")
    assert failed
    assert all(fact.reason.endswith(LOST) and not fact.counts for fact in failed), failed
    assert measured_once(told)
    answers = Outcomes(Home(study.terminal.home))
    assert [answers.of(run)[-1].environment["workers"] for run in ended(told)] == [1, 1]
    study.terminal.do("verify", study.id)
