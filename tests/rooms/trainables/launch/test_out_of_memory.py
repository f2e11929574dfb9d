"""Runs that a GPU's memory does not hold. An encoding of a user's own plays the GPU: it holds so many images."""

import json

import pytest

from tests.rooms.trainables.launch.test_worker import RUN, losses
from trainables.encodings import PEG, OwnEncoding
from trainables.launch.errors import WorkError
from trainables.launch.job import Job
from trainables.launch.worker import work
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigests
from trainables.training.optional.out_of_memory import GpuMemoryError, check_parts

SMALL_GPU = '''
from typing import Literal

import torch
from torch import nn
from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import PositionEncoding

class Small(EncodingSpec):
    """Changes nothing; in training its memory is too small for more than `holds` images, from a step on."""

    kind: Literal["mine.py:Small"] = "mine.py:Small"
    holds: int = 20
    first: int = 0
    norm: bool = False

    def build(self, widths, grid, depth):
        return SmallModule(self, widths.dim)


class SmallModule(PositionEncoding):
    def __init__(self, spec, dim):
        super().__init__()
        self.spec, self.calls = spec, 0
        self.norm = nn.BatchNorm1d(dim) if spec.norm else nn.Identity()

    def tokens(self, t, block):
        if self.training:
            self.calls += 1
            if self.calls > self.spec.first and len(t.x) > self.spec.holds:
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return t

    def init_parameter(self, name, value, stream):
        value.fill_(1.0)
'''


def job(folder, run):
    folder.mkdir()
    return Job(run=run, code=CodeDigests()(run.recipe), label="0", attempt=1, folder=str(folder))


def small_gpu(**values):
    """The run of 130 images in batches of 40, on a GPU with a small memory."""
    encoding = OwnEncoding(kind="mine.py:Small", source=SMALL_GPU, **values)
    return Run(RUN.recipe.put({"encoding": encoding}), 1)


def in_two_parts():
    """The same run on a large GPU, with a recipe that asks for two parts."""
    return Run(small_gpu(holds=40).recipe.put({"optimizer.accumulate": 2}), 1)


def trained(folder, run):
    said = []
    work(job(folder, run), lambda message: said.append(message) is None)
    return said


def test_a_batch_that_does_not_fit_is_computed_in_parts(tmp_path):
    said = trained(tmp_path / "a", small_gpu(holds=20))
    in_parts = trained(tmp_path / "b", in_two_parts())
    assert losses(said) == losses(in_parts)
    assert json.loads(said[-1]["environment"])["accumulate"] == 2
    assert {one["note"] for one in said} == {
        "the GPU's memory did not hold a batch: it is computed in 2 times as many parts"
    }
    assert {one["note"] for one in in_parts} == {""}


def test_a_later_failure_goes_on_from_whole_epochs(tmp_path):
    """Four batches an epoch: the sixth, in the second epoch, does not fit."""
    said = trained(tmp_path / "a", small_gpu(holds=20, first=5))
    assert [one["epoch"] for one in said] == [1, 1, 2, 3], "no checkpoint was due, so the run began again"
    in_parts = trained(tmp_path / "b", in_two_parts())
    assert losses(said)[1:] == losses(in_parts)


def test_a_second_failure_is_one_sentence_of_advice(tmp_path):
    with pytest.raises(WorkError) as caught:
        trained(tmp_path / "a", small_gpu(holds=19))
    assert str(caught.value).startswith("optimizer.batch_size must fit into the GPU's memory, got 40 images in 2 parts")
    for advice in ("GiB a run were predicted", "optimizer.accumulate", "optimizer.batch_size", "--runs-per-gpu"):
        assert advice in str(caught.value)
    assert len(str(caught.value)) <= 400


def test_a_batch_norm_of_ones_own_must_see_whole_batches(tmp_path):
    with pytest.raises(WorkError, match=r"got 40 images in 1 part; .*; a batch norm that learns must see a batch as a"):
        trained(tmp_path / "a", small_gpu(norm=True))


def test_what_cannot_be_cut_is_refused_at_once():
    norms = RUN.recipe.put({"encoding": PEG(form="depthwise_stack")})
    ones = RUN.recipe.put({"optimizer.batch_size": 1})
    for recipe, workers, why in (
        (norms, 1, "a batch norm that learns must see a batch as a whole"),
        (RUN.recipe, 2, "a group of workers is not trained again in more parts"),
        (ones, 1, "got 1 images in 1 part"),
    ):
        with pytest.raises(GpuMemoryError, match=why):
            check_parts(recipe, workers, "cpu")
    check_parts(RUN.recipe, 1, "cpu")
