"""Checkpoints: when they are written, what they cost, and that a run goes on from inside an epoch bit for bit."""

import errno
import threading

import pytest

from tests.rooms.trainables.data.pictures import image_folder
from tests.rooms.trainables.training.small_runs import ENCODINGS, LOCALISED, SMALL, folder, numbers, same, small
from trainables.encodings import PEG
from trainables.recipe import Run
from trainables.recipe.outcome import Measurement
from trainables.training import saving
from trainables.training.checkpoint import CHECKPOINT, EMA_WEIGHTS, WEIGHTS, read, write
from trainables.training.loop import Training, train
from trainables.training.saving import Progress, Saver


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
    "model__depth": 2,
    "model__drop_path": 0.5,
    "optimizer__ema_decay": 0.8,
    "optimizer__accumulate": 2,
    "optimizer__layer_decay": 0.7,
}


@pytest.mark.parametrize(
    "values",
    [{"encoding": ENCODINGS[1]}, LOCALISED, {"encoding": PEG(form="depthwise_stack")}, MANY],
    ids=["composed", "drloc", "batch norms", "drop path, average, parts"],
)
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


@pytest.mark.parametrize("kind", ["standard", "deit"])
def test_augmented_images_are_the_same_after_a_kill(tmp_path, monkeypatch, kind):
    root = image_folder(tmp_path / "set", {"train": 15, "test": 4})
    values = {"data": {"kind": "folder", "path": str(root), "image_size": 8}, "augment.kind": kind}
    run = Run(SMALL.put({**values, "optimizer.epochs": 3, "optimizer.batch_size": 7}), 3)
    whole = list(train(run, folder(tmp_path, "whole")))
    killed_after(4, run, folder(tmp_path, "cut"), monkeypatch)
    assert Progress.read(read(tmp_path / "cut" / CHECKPOINT)["progress"]).steps > 0
    assert numbers(train(run, tmp_path / "cut", loader_workers=2)) == numbers(whole)
    assert same(read(tmp_path / "cut" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


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


class Clock:
    """Seconds that a test sets."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def saver_that_takes(tmp_path, monkeypatch, copying, writing):
    clock = Clock()

    def packed(state):
        clock.now += copying
        return b""

    def written(path, content):
        clock.now += writing

    monkeypatch.setattr(saving, "packed", packed)
    monkeypatch.setattr(saving, "write_whole", written)
    return Saver(tmp_path / "file.pt", clock), clock


def test_the_next_checkpoint_waits_fifty_times_as_long_as_the_last_one_took(tmp_path, monkeypatch):
    saver, clock = saver_that_takes(tmp_path, monkeypatch, copying=1.0, writing=2.0)
    assert not saver.due
    clock.now = 19.9
    assert not saver.due
    clock.now = 20.0
    assert saver.due
    saver.save({})
    saver.wait()
    ended = clock.now - 2.0  # the clock of the interval begins when training goes on
    clock.now = ended + 149.9
    assert not saver.due
    clock.now = ended + 150.0
    assert saver.due
    saver.close()


def test_cheap_checkpoints_are_twenty_seconds_apart(tmp_path, monkeypatch):
    saver, clock = saver_that_takes(tmp_path, monkeypatch, copying=0.001, writing=0.01)
    saver.save({})
    saver.wait()
    clock.now = 19.0
    assert not saver.due
    clock.now = 20.1
    assert saver.due
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


def test_progress_comes_back_from_plain_values():
    curve = [Measurement(epoch=1, values={"train/loss": 0.1 + 0.2})]
    for progress in (Progress(), Progress(curve, {"train/loss": 0.5}), Progress(curve, {}, 7, 0.1 + 0.7, 3.5)):
        assert Progress.read(progress.plain()) == progress
