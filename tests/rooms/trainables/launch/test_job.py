"""Room: a job that comes to another process, in which a user's file is executed again."""

import os

import pytest

from tests.rooms.trainables.data.own_data import reading
from trainables.data import RedGreen
from trainables.data.splits_torch import load as load_data
from trainables.launch.job import Job
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.code_digest import CodeDigest
from trainables.recipe.planned import as_planned
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
        run=Run(recipe=recipe, seed=0), code=CodeDigest(files={}), label="0", attempt=1, folder=str(there),
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
        run=Run(recipe=Recipe(), seed=0), code=CodeDigest(files={}), label="0", attempt=1, folder=str(there),
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
        job = Job(**as_planned(run), code=CodeDigest(files={}), label="0", attempt=1, folder=".")
        (tmp_path / "images").write_text("2")
        sent = Job.read(job.plain())
        assert sent.run.key == run.key
        assert Job.read(sent.plain()).run.key == run.key
    sent = Job.read({**sent.plain(), "run": Run(recipe=own, seed=0).plain(), "fingerprint": own.data.fingerprint})
    with pytest.raises(SpecError, match=r"^Read\.fingerprint in read\.py must be '6b86b273', as when"):
        load_data(sent.run.recipe.data)
