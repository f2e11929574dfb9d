"""A job in another process: a user's file is executed again, a bridge, temporary folders; a failure is one sentence."""

import asyncio
import os
import pickle
import tempfile
from importlib import metadata

import pytest
from filelock import FileLock
from ray.exceptions import RayTaskError

from tests.rooms.trainables.data.own_data import reading
from trainables.cgroup import cores
from trainables.data import RedGreen
from trainables.data.splits_torch import load as load_data
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
from trainables.launch.group import Bridge
from trainables.launch.job import Job
from trainables.launch.message import FRAMEWORKS, host, memory_gib
from trainables.launch.scratch import scratch
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.planned import as_planned
from trainables.recipe.revisions import Code
from trainables.source import load
from trainables.spec import SpecError

OWN = """
from pydantic import Field
from trainables.encodings import CodeSpec, linear

SCALE = float(open("scale.txt").read())


class Mine(CodeSpec):
    kind: str = Field(default="mine.py:Mine", init=False)

    def params(self, dim, grid):
        return linear("project", 2, dim)

    def code(self, p, at):
        return at.prefixed(p.linear("project", SCALE * at.centered))
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """The working folder, which has a file that a user's own file reads, and the folder of a worker."""
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "scale.txt").write_text("2.5")
    monkeypatch.chdir(here)
    return here, there


def test_a_relative_path_in_a_users_file_means_the_same_in_a_worker(folders, monkeypatch):
    here, there = folders
    recipe = Recipe(encoding=load("mine.py", OWN).Mine())
    job = Job(
        run=Run(recipe=recipe, seed=0), code=Code(revisions={}), label="0", attempt=1, folder=str(there),
        cwd=Job.working_folder(),
    )  # fmt: skip
    sent = job.plain()
    monkeypatch.delitem(__import__("sys").modules, load("mine.py", OWN).__name__)  # as in a fresh process
    monkeypatch.chdir(there)
    assert Job.received(sent) == job
    assert os.getcwd() == str(here)


def test_a_node_without_that_folder_stays_where_it_is(folders, tmp_path, monkeypatch):
    _, there = folders
    job = Job(
        run=Run(recipe=Recipe(), seed=0), code=Code(revisions={}), label="0", attempt=1, folder=str(there),
        cwd=str(tmp_path / "gone"),
    )  # fmt: skip
    monkeypatch.chdir(there)
    assert Job.received(job.plain()) == job
    assert os.getcwd() == str(there)


def test_a_run_keeps_the_key_that_it_was_planned_with(tmp_path):
    """If the files of a user's own class change, the driver still knows the run, and a worker refuses the images."""
    own = reading(tmp_path / "images")
    data = RedGreen(image_size=16, train_size=20, val_size=10, test_size=10)
    child = own.put({"data": data, "init": FromTrial(values={"data": own.data}, part="backbone")})
    for recipe in (own, child):
        (tmp_path / "images").write_text("1")
        run = Run(recipe=Recipe.read(recipe.plain()), seed=0)
        job = Job(**as_planned(run), code=Code(revisions={}), label="0", attempt=1, folder=".")
        (tmp_path / "images").write_text("2")
        sent = Job.read(job.plain())
        assert sent.run.key == run.key
        assert Job.read(sent.plain()).run.key == run.key
    sent = Job.read({**sent.plain(), "run": Run(recipe=own, seed=0).plain(), "fingerprint": own.data.fingerprint})
    with pytest.raises(SpecError, match=r"^Read\.fingerprint in read\.py must be '6b86b273', as when"):
        load_data(sent.run.recipe.data)


def test_a_message_waits_for_its_verdict():
    async def talk():
        bridge = Bridge()
        heard = []

        async def rank_0():
            return [await bridge.send({"epoch": epoch}) for epoch in (1, 2, 3)]

        async def asker():
            for verdict in (bridge.go_on, bridge.go_on, bridge.end):
                heard.append(await bridge.receive())
                await verdict()

        verdicts, _ = await asyncio.wait_for(asyncio.gather(rank_0(), asker()), 5)
        return verdicts, heard

    verdicts, heard = asyncio.run(talk())
    assert verdicts == [True, True, False]
    assert [message["epoch"] for message in heard] == [1, 2, 3]


def test_an_ended_bridge_answers_with_an_end_whenever_it_is_asked():
    async def talk():
        bridge = Bridge()
        await bridge.end()  # nobody was waiting
        return [await asyncio.wait_for(bridge.send({"epoch": epoch}), 5) for epoch in (1, 2)]

    assert asyncio.run(talk()) == [False, False]


def test_a_closed_bridge_tells_the_asker():
    async def talk():
        bridge = Bridge()
        waiting = asyncio.create_task(bridge.receive())
        await asyncio.sleep(0)
        await bridge.close()
        return await asyncio.wait_for(waiting, 5)

    assert asyncio.run(talk()) is None


@pytest.fixture
def around(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_there_for_the_block_alone(around):
    with scratch("locus-run-") as one, scratch("locus-run-") as other:
        assert list(one.iterdir()) == list(other.iterdir()) == []
        (one / "file").touch()
        (one.parent / "lock").stat()
    assert list(around.iterdir()) == []


def test_only_folders_of_killed_processes_are_removed(around):
    folders = {name: around / f"locus-run-{name}" for name in ("killed", "at work", "begins")}
    folders["of another use"] = around / "locus-tune-killed"
    for folder in folders.values():
        (folder / "files").mkdir(parents=True)
        (folder / "files" / "checkpoint.pt").write_bytes(b"1")
    with FileLock(folders["at work"] / "lock"):
        for name in ("killed", "at work", "of another use"):
            os.utime(folders[name], (1, 1))
        with scratch("locus-run-"):
            assert not folders.pop("killed").exists()
    assert sorted(around.iterdir()) == sorted(folders.values())
    assert all((folder / "files" / "checkpoint.pt").exists() for folder in folders.values())


def test_a_run_records_its_machine_and_the_frameworks():
    found = host()
    assert found["host_cores"] == cores() >= 1
    assert 0.1 < found["host_memory_gib"] == memory_gib() < 2**14
    assert {name: found[name] for name in FRAMEWORKS} == {name: metadata.version(name) for name in FRAMEWORKS}
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as file:
            names = {line.partition(":")[2].strip() for line in file if line.startswith("model name")}
        assert not names or found["host_cpu"] in names


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


def raised_by(function) -> Exception:
    with pytest.raises(Exception) as info:  # noqa: PT011 (whatever it raises)
        function()
    return info.value


class GroupError(Exception):
    def __init__(self, worker_failures):
        super().__init__("Training failed due to worker errors:\nmuch text\nlast line")
        self.worker_failures = worker_failures


def test_a_sentence_has_the_first_line_and_where_it_was():
    said = sentence(raised_by(broken))
    assert said.startswith("ValueError: gamma is odd (test_job.py, line ")
    assert "\n" not in said


def test_a_workers_own_words_come_through_every_wrapping():
    def wrapped():
        try:
            broken()
        except ValueError as error:
            raise WorkError(sentence(error)) from error

    error = pickle.loads(pickle.dumps(raised_by(wrapped)))
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
