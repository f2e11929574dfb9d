"""Runs that are trained as one, against the same runs one by one: in float64, and the files that each leaves."""

import math
from contextlib import closing
from itertools import islice

import pytest
import torch

from tests.laws.conftest import EXAMPLES
from tests.rooms.trainables.backbones.test_specs import BACKBONES, OTHERS
from tests.rooms.trainables.data.pictures import image_folder
from tests.rooms.trainables.training.small_runs import LOCALISED, numbers, small
from trainables.encodings import FIRE, IRPE, PEG, ALiBi, Fourier, Learnable, LogCPB, NoEncoding, Rotary
from trainables.encodings.irpe import Piecewise
from trainables.recipe.outcome import Diverged
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read
from trainables.training.loop import train
from trainables.training.optional import fused
from trainables.training.optional.fused import NotFusedError, train_together

EXACT = {"optimizer__precision": "float64"}
VOLO = {"model": {"kind": "volo", **OTHERS["volo"]}, "data__image_size": 32}
"""Its stem has batch norms."""


def folders(path, count):
    made = [path / str(number) for number in range(count)]
    for folder in made:
        folder.mkdir(parents=True)
    return made


def curves(told, count):
    """What each of the runs measured."""
    every = [*told]
    return [[of_all[place] for of_all in every if place in of_all] for place in range(count)]


def near(mine, other):
    for (epoch, values), (same, expected) in zip(numbers(mine), numbers(other), strict=True):
        assert epoch == same
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


@pytest.mark.parametrize(
    "values",
    [
        {**LOCALISED, "model__depth": 3, "model__drop_path": 0.5, "optimizer__accumulate": 3},
        {"optimizer__layer_decay": 0.9, "optimizer__clip_grad": 0.01},
        {"model__pool": "avg", "test_sizes": (24,), "trainable": "position+head"},
        {"encoding": Rotary(normalize_coords="max", jitter_coords=2.0), "model__depth": 2},
        {**VOLO, "trainable": "position+head", "encoding": Learnable()},
    ],
    ids=[
        "drloc, drop path, parts",
        "layer decay, clip",
        "average, sizes, frozen",
        "drawn at each step",
        "frozen norms",
    ],
)
def test_whatever_a_recipe_says(values, tmp_path):
    assert_as_alone([small(seed, **values, **EXACT) for seed in range(2)], tmp_path)


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


@pytest.mark.parametrize(
    ("encodings", "why"),
    [
        ((FIRE(hidden=6, threshold=3.0), FIRE(hidden=6)), "something else"),
        ((LogCPB(hidden=6, pretrained_window_size=(3, 4)), LogCPB(hidden=6)), "something else"),
        ((PEG(), PEG(padding="circular")), "something else"),
        ((Learnable(), Fourier(hidden=6)), "other shapes"),
        ((Rotary(), Rotary(jitter_coords=2.0)), "other shapes"),
        ((Rotary(jitter_coords=2.0), Rotary()), "other shapes"),
        ((Rotary(jitter_coords=2.0), Rotary(shift_coords=0.5)), "something else"),
    ],
    ids=["fire", "log_cpb", "peg", "shapes", "second draws", "first draws", "other draws"],
)
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


def test_a_run_whose_folder_is_removed_is_left_out(tmp_path):
    runs, made = [small(seed, **EXACT) for seed in range(3)], folders(tmp_path, 3)
    told = train_together(runs, made, "cpu")
    first = next(told)
    made[0].rmdir()
    found = curves([first, *told], 3)
    assert [len(curve) for curve in found] == [1, 4, 4]
    assert [told.values["time/runs"] for told in found[1]] == [3, 3, 2, 2], "it took part in the second epoch"
    assert not made[0].exists()


def test_each_goes_on_by_itself(tmp_path):
    """Closed after two epochs, the rest alone: as if it had been alone from the start."""
    runs, made = [small(seed, encoding=Learnable(), **EXACT) for seed in range(2)], folders(tmp_path / "a", 2)
    with closing(train_together(runs, made, "cpu")) as told:
        list(islice(told, 2))
    for run, folder, own in zip(runs, made, folders(tmp_path / "b", 2), strict=True):
        near(list(train(run, folder)), list(train(run, own)))
