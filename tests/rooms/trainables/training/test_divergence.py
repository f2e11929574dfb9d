"""Trainings that diverge: it comes last and says where it began."""

import math
from itertools import islice

import pytest
import torch

from tests.rooms.trainables.training.small_runs import small
from trainables.recipe.outcome import Diverged
from trainables.training import loop
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read, write
from trainables.training.loop import train


def test_a_rate_far_too_high_diverges_at_its_first_epoch(tmp_path):
    run = small(optimizer__lr=1e30, optimizer__schedule="constant")
    items = list(train(run, tmp_path))
    assert items == [Diverged(epoch=1, curve=(), reason="train/loss not finite")]
    assert not (tmp_path / WEIGHTS).exists()


def poisoned(tmp_path, name):
    """A run cut after its second epoch, with one weight of its checkpoint made NaN."""
    run = small(trainable="position+head")
    running = train(run, tmp_path)
    first = list(islice(running, 2))
    running.close()
    state = read(tmp_path / CHECKPOINT)
    state["weights"][name].view(-1)[0] = math.nan
    write(tmp_path / CHECKPOINT, state)
    return run, first


def test_divergence_comes_last_and_carries_the_epochs_before_it(tmp_path):
    run, first = poisoned(tmp_path, "head.bias")
    said = list(train(run, tmp_path))
    assert said == [*first, Diverged(epoch=3, curve=tuple(first), reason="train/loss not finite")]


@pytest.mark.parametrize("where", ["weights", "val/accuracy"])
def test_divergence_says_where_it_began(tmp_path, monkeypatch, where):
    def learn(training, number, *rest, **more):
        spoilt = training.learning[0] if where == "weights" else training.model.norm.bias
        with torch.no_grad():
            spoilt.view(-1)[0] = math.inf
        return {"train/loss": 0.5, "train/images_per_s": 1.0, "time/epoch_s": 1.0}

    monkeypatch.setattr(loop.Training, "learn", learn)
    (item,) = train(small(trainable="position+head"), tmp_path)
    assert item.reason == f"{where} not finite"
