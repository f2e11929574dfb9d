"""A run that is measured at several lengths: at each it is the run that ends there, bit for bit."""

import math
from itertools import islice

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rooms.trainables.data.pictures import image_folder
from tests.rooms.trainables.training.small_runs import ENCODINGS, LOCALISED, folder, numbers, same, small
from tests.rooms.trainables.training.test_fused import EXACT, assert_as_alone
from trainables.recipe import AdamW
from trainables.spec import SpecError
from trainables.training import loop, saving
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read
from trainables.training.loop import train
from trainables.training.optimizer import rate
from trainables.training.optional.fused import train_together

WSD = {"optimizer__schedule": "wsd", "optimizer__warmup": 0.5, "optimizer__cooldown": 0.4}
LENGTHS = {**WSD, "optimizer__lengths": (2, 5), "optimizer__epochs": 8}


@given(st.sets(st.integers(1, 80), min_size=1, max_size=5), st.floats(0.01, 1))
def test_passes_are_those_of_the_runs_that_end_at_each_length(lengths, cooldown):
    *shorter, longest = sorted(lengths)
    spec = AdamW(schedule="wsd", lengths=shorter, epochs=longest, cooldown=cooldown)
    assert len(spec.passes) == spec.trained_epochs == spec.measured_at[longest]
    for length in spec.every_length:
        path = spec.passes[: spec.measured_at[length]]
        others = [one for one in path if one.cooling is None or one.cooling == length]
        assert [one.epoch for one in others] == [*range(1, length + 1)]
        assert sum(one.cooling == length for one in path) == max(1, round(cooldown * length))


def test_rates_rise_stay_and_fall():
    spec = AdamW(lr=2.0, schedule="wsd", lengths=(4,), epochs=8, warmup=0.25, cooldown=0.5)
    steps = 3 * 8
    trunk = [rate(spec, step, steps) for step in range(12)]
    assert trunk == pytest.approx([2 / 3, 4 / 3] + 10 * [2.0])
    for length, start in ((4, 6), (8, 12)):
        falling = 3 * length - start
        for step in range(start, 3 * length):
            expected = 2 * (1 - math.sqrt((step - start) / falling))
            assert rate(spec, step, steps, length) == pytest.approx(expected)


@pytest.mark.parametrize(
    "values",
    [{}, {"encoding": ENCODINGS[1]}, LOCALISED, {"augment__kind": "standard"}, {"optimizer__ema_decay": 0.9}],
    ids=["", "composed", "drloc", "augmented", "averaged"],
)
def test_at_each_length_a_run_is_the_run_that_ends_there(tmp_path, values):
    if "augment__kind" in values:
        images = image_folder(tmp_path / "set", {"train": 20, "val": 5, "test": 5})
        values = {**values, "data": {"kind": "folder", "path": str(images), "image_size": 16}}
    run = small(**LENGTHS, **values)
    measured = list(train(run, folder(tmp_path, "all")))
    spec = run.recipe.optimizer
    assert [m.epoch for m in measured] == [*range(1, spec.trained_epochs + 1)]
    for n, length in enumerate(spec.every_length):
        alone = small(**{**LENGTHS, "optimizer__lengths": spec.lengths[:n], "optimizer__epochs": length}, **values)
        *_, end = train(alone, folder(tmp_path, str(length)))
        mine = measured[spec.measured_at[length] - 1]
        if length < spec.epochs:
            assert mine.values[f"val/accuracy_after_{length}_epochs"] == mine.values["val/accuracy"]
        scores = [name for name in end.values if name.startswith(("train/loss", "val/"))]
        assert {name: mine.values[name] for name in scores} == {name: end.values[name] for name in scores}
    assert same(read(tmp_path / "all" / WEIGHTS), read(tmp_path / "8" / WEIGHTS))
    plain = small(**{**WSD, "optimizer__warmup": 0.5 * 2 / 8, "optimizer__epochs": 8}, **values)
    *_, end = train(plain, folder(tmp_path, "plain"))
    assert numbers([end])[0][1] == numbers(measured[-1:])[0][1]
    assert same(read(tmp_path / "all" / WEIGHTS), read(tmp_path / "plain" / WEIGHTS))


def test_a_run_goes_on_from_wherever_it_was_cut(tmp_path, monkeypatch):
    run = small(**LENGTHS)
    whole = list(train(run, folder(tmp_path, "whole")))
    for cut in range(1, run.recipe.optimizer.trained_epochs):
        running = train(run, folder(tmp_path, str(cut)))
        list(islice(running, cut))
        running.close()
        assert numbers(train(run, tmp_path / str(cut))) == numbers(whole)
        for file in (CHECKPOINT, WEIGHTS):
            assert same(read(tmp_path / str(cut) / file), read(tmp_path / "whole" / file))
    monkeypatch.setattr(saving, "CHECKPOINT_S", 0.0)
    monkeypatch.setattr(saving, "SHARE", math.inf)
    steps = run.recipe.optimizer.trained_epochs * math.ceil(50 / 16)
    for killed in range(1, steps, 3):  # inside epochs, too: those that begin a cooldown or end one
        place, left = folder(tmp_path, f"step {killed}"), [killed]
        step = loop.Training._step

        def counted(*given, left=left, step=step):
            if not left[0]:
                raise InterruptedError
            left[0] -= 1
            return step(*given)

        with monkeypatch.context() as killing:
            killing.setattr(loop.Training, "_step", counted)
            with pytest.raises(InterruptedError):
                list(train(run, place))
        assert numbers(train(run, place)) == numbers(whole)
        assert same(read(place / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


@pytest.mark.parametrize("lengths", [(2, 5), (1, 3)], ids=["", "a cooldown from the first epoch on"])
def test_as_one_they_learn_as_alone(tmp_path, lengths):
    assert_as_alone([small(seed, **{**LENGTHS, "optimizer__lengths": lengths}, **EXACT) for seed in range(3)], tmp_path)


def test_each_of_several_trained_as_one_has_its_scores_at_each_length(tmp_path):
    runs = [small(seed, **LENGTHS) for seed in range(2)]
    *_, told = (told[1] for told in train_together(runs, [folder(tmp_path, name) for name in "ab"], "cpu") if 1 in told)
    assert "test/accuracy" in told.values
    checkpoint = read(tmp_path / "b" / CHECKPOINT)["progress"]["curve"]
    named = {name for one in checkpoint for name in one["values"] if "_after_" in name}
    assert named == {"val/accuracy_after_2_epochs", "val/accuracy_after_5_epochs"}


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"lengths": (2,)}, "lengths must be left out where schedule is not wsd, got [2]"),
        ({"cooldown": 0.1}, "cooldown must be left out where schedule is not wsd, got 0.1"),
        (
            {"schedule": "wsd", "lengths": (4, 10)},
            "lengths must be numbers of epochs, .*below epochs (10), got [4, 10]",
        ),
        ({"schedule": "wsd", "lengths": (4, 2)}, "lengths must be .*got [4, 2]"),
        ({"schedule": "wsd", "lengths": (0,)}, "lengths must be .*got [0]"),
    ],
)
def test_what_cannot_be_is_refused(values, message):
    pattern = message.replace("(10)", r"\(10\)").replace("[", r"\[").replace("]", r"\]")
    with pytest.raises(SpecError, match=pattern):
        AdamW(**values)
