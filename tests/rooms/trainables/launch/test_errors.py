"""Room: a failure is one sentence, in the user's words or in ours for a death."""

import pickle

import pytest
from ray.exceptions import RayTaskError

from trainables.launch.errors import (
    KILLED,
    LOST,
    UNREACHABLE,
    CodeError,
    WorkError,
    death,
    failure,
    group_failure,
    is_code_error,
    lost,
    reason,
    sentence,
)
from trainables.source import load
from trainables.spec import SpecError

KILL = """The actor died unexpectedly before finishing this task.
\tclass_name: ResourceTrainable
\tactor_id: 85a4bf6f
The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker
unexpectedly exits with a connection error code 2. End of file. Some common causes include: (1) the process was killed
by the OOM killer due to high memory usage, (2) ray stop --force was called, or (3) the worker crashed unexpectedly."""
NODE = "The actor died because its node has died. Node Id: 5d\n\tthe actor's node was terminated unexpectedly: silence"

AWAY = "The actor 3f7c is unavailable: The actor is temporarily unavailable: RpcError: RPC error: Socket closed"
FULL = "2 worker(s) were killed due to the node running low on memory.\nMemory on the node was 8.00GB used / 23.54GB"


def broken():
    raise ValueError("gamma is odd\nand more of it")


def caught(function) -> Exception:
    with pytest.raises(Exception) as info:  # noqa: PT011 (whatever it raises)
        function()
    return info.value


class GroupError(Exception):
    def __init__(self, worker_failures):
        super().__init__("Training failed due to worker errors:\nmuch text\nlast line")
        self.worker_failures = worker_failures


def test_a_sentence_has_the_first_line_and_where_it_was():
    said = sentence(caught(broken))
    assert said.startswith("ValueError: gamma is odd (test_errors.py, line ")
    assert "\n" not in said


def test_a_workers_own_words_come_through_every_wrapping():
    def wrapped():
        try:
            broken()
        except ValueError as error:
            raise WorkError(sentence(error)) from error

    error = pickle.loads(pickle.dumps(caught(wrapped)))
    text = str(RayTaskError("train", f"Traceback ...\n  File x\ntrainables.launch.errors.WorkError: {error}\n", error))
    assert reason(text) == str(error)
    assert reason(text).startswith("ValueError: gamma is odd (")


DEATHS = [
    (KILL, KILLED),
    (NODE, LOST),
    (AWAY, UNREACHABLE),
    ("The actor died unexpectedly before finishing this task.\n\tactor_id: ee5c", UNREACHABLE),
    (FULL, "its process was killed, because its node ran out of memory"),
    ("ValueError: no", None),
]


def test_deaths_are_told_apart(subtests):
    for text, said in DEATHS:
        with subtests.test(str(text)):
            assert death(text) == said
            assert lost(reason(text)) == (said == LOST)


def test_without_words_the_last_line_is_the_reason():
    assert reason("one\n  two \n\n") == "two"
    assert reason("") == "unknown error"


def test_in_a_group_the_death_is_the_reason_and_not_who_waited_for_it():
    collateral = WorkError("RuntimeError: connection closed by peer (train.py, line 9)")
    assert str(group_failure(GroupError({0: collateral, 1: RuntimeError(KILL)}))) == f"worker 1: {KILLED}"
    both = {2: RuntimeError(KILL), 1: RuntimeError(NODE), 0: collateral}
    assert str(group_failure(GroupError(both))) == f"worker 1: {LOST}", "of two deaths that of the lower rank"
    assert group_failure(GroupError({0: collateral})) is collateral
    own = CodeError("NameError: no gama (mine.py, line 3)")
    assert group_failure(GroupError({0: collateral, 1: own})) is own
    assert lost(str(group_failure(GroupError({2: RuntimeError(NODE), 0: collateral}))))
    assert str(group_failure(Exception("a\nb"))) == "b"


def test_what_code_caused_is_not_tried_again(subtests):
    for error, again in [
        (NameError("gama"), False),
        (ValueError("shapes"), False),
        (RuntimeError("The size of tensor a (3) must match the size of tensor b (4)"), False),
        (SpecError("encoding.gamma must be positive"), False),
        (OSError(28, "No space left on device"), True),
        (MemoryError(), True),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), True),
        (RuntimeError("CUDA error: device-side assert triggered"), False),
        (RuntimeError("CUDA error: no kernel image is available for execution on the device"), False),
        (RuntimeError("[../gloo/transport/tcp/pair.cc:534] Connection closed by peer"), True),
        (RuntimeError("DataLoader worker (pid 4) is killed by signal: Killed."), True),
    ]:
        with subtests.test(f"{error}, {again}"):
            found = failure(error)
            assert isinstance(found, CodeError) is not again
            last = f"trainables.launch.errors.{type(found).__name__}: {found}"
            text = str(RayTaskError("train", f"Traceback ...\n{last}\n", found))
            assert is_code_error(text) is not again
            assert reason(text) == str(found)


def test_the_place_of_an_error_is_in_the_users_own_file():
    text = "def code(helper):\n    x = 1\n    return helper(x)\n"
    own = load("mine.py", text)
    with pytest.raises(ValueError, match="gamma") as caught_error:
        own.code(lambda x: broken())
    assert sentence(caught_error.value) == "ValueError: gamma is odd (mine.py, line 3)"
