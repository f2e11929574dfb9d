"""Room: a job whose folder is a URI is trained without a shared disk, and goes on elsewhere."""

import asyncio
import gc
import json
import tempfile
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from fsspec.asyn import get_loop

from tests.rooms.trainables.launch.test_worker import RUN, losses, trained
from trainables.launch import work_files
from trainables.launch.job import Job
from trainables.launch.work_files import Sender, local_files
from trainables.launch.worker import work
from trainables.recipe import FromTrial
from trainables.recipe.revisions import code_of
from trainables.remote_files import RemoteFolder, StorageError


def job(folder: str, run=RUN, **more) -> Job:
    return Job(run=run, code=code_of(run.recipe), label="0", attempt=1, folder=folder, **more)


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Where temporary folders lie; a run leaves none."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    yield folder
    assert not list(folder.glob("locus-run-*"))


def test_weights_are_there_before_the_last_message_and_nothing_is_left(s3, scratch, tmp_path):
    remote = RemoteFolder(f"{s3}/work/1")
    names: list[list[str]] = []
    work(job(remote.uri), lambda message: names.append(remote.names()) is None)
    assert "weights.pt" not in names[0] + names[1]
    assert "weights.pt" in names[2]
    (tmp_path / "usual").mkdir()
    trained(job(str(tmp_path / "usual")))
    assert remote.read("weights.pt") == (tmp_path / "usual" / "weights.pt").read_bytes()


def test_a_run_goes_on_from_the_checkpoint_at_the_storage(s3, scratch, tmp_path):
    whole = losses(trained(job(f"{s3}/whole")))
    parts = RemoteFolder(f"{s3}/parts")
    said: list[dict] = []
    work(job(parts.uri), lambda message: said.append(message) or False)
    assert losses(said) == whole[:1]
    assert parts.names() == ["checkpoint.pt"]
    assert losses(trained(job(parts.uri))) == whole


def test_new_checkpoints_are_sent_while_a_run_trains(s3, scratch, tmp_path, monkeypatch):
    monkeypatch.setattr(work_files, "LOOK_S", 0.05)
    remote = RemoteFolder(f"{s3}/work")
    with local_files(job(remote.uri)) as (local, sender):
        assert sender is not None
        checkpoint = Path(local.folder) / "checkpoint.pt"
        for content in (b"1", b"2"):
            draft = checkpoint.with_suffix(".tmp")
            draft.write_bytes(content)
            draft.replace(checkpoint)
            for _ in range(200):
                if remote.read("checkpoint.pt") == content:
                    break
                sender._end.wait(0.05)
            assert remote.read("checkpoint.pt") == content


def test_a_parents_weights_are_fetched_and_their_lack_is_said(s3, scratch, tmp_path):
    child = RUN.recipe.put({"init": FromTrial(values={"optimizer.lr": 0.02}).plain()})
    run = RUN.model_copy(update={"recipe": child})
    parent = run.parents["init"]
    trained(job(f"{s3}/parent", parent))
    weights = RemoteFolder(f"{s3}/parent").read("weights.pt")
    (tmp_path / "parent.pt").write_bytes(weights)
    (tmp_path / "usual").mkdir()
    right = losses(trained(job(str(tmp_path / "usual"), run, parents={"init": str(tmp_path / "parent.pt")})))
    assert losses(trained(job(f"{s3}/child", run, parents={"init": f"{s3}/parent/weights.pt"}))) == right
    with (
        pytest.raises(StorageError, match=r"must hold the weights of a parent"),
        local_files(job(f"{s3}/lost", run, parents={"init": f"{s3}/lost/weights.pt"})),
    ):
        pass


def test_a_folder_that_is_a_path_stays_as_it_is(tmp_path):
    mine = job(str(tmp_path))
    with local_files(mine) as (local, sender):
        assert local is mine
        assert sender is None
    assert json.loads(mine.model_dump_json())["folder"] == str(tmp_path)


@contextmanager
def collected_by_hand():
    """Nothing is collected while the block lasts but by `gc.collect`."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def leave(folder: str, ended: list[threading.Thread]) -> None:
    """Leaves a training that nobody closes, with a new checkpoint, to the garbage collector."""

    def training():
        try:
            with local_files(job(folder)) as (local, _):
                (Path(local.folder) / "checkpoint.pt").write_bytes(b"1")
                yield
        finally:
            ended.append(threading.current_thread())

    running = training()
    next(running)
    cycle = [running]
    cycle.append(cycle)


def test_a_training_that_is_collected_in_the_thread_of_all_storages_keeps_nobody_waiting(s3, scratch, monkeypatch):
    """The copies wait for that thread, so it must not wait for them: all storages of the process would stand still."""
    monkeypatch.setattr(work_files, "LOOK_S", 0.01)
    asking, busy, done, put = threading.Event(), threading.Event(), threading.Event(), RemoteFolder.put

    def waiting(*args):
        asking.set()
        busy.wait(60)
        put(*args)

    monkeypatch.setattr(RemoteFolder, "put", waiting)
    remote, loop = RemoteFolder(f"{s3}/work", patience=0), get_loop()
    remote.write("before", b"1")
    ended: list[threading.Thread] = []

    def collect() -> None:
        busy.set()  # so the copies wait for this thread, or will
        gc.collect()
        done.set()

    with collected_by_hand():
        leave(f"{s3}/work", ended)
        assert asking.wait(60)
        loop.call_soon_threadsafe(collect)
        assert done.wait(60), "the thread waits for itself"
    assert [thread.name for thread in ended] == ["fsspecIO"]
    asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop).result(60)
    remote.write("after", b"2")
    assert (remote.read("before"), remote.read("after")) == (b"1", b"2")


@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
def test_a_training_that_is_collected_in_the_thread_of_its_copies_keeps_nobody_waiting(s3, scratch, monkeypatch):
    monkeypatch.setattr(work_files, "LOOK_S", 0.01)
    put, done = RemoteFolder.put, threading.Event()

    def collecting(*args):
        gc.collect()
        done.set()
        put(*args)

    monkeypatch.setattr(RemoteFolder, "put", collecting)
    ended: list[threading.Thread] = []
    with collected_by_hand():
        leave(f"{s3}/work", ended)
        assert done.wait(60), "the thread waits for itself"
    (thread,) = ended
    assert thread.name == "copies"
    thread.join(60)
    assert not thread.is_alive()


def test_copies_that_stand_still_are_not_waited_for_without_end(tmp_path, monkeypatch):
    monkeypatch.setattr(work_files, "LOOK_S", 0.01)
    asking, again = threading.Event(), threading.Event()

    def stand_still(*_):
        asking.set()
        again.wait(60)

    monkeypatch.setattr(RemoteFolder, "put", stand_still)
    sender = Sender(tmp_path, RemoteFolder("memory://work", patience=0.1, limit=0.1))
    (tmp_path / "checkpoint.pt").write_bytes(b"1")
    assert asking.wait(60)
    with pytest.raises(StorageError, match=r"memory://work does not answer: a checkpoint is still being sent"):
        sender.close()
    again.set()
