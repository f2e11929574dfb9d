"""The training loop: against a plain loop, what it measures, and what moves it."""

import math
from contextlib import closing
from itertools import islice

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from tests.rooms.trainables.training.small_runs import CLOCKED, folder, numbers, small
from trainables.backbones import ViT
from trainables.data import Digits
from trainables.data.splits_torch import Reading, load
from trainables.encodings import Learnable
from trainables.recipe import AdamW, Recipe, Run, evaluation
from trainables.recipe.evaluation import eval_batch, eval_bytes
from trainables.rng_torch import torch_stream
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training, build_model_with_weights, train
from trainables.training.optimizer import rate
from trainables.training.parameters import no_decay


def test_an_epoch_is_a_measurement_and_the_last_one_holds_the_test(tmp_path):
    measured = list(train(small(), tmp_path))
    assert [m.epoch for m in measured] == [1, 2, 3, 4]
    each = {"train/loss", "val/accuracy", *CLOCKED}
    assert [{*m.values} for m in measured] == [each, each, each, each | {"test/accuracy"}]
    assert sorted(path.name for path in tmp_path.iterdir()) == [CHECKPOINT, WEIGHTS]


@pytest.mark.parametrize(("task", "name"), [("distance", "r2"), ("direction4", "accuracy"), ("absolute", "accuracy")])
def test_every_task_trains(tmp_path, task, name):
    last = list(train(small(data__task=task), tmp_path))[-1]
    assert {f"val/{name}", f"test/{name}"} <= set(last.values)


def test_skill_is_reported_in_place_of_the_metric(tmp_path):
    """The runs are the same but for what the score is called; of two classes it is 2 * accuracy - 1."""
    plain, skill = (list(train(small(data__skill=one), folder(tmp_path, str(one))))[-1].values for one in (False, True))
    assert "val/accuracy" not in skill
    for split in ("val", "test"):
        assert skill[f"{split}/skill"] == pytest.approx(2 * plain[f"{split}/accuracy"] - 1)


def test_digits_are_learnt(tmp_path):
    recipe = Recipe(
        data=Digits(),
        model=ViT(embed_dim=32, num_heads=2, patch_size=2),
        encoding=Learnable(),
        optimizer=AdamW(lr=0.01, epochs=16, batch_size=32),
    )
    assert list(train(Run(recipe=recipe, seed=0), tmp_path))[-1].values["test/accuracy"] > 0.5


def test_a_run_is_the_plain_loop(tmp_path):
    run = small(optimizer__precision="float64", optimizer__clip_grad=0.5, seed=3)
    measured = list(train(run, tmp_path))
    spec, model = run.recipe.optimizer, build_model_with_weights(run.recipe, 3).double()
    exempt = no_decay(model)
    optimizer = torch.optim.AdamW(
        [{"params": [p], "weight_decay": 0.0 if n in exempt else 0.05} for n, p in model.named_parameters()]
    )
    data, step = load(run.recipe.data).train, 0
    for epoch in range(1, 5):
        order, total = torch.randperm(50, generator=torch_stream(3, "order", epoch)).tolist(), 0.0
        for begun in range(0, 50, 16):
            chosen = order[begun : begun + 16]
            loss = cross_entropy(model(data.images[chosen].double() / 255), data.targets[chosen])
            total += loss.item() * len(chosen)
            optimizer.zero_grad()
            loss.backward()
            norm = math.sqrt(sum(float(p.grad.square().sum()) for p in model.parameters()))
            for parameter in model.parameters():
                parameter.grad *= min(1.0, 0.5 / (norm + 1e-6))
            for group in optimizer.param_groups:
                group["lr"] = rate(spec, step, 16)
            optimizer.step()
            step += 1
        assert measured[epoch - 1].values["train/loss"] == pytest.approx(total / 50, rel=1e-8)
    trained = read(tmp_path / WEIGHTS)
    for name, value in model.state_dict().items():
        assert torch.allclose(trained[name], value, rtol=1e-6, atol=1e-8), name


