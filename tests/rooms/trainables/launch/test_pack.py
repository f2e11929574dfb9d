"""Room: jobs that one process trains as one model: what is reported of each, and what becomes of those that cannot."""

import json

import pytest
import torch

from tests.rooms.trainables.training.small_runs import small
from trainables.encodings import PEG, Fourier
from trainables.launch.alone import Alone
from trainables.launch.errors import WorkError
from trainables.launch.job import Job
from trainables.recipe.revisions import code_of
from trainables.training.optional import fused
from trainables.training.optional.fused import train_together

EPOCHS = 4


def jobs(path, runs):
    made = []
    for number, run in enumerate(runs):
        folder = path / str(number)
        folder.mkdir(parents=True)
        code = code_of(run.recipe)
        made.append(Job(run=run, code=code, label=str(number), attempt=1, folder=str(folder)))
    return made


def exact(seed, **values):
    return small(seed, optimizer__precision="float64", **values)


def reported(*jobs, after=lambda number: None):
    """What is reported of each, by key; `after` is called behind each message."""
    training, told, number = Alone(*jobs), {job.run.key: [] for job in jobs}, 0
    while (message := training.next()) is not None:
        for of_run in json.loads(message["runs"]) if "runs" in message else [{**message, "run": jobs[0].run.key}]:
            told[of_run["run"]].append(of_run)
        number += 1
        after(number)
    training.close()
    return told


def losses(messages):
    return [json.loads(message["result"])["values"]["train/loss"] for message in messages]


def fusions(messages):
    return json.loads(messages[-1]["environment"])["fused"]


def test_a_pack_reports_of_each_run_what_it_reports_alone(tmp_path):
    runs = [exact(seed) for seed in range(3)]
    pack = reported(*jobs(tmp_path / "pack", runs))
    for run, job in zip(runs, jobs(tmp_path / "alone", runs), strict=True):
        mine, own = pack[run.key], reported(job)[run.key]
        assert losses(mine) == pytest.approx(losses(own), rel=1e-6)
        assert [message["epoch"] for message in mine] == [message["epoch"] for message in own] == [1, 2, 3, 4]
        assert (fusions(mine), fusions(own)) == (3, 1)
    assert (tmp_path / "pack" / "2" / "weights.pt").exists()


def test_runs_of_other_shapes_train_with_those_of_their_recipe(tmp_path):
    """Two of each recipe are one model; a third recipe is alone."""
    runs = [exact(seed, encoding=Fourier(hidden=hidden)) for hidden in (6, 7) for seed in range(2)]
    runs.append(exact(0, encoding=Fourier(hidden=8)))
    told = reported(*jobs(tmp_path, runs))
    assert [fusions(told[run.key]) for run in runs] == [2, 2, 2, 2, 1]
    assert all(len(messages) == EPOCHS for messages in told.values())


def test_numbers_that_a_module_holds_are_those_of_each_run(tmp_path):
    """PEG's padding is no tensor: as one model both would have the first one's, so they train one by one."""
    runs = [exact(0, encoding=PEG(padding=padding), model__depth=2) for padding in ("zeros", "circular")]
    pack = reported(*jobs(tmp_path / "pack", runs))
    for run, job in zip(runs, jobs(tmp_path / "alone", runs), strict=True):
        assert losses(pack[run.key]) == losses(reported(job)[run.key])
        assert fusions(pack[run.key]) == 1


def test_memory_that_does_not_hold_all_holds_halves(tmp_path, monkeypatch):
    """The third run is too much."""
    sizes = []

    def small_memory(runs, *given):
        sizes.append(len(runs))
        if len(runs) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return train_together(runs, *given)

    monkeypatch.setattr(fused, "train_together", small_memory)
    told = reported(*jobs(tmp_path, [exact(seed) for seed in range(4)]))
    assert sizes == [4, 2, 2]
    assert all(len(messages) == EPOCHS for messages in told.values())


def test_a_run_that_the_driver_stops_is_left_out(tmp_path):
    made = jobs(tmp_path, [exact(seed) for seed in range(3)])
    told = reported(*made, after=lambda number: number == 2 and (tmp_path / "1").rmdir())
    assert [len(told[job.run.key]) for job in made] == [4, 2, 4]


def test_an_error_is_that_of_all(tmp_path, monkeypatch):
    def broken(*given):
        raise ValueError("nothing works")
        yield

    monkeypatch.setattr(fused, "train_together", broken)
    training = Alone(*jobs(tmp_path, [exact(seed) for seed in range(2)]))
    with pytest.raises(WorkError, match="nothing works"):
        training.next()
    training.close()
