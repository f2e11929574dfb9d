"""Room: what is found on the nodes of a cluster, from what each of them answered."""

import platform
from pathlib import Path

from service.doctor import of_node
from service.execution.ray_session import NodeAnswer
from service.storage.home import Home

SEEN = {
    "host": "a", "python": platform.python_version(), "torch": "2", "time": 100.0, "shared": True, "open": False,
    "free": 50.0, "gpus": 1, "gpus_of_torch": 1,
}  # fmt: skip


def found(sent=99.0, came=101.0, error="", **seen):
    answer = NodeAnswer("10.0.0.1", 4, 16.0, sent, came, None if error else SEEN | seen, error)
    return [(one.name, one.state, one.detail) for one in of_node(answer, Home(Path("/home")))]


def test_a_sound_node_is_ok():
    assert {state for _, state, _ in found()} == {"ok"}
    assert [name for name, _, _ in found()] == ["node 10.0.0.1", "disk", "clock", "GPUs", "memory"]


def test_what_is_wrong_is_told_of_the_node() -> None:
    for seen, name, words in [
        ({"shared": False, "free": None}, "home", "a (10.0.0.1) does not see /home as the head does"),
        ({"open": True}, "home", "/home can be written by everybody"),
        ({"python": "3.1"}, "packages", "a (10.0.0.1) has Python 3.1, the head"),
        ({"free": 0.1}, "disk", "0.1 GiB are free in /home of a (10.0.0.1)"),
        ({"gpus_of_torch": 0}, "GPUs", "torch sees 0 of 1 GPU of a (10.0.0.1)"),
        ({"error": "no torch"}, "node 10.0.0.1", "it does not answer: no torch"),
    ]:
        (wrong,) = [one for one in found(**seen) if one[1] == "wrong"]
        assert wrong[0] == name
        assert wrong[2].startswith(words)


def test_a_clock_is_compared_with_the_times_of_question_and_answer() -> None:
    for time, words in [(80.0, "19 s behind"), (130.0, "29 s ahead"), (99.5, ""), (94.5, ""), (105.5, "")]:
        (clock,) = [one for one in found(time=time) if one[0] == "clock"]
        assert clock[1] == ("look" if words else "ok")
        assert words in clock[2]
