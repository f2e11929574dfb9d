"""Trainings that were cut, killed or damaged go on bit for bit; when checkpoints are written; how trainings diverge."""

import errno
import gc
import math
import threading
from itertools import islice
from types import SimpleNamespace

import pytest
import torch

from tests.rooms.trainables.data.pictures import image_folder
from tests.rooms.trainables.training.small_runs import (
    ENCODINGS,
    LOCALISED,
    SMALL,
    folder,
    numbers,
    same,
    small,
    whole_if_it_goes_on,
)
from trainables.encodings import PEG, OwnEncoding, Rotary
from trainables.recipe import Run
from trainables.recipe.outcome import Diverged
from trainables.training import loop, saving
from trainables.training.checkpoint import CHECKPOINT, EMA_WEIGHTS, WEIGHTS, read, write
from trainables.training.evaluation import Evaluation
from trainables.training.loop import Training, train
from trainables.training.saving import Progress, Saver

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


BATCH_NORMS = {"encoding": PEG(form="depthwise_stack")}
AVERAGED = {"optimizer__ema_decay": 0.9}
TIMMS = {"layer_decay": 0.6, "ema_decay": 0.9, "ema_warmup": True, "lr": 0.02, "epochs": 3, "batch_size": 8}
RESUMED = [
    ({"encoding": ENCODINGS[0]}, 3), ({"encoding": ENCODINGS[1]}, 1), (LOCALISED, 3),
    ({"encoding": OwnEncoding(kind="noise.py:Noise", source=DRAWS)}, 1),
    ({"optimizer__accumulate": 2, "test_sizes": (24,)}, 2),
    ({"model__depth": 3, "model__drop_path": 0.6, "optimizer__accumulate": 3, **LOCALISED}, 2),
    ({**AVERAGED, **BATCH_NORMS}, 2), ({**AVERAGED, "encoding": ENCODINGS[1]}, 1),
    ({"optimizer__layer_decay": 0.6, "model__depth": 2}, 2), ({"optimizer__precision": "float16"}, 1),
    ({"encoding": Rotary(normalize_coords="separate", jitter_coords=3.0)}, 1),
    *(({"optimizer": {"kind": kind, **TIMMS}}, 1) for kind in ("lamb", "sgd", "muon")),
]  # fmt: skip


@pytest.mark.parametrize(("values", "cut"), RESUMED)
def test_a_closed_run_goes_on_bit_for_bit(tmp_path, values, cut):
    whole_if_it_goes_on(small(**values), tmp_path, cut)


SHORT = {"epochs": 4, "batch_size": 7}
AS_DEIT_3 = {
    "augment.kind": "three_augment", "loss": {"kind": "bce", "target_threshold": 0.0},
    "optimizer": {**SHORT, "kind": "lamb"}, "model.layer_scale": 1e-4,
}  # fmt: skip


