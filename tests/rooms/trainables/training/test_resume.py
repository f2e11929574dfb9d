"""Trainings that were cut: they go on from their checkpoints bit for bit."""

import random
import shutil
from itertools import islice

import numpy as np
import pytest
import torch

from tests.rooms.trainables.training.small_runs import ENCODINGS, LOCALISED, folder, numbers, same, small
from trainables.encodings import OwnEncoding
from trainables.training import loop, saving
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read
from trainables.training.evaluation import Evaluation
from trainables.training.loop import train

DRAWS = """
import random

import numpy as np
import torch

from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import Code


class Noise(EncodingSpec):
    kind: str = "noise.py:Noise"

    def build(self, widths, grid, depth):
        return NoiseCode(widths, grid)


class NoiseCode(Code):
    def __init__(self, widths, grid):
        super().__init__()
        self.base = torch.rand(grid.patches + grid.prefix, widths.dim)  # drawn when it is built, and not saved

    def code(self):
        return self.base + random.random() + np.random.rand() + torch.rand(self.base.shape)
"""


@pytest.mark.parametrize("cut", [1, 3])
@pytest.mark.parametrize(
    "values",
    [
        *({"encoding": one} for one in ENCODINGS),
        LOCALISED,
        {"encoding": OwnEncoding(kind="noise.py:Noise", source=DRAWS)},
    ],
    ids=["", "composed", "drloc", "draws"],
)
def test_a_closed_run_goes_on_bit_for_bit(tmp_path, values, cut):
    run = small(**values)
    whole = list(train(run, folder(tmp_path, "whole")))
    running = train(run, folder(tmp_path, "cut"))
    first = list(islice(running, cut))
    running.close()
    random.seed(cut), np.random.seed(cut), torch.manual_seed(cut)  # what ran before leaves the generators anywhere
    second = list(train(run, tmp_path / "cut"))
    assert second[:cut] == first
    assert numbers(second) == numbers(whole)
    assert same(read(tmp_path / "cut" / CHECKPOINT), read(tmp_path / "whole" / CHECKPOINT))
    assert same(read(tmp_path / "cut" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, monkeypatch):
    run = small()
    whole = list(train(run, folder(tmp_path, "whole")))
    monkeypatch.setattr(saving, "CHECKPOINT_S", 0.0)
    running = train(run, folder(tmp_path, "running"))
    assert len(list(islice(running, 2))) == 2
    shutil.copytree(tmp_path / "running", tmp_path / "left")  # as a kill would leave it
    running.close()
    assert numbers(train(run, tmp_path / "left")) == numbers(whole)
    assert same(read(tmp_path / "left" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_damaged_checkpoint_is_set_aside_and_the_run_begins_again(tmp_path, share):
    run = small()
    whole = list(train(run, folder(tmp_path, "whole")))
    running = train(run, folder(tmp_path, "cut"))
    next(running)
    running.close()
    checkpoint = tmp_path / "cut" / CHECKPOINT
    left = checkpoint.read_bytes()
    damaged = left[: int(share * len(left))]
    checkpoint.write_bytes(damaged)
    assert numbers(train(run, tmp_path / "cut")) == numbers(whole)
    assert checkpoint.with_suffix(".damaged").read_bytes() == damaged
    assert same(read(tmp_path / "cut" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


def test_checkpoints_are_not_written_every_epoch(tmp_path):
    running = train(small(), tmp_path)
    next(running)
    assert list(tmp_path.iterdir()) == []
    running.close()
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_a_finished_run_says_everything_again(tmp_path):
    whole = list(train(small(), tmp_path))
    weights = read(tmp_path / WEIGHTS)
    (tmp_path / WEIGHTS).unlink()
    assert list(train(small(), tmp_path)) == whole
    assert same(read(tmp_path / WEIGHTS), weights)


def test_a_crash_in_the_last_tests_trains_no_epoch_again(tmp_path, monkeypatch):
    """The tests at a further size are where memory ends: the next attempt begins with them."""
    run = small(test_sizes=[24])
    whole = list(train(run, folder(tmp_path, "whole")))
    metric, learn = Evaluation.__call__, loop.Training.learn

    def crashes(self, model, split, images, side=None):
        if side is not None:
            raise MemoryError
        return metric(self, model, split, images, side)

    monkeypatch.setattr(Evaluation, "__call__", crashes)
    with pytest.raises(MemoryError):
        list(train(run, folder(tmp_path, "crashed")))
    monkeypatch.setattr(Evaluation, "__call__", metric)
    trained = []
    monkeypatch.setattr(
        loop.Training, "learn", lambda self, number, *rest: trained.append(number) or learn(self, number, *rest)
    )
    again = list(train(run, tmp_path / "crashed"))
    assert trained == []
    assert numbers(again) == numbers(whole)
    assert again[-1].values["test/accuracy_at_24"] == whole[-1].values["test/accuracy_at_24"]
    assert same(read(tmp_path / "crashed" / CHECKPOINT), read(tmp_path / "whole" / CHECKPOINT))
    assert same(read(tmp_path / "crashed" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))
