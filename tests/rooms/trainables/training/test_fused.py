"""Runs that are trained as one, and runs that are measured at several lengths, against the same runs one by one."""

import math
from contextlib import closing
from itertools import islice

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.laws.conftest import EXAMPLES
from tests.rooms.trainables.backbones.test_specs import BACKBONES, OTHERS
from tests.rooms.trainables.data.pictures import image_folder
from tests.rooms.trainables.training.small_runs import ENCODINGS, LOCALISED, folder, numbers, same, small
from tests.rooms.trainables.training.test_resume import killed_after
from trainables.encodings import FIRE, IRPE, PEG, ALiBi, Fourier, Learnable, LogCPB, NoEncoding, Rotary
from trainables.encodings.irpe import Piecewise
from trainables.recipe import AdamW
from trainables.recipe.outcome import Diverged
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read
from trainables.training.loop import train
from trainables.training.optimizer import rate
from trainables.training.optional import fused
from trainables.training.optional.fused import NotFusedError, train_together

EXACT = {"optimizer__precision": "float64"}
VOLO = {"model": {"kind": "volo", **OTHERS["volo"]}, "data__image_size": 32}
"""Its stem has batch norms."""


def folders(path, count):
    made = [path / str(number) for number in range(count)]
    for place in made:
        place.mkdir(parents=True)
    return made


def curves(told, count):
    """What each of the runs measured."""
    every = [*told]
    return [[of_all[place] for of_all in every if place in of_all] for place in range(count)]


def near(mine, other):
    for (epoch, values), (other_epoch, expected) in zip(numbers(mine), numbers(other), strict=True):
        assert epoch == other_epoch
        assert values == pytest.approx(expected, rel=1e-6, abs=1e-12)


def assert_as_alone(runs, path):
    together, alone = folders(path / "together", len(runs)), folders(path / "alone", len(runs))
    found = curves(train_together(runs, together, "cpu"), len(runs))
    for run, curve, mine, own in zip(runs, found, together, alone, strict=True):
        near(curve, list(train(run, own)))
        for name in (WEIGHTS, CHECKPOINT):
            assert (mine / name).stat().st_size == pytest.approx((own / name).stat().st_size, rel=0.1), "its own alone"
        weights, expected = read(mine / WEIGHTS), read(own / WEIGHTS)
        assert weights.keys() == expected.keys()
        for name, value in weights.items():
            assert torch.allclose(value.double(), expected[name].double(), rtol=1e-6, atol=1e-9), name


def test_every_encoding_computes_together_what_it_computes_alone(subtests, tmp_path):
    for kind, some in EXAMPLES.items():
        for number, spec in enumerate(some):
            with subtests.test(f"{kind}-{number}"):
                shape = {"model__depth": 2, "model__embed_dim": 16, "optimizer__epochs": 2}
                runs = [small(seed, encoding=spec, **shape, **EXACT) for seed in range(3)]
                assert_as_alone(runs, tmp_path / f"{kind.replace(':', '-')}-{number}")


@pytest.mark.parametrize("values", [
    {**LOCALISED, "model__depth": 3, "model__drop_path": 0.5, "optimizer__accumulate": 3},
    {"optimizer__layer_decay": 0.9, "optimizer__clip_grad": 0.01},
    {"model__pool": "avg", "test_sizes": (24,), "trainable": "position+head"},
    {"encoding": Rotary(normalize_coords="max", jitter_coords=2.0), "model__depth": 2},
    {**VOLO, "trainable": "position+head", "encoding": Learnable()},
])  # fmt: skip
def test_whatever_a_recipe_says(values, tmp_path):
    assert_as_alone([small(seed, **values, **EXACT) for seed in range(2)], tmp_path)


def test_flipped_and_shifted_images_are_those_of_each_alone(tmp_path):
    """Each seed has its own order, flips and shifts, also in the epochs of a cooldown."""
    pictures = str(image_folder(tmp_path / "set", {"train": 20, "val": 5, "test": 5}))
    values = {"data": {"kind": "folder", "path": pictures, "image_size": 16}, "augment__kind": "standard"}
    assert_as_alone([small(seed, **LENGTHS, **values, **EXACT) for seed in range(3)], tmp_path)


def test_every_backbone_computes_together_what_it_computes_alone(subtests, tmp_path):
    for kind in BACKBONES:
        with subtests.test(kind):
            model = {"kind": kind, **OTHERS.get(kind, {})}
            shape = {"model": model, "encoding": NoEncoding(), "data__image_size": 32, "optimizer__epochs": 2}
            assert_as_alone([small(seed, **shape, **EXACT) for seed in range(2)], tmp_path / kind)


def test_half_precision_learns_as_alone(tmp_path):
    runs = [small(seed, model__depth=2, optimizer__precision="bfloat16", optimizer__epochs=1) for seed in range(2)]
    found = curves(train_together(runs, folders(tmp_path / "together", 2), "cpu"), 2)
    for run, curve, own in zip(runs, found, folders(tmp_path / "alone", 2), strict=True):
        (alone,) = train(run, own)
        assert curve[0].values["train/loss"] == pytest.approx(alone.values["train/loss"], rel=0.01)