@pytest.mark.parametrize("values", [{}, {"augment.kind": "standard"}, {"augment.kind": "deit"}, AS_DEIT_3])
def test_a_run_on_augmented_images_goes_on_bit_for_bit(tmp_path, monkeypatch, values):
    """Closed after two epochs, and killed in the second; with processes that read its images."""
    root = image_folder(tmp_path / "set", {"train": 10, "test": 4})
    data = {"kind": "folder", "path": str(root), "image_size": 8}
    run = Run(
        SMALL.put({"data": data, "model.depth": 2, **{f"optimizer.{n}": v for n, v in SHORT.items()}, **values}), 3
    )
    whole = whole_if_it_goes_on(run, tmp_path, 2, loader_workers=2)
    killed_after(6, run, folder(tmp_path, "killed"), monkeypatch)
    assert Progress.read(read(tmp_path / "killed" / CHECKPOINT)["progress"]).steps > 0
    assert numbers(train(run, tmp_path / "killed", loader_workers=2)) == numbers(whole)
    assert same(read(tmp_path / "killed" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


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
    run = small(test_sizes=[24], **AVERAGED)
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
    for name in ("test/accuracy_at_24", "test/accuracy_ema"):
        assert again[-1].values[name] == whole[-1].values[name]
    for file in (CHECKPOINT, WEIGHTS, EMA_WEIGHTS):
        assert same(read(tmp_path / "crashed" / file), read(tmp_path / "whole" / file))


class Killed(BaseException):
    """What a test raises inside a step."""


def killed_after(steps, run, path, monkeypatch):
    """Trains until so many steps were done, with a checkpoint after each; leaves the folder as it was then."""
    step, done = Training._step, []

    def counted(self, *given):
        if len(done) == steps:
            raise Killed
        done.append(step(self, *given))
        return done[-1]

    with monkeypatch.context() as patched:
        patched.setattr(Saver, "due", property(lambda self: True))
        patched.setattr(Training, "_step", counted)
        with pytest.raises(Killed):
            list(train(run, path))


MANY = {
    "model__depth": 2, "model__drop_path": 0.5, "optimizer__ema_decay": 0.8, "optimizer__accumulate": 2,
    "optimizer__layer_decay": 0.7,
}  # fmt: skip


@pytest.mark.parametrize("values", [{"encoding": ENCODINGS[1]}, LOCALISED, BATCH_NORMS, MANY])
def test_a_run_killed_inside_an_epoch_goes_on_bit_for_bit(tmp_path, monkeypatch, values):
    """Four steps an epoch, four epochs: cut inside the first, at its end, inside the second, before the last step."""
    run = small(**values)
    whole = list(train(run, folder(tmp_path, "whole")))
    for steps in (1, 3, 4, 6, 15):
        cut = folder(tmp_path, f"cut {steps}")
        killed_after(steps, run, cut, monkeypatch)
        left = Progress.read(read(cut / CHECKPOINT)["progress"])
        assert (len(left.curve), left.steps) == divmod(steps, 4)
        assert numbers(train(run, cut)) == numbers(whole), steps
        for name in (WEIGHTS, EMA_WEIGHTS) if values is MANY else (WEIGHTS,):
            assert same(read(cut / name), read(tmp_path / "whole" / name)), (steps, name)


def test_the_time_of_an_epoch_holds_what_was_before_the_kill(tmp_path, monkeypatch):
    run = small(optimizer__epochs=2)
    killed_after(2, run, tmp_path, monkeypatch)
    state = read(tmp_path / CHECKPOINT)
    assert 0 < state["progress"]["seconds"] < 60
    state["progress"]["seconds"] = 1000.0
    write(tmp_path / CHECKPOINT, state)
    first, second = train(run, tmp_path)
    assert 1000 < first.values["time/epoch_s"] < 1060
    assert first.values["train/images_per_s"] < 0.05
    assert second.values["time/epoch_s"] < 60


def saver_that_takes(tmp_path, monkeypatch, copying, writing):
    clock = SimpleNamespace(now=0.0)

    def packed(state):
        clock.now += copying
        return b""

    def written(path, content):
        clock.now += writing

    monkeypatch.setattr(saving, "packed", packed)
    monkeypatch.setattr(saving, "write_whole", written)
    return Saver(tmp_path / "file.pt", lambda: clock.now), clock


@pytest.mark.parametrize(("copying", "writing", "wait"), [(1.0, 2.0, 150.0), (0.001, 0.01, 20.0)])
def test_the_next_checkpoint_waits_fifty_times_as_long_as_the_last_one_took(
    tmp_path, monkeypatch, copying, writing, wait
):
    """Twenty seconds at least."""
    saver, clock = saver_that_takes(tmp_path, monkeypatch, copying, writing)
    goes_on = 0.0
    for interval in (20.0, wait):
        clock.now = goes_on + interval - 0.1
        assert not saver.due
        clock.now = goes_on + interval
        assert saver.due
        saver.save({})
        saver.wait()
        goes_on = clock.now - writing  # the clock of the interval begins when training goes on
    saver.close()


def test_training_goes_on_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    may_end, written = threading.Event(), []
    write_whole = saving.write_whole

    def slow(path, content):
        assert may_end.wait(30)
        write_whole(path, content)
        written.append(path)

    monkeypatch.setattr(saving, "write_whole", slow)
    monkeypatch.setattr(saving, "CHECKPOINT_S", 0.0)
    saver = Saver(tmp_path / CHECKPOINT)
    state = {"one": [1.0]}
    saver.save(state)
    state["one"].append(2.0)  # as a step changes weights; what was saved stays
    assert not saver.due, "one is being written"
    assert written == []
    may_end.set()
    saver.close()
    assert read(tmp_path / CHECKPOINT) == {"one": [1.0]}


def test_a_full_disk_ends_the_run_with_its_reason(tmp_path, monkeypatch):
    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(saving, "write_whole", full)
    monkeypatch.setattr(Saver, "due", property(lambda self: True))
    with pytest.raises(OSError, match="No space left"):
        list(train(small(), tmp_path))


def test_a_training_that_is_collected_in_the_thread_of_its_checkpoints_keeps_nobody_waiting(tmp_path):
    running = train(small(), tmp_path)
    next(running)
    thread = running.gi_frame.f_locals["saver"]._thread
    cycle = [running]
    cycle.append(cycle)
    gc.collect()
    gc.disable()
    try:
        del running, cycle
        thread.submit(gc.collect).result(60)
    finally:
        gc.enable()
    thread.shutdown()
    assert list(tmp_path.iterdir()) == []


def test_a_rate_far_too_high_diverges_at_its_first_epoch(tmp_path):
    run = small(optimizer__lr=1e30, optimizer__schedule="constant")
    items = list(train(run, tmp_path))
    assert items == [Diverged(epoch=1, curve=(), reason="train/loss not finite")]
    assert not (tmp_path / WEIGHTS).exists()


def test_divergence_comes_last_and_carries_the_epochs_before_it(tmp_path):
    """A run is cut after its second epoch, and one weight of its checkpoint made NaN."""
    run = small(trainable="position+head")
    running = train(run, tmp_path)
    first = list(islice(running, 2))
    running.close()
    state = read(tmp_path / CHECKPOINT)
    state["weights"]["head.bias"].view(-1)[0] = math.nan
    write(tmp_path / CHECKPOINT, state)
    assert list(train(run, tmp_path)) == [
        *first, Diverged(epoch=3, curve=tuple(first), reason="train/loss not finite"),
    ]  # fmt: skip


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