def test_weights_lie_there_before_the_last_measurement(tmp_path):
    with closing(train(small(), tmp_path)) as running:
        list(islice(running, 3))
        assert not (tmp_path / WEIGHTS).exists()
        next(running)
        assert (tmp_path / WEIGHTS).exists()


def test_the_seed_moves_the_run_and_nothing_else_does(tmp_path):
    curves = [numbers(train(small(seed=seed), folder(tmp_path, f"{n}"))) for n, seed in enumerate((0, 1, 0))]
    assert curves[0] == curves[2] != curves[1]


def test_the_global_generators_and_settings_stay(tmp_path):
    def state():
        generators = torch.get_rng_state().tolist(), np.random.get_state()[1].tolist()  # beartype moves Python's own
        return generators, torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled()

    before = state()
    list(train(small(), tmp_path))
    assert state() == before


def test_half_precisions_are_near_float32(tmp_path):
    losses = [
        [m.values["train/loss"] for m in train(small(optimizer__precision=kind), folder(tmp_path, kind))]
        for kind in ("float32", "bfloat16", "float16")
    ]
    assert losses[0] != losses[1] != losses[2]
    assert losses[0] == pytest.approx(losses[1], abs=0.02)
    assert losses[0] == pytest.approx(losses[2], abs=0.005), "float16 has three more bits than bfloat16"


def test_float16_scales_the_loss_and_leaves_out_a_step_that_overflows():
    """A gradient is that of the loss, whatever the scale; where it overflows, weights stay and the scale halves."""
    training = Training(small(optimizer__precision="float16", optimizer__clip_grad=None), "cpu", {}, SINGLE, Reading())
    chosen = torch.arange(8)
    batch = training.splits.train.batch(chosen, training.dtype)

    def gradient(scale):
        training.scaler = torch.amp.GradScaler("cpu", init_scale=scale)
        before = [value.detach().clone() for value in training.learning]
        training._step(chosen, *batch, 0)
        moved = any(not torch.equal(old, new) for old, new in zip(before, training.learning, strict=True))
        for old, new in zip(before, training.learning, strict=True):
            new.data.copy_(old)
        return torch.cat([value.grad.flatten() for value in training.learning]), moved, training.scaler.get_scale()

    small_scale, moved, scale = gradient(2.0**10)
    assert moved
    assert scale == 2.0**10
    assert torch.allclose(gradient(2.0**6)[0], small_scale, rtol=0.05, atol=1e-4)
    overflowed, moved, scale = gradient(2.0**60)
    assert not overflowed.isfinite().all()
    assert not moved
    assert scale == 2.0**59


def test_a_closed_run_in_float16_goes_on_with_its_scale(tmp_path):
    run = small(optimizer__precision="float16")
    whole = list(train(run, folder(tmp_path, "whole")))
    running = train(run, folder(tmp_path, "cut"))
    next(running)
    running.close()
    assert read(tmp_path / "cut" / CHECKPOINT)["scaler"]["_growth_tracker"] > 0
    assert numbers(train(run, tmp_path / "cut")) == numbers(whole)


def test_the_metric_is_of_any_number_of_images_together(tmp_path, monkeypatch):
    run = small(data__task="distance", test_sizes=[24])
    whole = list(train(run, folder(tmp_path, "whole")))
    for side in (None, 24):
        assert eval_batch(run.recipe, side) == 256
    monkeypatch.setattr(evaluation, "EVAL_BYTES", 3 * eval_bytes(run.recipe, 24))
    assert eval_batch(run.recipe, 24) == 3
    few = list(train(run, folder(tmp_path, "few")))
    for one, other in zip(whole, few, strict=True):
        for name in one.values.keys() - CLOCKED:
            assert other.values[name] == pytest.approx(one.values[name], abs=1e-6), name
    assert [m.values["train/loss"] for m in whole] == [m.values["train/loss"] for m in few]
