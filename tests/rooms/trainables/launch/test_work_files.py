"""Room: a job whose folder is a URI is trained without a shared disk, and goes on elsewhere."""

import json
import tempfile
from pathlib import Path

import pytest

from tests.rooms.trainables.launch.test_worker import RUN, losses, trained
from trainables.launch import work_files
from trainables.launch.job import Job
from trainables.launch.work_files import local_files
from trainables.launch.worker import work
from trainables.recipe import FromTrial
from trainables.recipe.code_digest import CodeDigests
from trainables.remote_files import RemoteFolder, StorageError


def job(folder: str, run=RUN, **more) -> Job:
    return Job(run=run, code=CodeDigests()(run.recipe), label="0", attempt=1, folder=folder, **more)


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