def test_folds_of_other_sizes_are_refused(tmp_path):
    """Seeds are folds there, and 51 images in four folds leave 38 or 39 to learn from."""
    data = {"kind": "folder", "path": str(image_folder(tmp_path / "set", {"train": 17})), "folds": 4, "image_size": 16}
    runs = [small(seed, data=data, **EXACT) for seed in range(4)]
    with pytest.raises(NotFusedError, match="other shapes"):
        next(train_together(runs, folders(tmp_path, 4), "cpu"))


@pytest.mark.parametrize(
    "encodings",
    [
        (ALiBi(distance="manhattan"), ALiBi()),
        (Rotary(temperature=10.0), Rotary(temperature=100.0)),
        (IRPE(index=Piecewise(alpha=1.0)), IRPE()),
        (Fourier(hidden=6, gamma=0.5), Fourier(hidden=6, gamma=2.0)),
    ],
    ids=lambda pair: pair[0].kind,
)
def test_numbers_in_tensors_may_differ(encodings, tmp_path):
    assert_as_alone([small(0, encoding=encoding, model__depth=2, **EXACT) for encoding in encodings], tmp_path)


@pytest.mark.parametrize(("encodings", "why"), [
    ((FIRE(hidden=6, threshold=3.0), FIRE(hidden=6)), "something else"),
    ((LogCPB(hidden=6, pretrained_window_size=(3, 4)), LogCPB(hidden=6)), "something else"),
    ((PEG(), PEG(padding="circular")), "something else"),
    ((Learnable(), Fourier(hidden=6)), "other shapes"),
    ((Rotary(), Rotary(jitter_coords=2.0)), "other shapes"),
    ((Rotary(jitter_coords=2.0), Rotary()), "other shapes"),
    ((Rotary(jitter_coords=2.0), Rotary(shift_coords=0.5)), "something else"),
])  # fmt: skip
def test_numbers_of_a_module_that_differ_are_seen(encodings, why, tmp_path):
    """They would be the first run's for all, and the answer a wrong one."""
    runs = [small(0, encoding=encoding, model__depth=2, **EXACT) for encoding in encodings]
    with pytest.raises(NotFusedError, match=why):
        next(train_together(runs, folders(tmp_path, 2), "cpu"))


def test_a_number_that_matters_as_a_run_begins_is_seen(tmp_path):
    """Noise can hide it: a threshold counts where it is more than the largest offset, and noise divides it."""
    encodings = (FIRE(hidden=6, threshold=2.0), FIRE(hidden=6, threshold=3.4))
    runs = [small(0, encoding=encoding, model__pool="avg", **EXACT) for encoding in encodings]
    with pytest.raises(NotFusedError, match="something else"):
        next(train_together(runs, folders(tmp_path, 2), "cpu"))


class _NoGradient(torch.autograd.Function):
    """What torch has no gradient of."""

    generate_vmap_rule = True

    @staticmethod
    def forward(values):
        return values.clone()

    @staticmethod
    def setup_context(ctx, inputs, output):
        pass

    @staticmethod
    def backward(ctx, gradient):
        raise RuntimeError("expected input and grad types to match\nin C++")


def test_what_has_no_gradient_together_is_seen_before_the_first_step(tmp_path, monkeypatch):
    """As bfloat16 on a GPU, with PyTorch 2.11; its loss is all right."""
    called = fused._called
    monkeypatch.setattr(fused, "_called", lambda *given, **more: _NoGradient.apply(called(*given, **more)))
    runs = [small(seed, **EXACT) for seed in range(2)]
    with pytest.raises(NotFusedError, match=r"^expected input and grad types to match$"):
        next(train_together(runs, folders(tmp_path, 2), "cpu"))


def test_a_run_that_diverges_leaves_the_others_as_they_are(tmp_path, monkeypatch):
    runs = [small(seed, **EXACT) for seed in range(3)]
    alone = list(train(runs[2], *folders(tmp_path / "alone", 1)))
    told = train_together(runs, folders(tmp_path / "together", 3), "cpu")
    first = next(told)
    members = told.gi_frame.f_locals["members"]
    with torch.no_grad():
        next(members[1].training.objective.parameters()).fill_(math.nan)
    found = curves([first, *told], 3)
    assert isinstance(found[1][-1], Diverged)
    assert (found[1][-1].epoch, len(found[1][-1].curve)) == (2, 1)
    assert [len(curve) for curve in found] == [4, 2, 4]
    near(found[2], alone)


def test_each_goes_on_by_itself(tmp_path):
    """Closed after two epochs, the rest alone: as if it had been alone from the start."""
    runs, made = [small(seed, encoding=Learnable(), **EXACT) for seed in range(2)], folders(tmp_path / "a", 2)
    with closing(train_together(runs, made, "cpu")) as told:
        list(islice(told, 2))
    for run, mine, own in zip(runs, made, folders(tmp_path / "b", 2), strict=True):
        near(list(train(run, mine)), list(train(run, own)))


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
    steps = run.recipe.optimizer.trained_epochs * math.ceil(50 / 16)
    for killed in range(1, steps, 3):  # inside epochs, too: those that begin a cooldown or end one
        place = folder(tmp_path, f"step {killed}")
        killed_after(killed, run, place, monkeypatch)
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
