"""Room: deaths that Ray tells in another way than Tune expects, and nodes that do not answer."""

import socket
from types import SimpleNamespace

import pytest
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.air.execution._internal.tracked_actor import TrackedActor
from ray.air.execution._internal.tracked_actor_task import TrackedActorTask
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayActorError, RayError, RayTaskError

from service.execution import watchdog
from service.execution.tune import JournalScheduler
from service.execution.watchdog import Nodes, Watch, death_errors_as_actor_errors, is_node_gone, living_nodes
from service.storage.facts import FailedWith
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import driving
from trainables.launch.errors import LOST, UNREACHABLE

AWAY = "The actor 3f is unavailable: The actor is temporarily unavailable: RpcError: Socket closed. The task may"

UNEXPLAINED = "The actor died unexpectedly before finishing this task.\n\tclass_name: \n\tactor_id: ee5c\n"
"""What Ray says of a process on a node that was drained and then died."""


def told(error: Exception) -> list[Exception]:
    """What Tune's own manager tells of the error of a task."""
    heard: list[Exception] = []
    actor = TrackedActor("one", on_error=lambda actor, error: heard.append(error))
    task = TrackedActorTask(actor, on_error=lambda actor, error: heard.append(error))
    resources = SimpleNamespace(free_resources=lambda acquired_resource: None)
    manager = RayActorManager(resource_manager=resources)
    manager._live_actors_to_ray_actors_resources[actor] = (None, None)
    manager._actor_task_failed(tracked_actor_task=task, exception=error)  # as Ray calls it
    return heard


def test_a_process_that_ray_killed_is_a_dead_actor_and_does_not_end_tune():
    """Where Tune no longer raises, the block is of no use any more."""
    with pytest.raises(RuntimeError, match="unexpected exception"):
        told(OutOfMemoryError("running low on memory"))
    with death_errors_as_actor_errors():
        heard = told(OutOfMemoryError("running low on memory"))
    assert [type(error) for error in heard] == [RayActorError, RayActorError]
    assert str(heard[0]) == "running low on memory"


@pytest.mark.parametrize("error", [ActorDiedError(), RayTaskError("train", "Traceback", ValueError("odd"))])
def test_errors_that_tune_knows_stay_as_they_are(error: RayError):
    with death_errors_as_actor_errors():
        assert {*told(error)} == {error}


@pytest.fixture
def nodes(monkeypatch):
    """Nodes of a cluster: one that answers, and one at whose port nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as here, socket.socket() as there:
        there.bind(("127.0.0.1", 0))  # it does not listen, and nobody else gets its port
        ports = [one.getsockname()[1] for one in (here, there)]
        known = [
            {"NodeID": str(number), "Alive": True, "NodeManagerAddress": "127.0.0.1", "NodeManagerPort": port}
            for number, port in enumerate(ports)
        ]
        monkeypatch.setattr(watchdog.ray, "nodes", lambda: known)
        yield known


def test_a_node_is_gone_that_was_there_and_is_dead_or_does_not_answer(nodes):
    assert living_nodes() == {"0", "1"}
    assert is_node_gone({"0", "1"})
    assert not is_node_gone({"0"})
    nodes[0]["Alive"] = False
    assert is_node_gone({"0"})
    assert not is_node_gone({"2"}), "it was not there before"


def test_a_node_is_gone_that_was_started_again_at_the_same_address(nodes):
    """Ray lists both as alive for some seconds, and the new one answers for the old one."""
    nodes.append({**nodes[0], "NodeID": "2"})
    assert is_node_gone({"0"})
    nodes[0]["Alive"] = False
    assert not is_node_gone({"2"}), "a run that began on the new one has lost nothing"


@pytest.mark.parametrize(("gone", "reason"), [(True, LOST), (False, UNREACHABLE)])
@pytest.mark.parametrize("text", [AWAY, UNEXPLAINED], ids=["away", "unexplained"])
def test_a_process_without_an_answer_is_lost_where_a_node_is_gone(home: Home, nodes, tmp_path, text, gone, reason):
    """A node that was dead before the run began has not taken it along."""
    nodes[1]["Alive"] = gone
    known = Nodes()
    (tmp_path / "error.txt").write_text(text)
    with driving(home, arms()) as driver:
        job = driver.next()
        trial = SimpleNamespace(config={"job": job.plain()}, trial_id="one", error_file=str(tmp_path / "error.txt"))
        known.on_trial_start(0, [], trial)
        JournalScheduler(driver, print, Watch(None), known).on_trial_error(None, trial)
    (failed,) = facts(home, arms(), FailedWith)
    assert (failed.reason, failed.counts) == (reason, not gone)
