"""Batches computed in parts: the steps of whole batches, up to rounding."""

import pytest
import torch

from tests.rooms.trainables.training.small_runs import ENCODINGS, LOCALISED, SMALL, folder, small, whole_if_it_goes_on
from trainables.data.splits_torch import Reading
from trainables.encodings import PEG
from trainables.recipe import Recipe, Run
from trainables.recipe.cost import estimate_cost
from trainables.spec import SpecError
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.distributed import SINGLE, check_accumulate
from trainables.training.loop import Training, train


def cut(images, count):
    return [torch.arange(images)[part].tolist() for part in SINGLE.parts(None, images, count)]


def test_parts_are_all_images_in_order():
    assert cut(7, 3) == [[0, 1], [2, 3], [4, 5, 6]]
    assert cut(7, 1) == [[*range(7)]]
    assert cut(2, 5) == [[0], [1]]
    assert cut(1, 4) == [[0]]


def gradients(values, images, monkeypatch):
    """The gradients of a step on some images, before they are clipped, and the summed loss."""
    run = small(**values, optimizer__precision="float64")
    training = Training(run, "cpu", {}, SINGLE, Reading())
    monkeypatch.setattr(training.optimizer, "step", lambda: None)
    training.spec = training.spec.put({"clip_grad": None})
    chosen = torch.arange(images)
    loss = training._step(chosen, *training.splits.train.batch(chosen, training.dtype), 0)
    return loss, {name: value.grad for name, value in training.objective.named_parameters()}


@pytest.mark.parametrize("images", [16, 7, 2, 1])
@pytest.mark.parametrize("values", [{"encoding": ENCODINGS[1]}, LOCALISED], ids=["composed", "drloc"])
def test_gradients_of_parts_add_up_to_the_batchs(values, images, monkeypatch):
    loss, whole = gradients(values, images, monkeypatch)
    in_parts, parts = gradients({**values, "optimizer__accumulate": 3}, images, monkeypatch)
    assert in_parts == pytest.approx(float(loss), rel=1e-13)
    for name, value in whole.items():
        assert torch.allclose(parts[name], value, rtol=0, atol=1e-12), name
    assert max(float(value.abs().max()) for value in whole.values()) > 1e-3


def test_each_part_is_computed_alone(monkeypatch):
    training = Training(small(optimizer__accumulate=3), "cpu", {}, SINGLE, Reading())
    seen = []
    training.module.register_forward_pre_hook(lambda module, given: seen.append(len(given[0])))
    training.learn(1)
    assert seen == [5, 5, 6, 5, 5, 6, 5, 5, 6, 1, 1]


def test_a_run_in_parts_is_the_run(tmp_path):
    """50 images in batches of 16: the last batch has 2."""
    values = {"optimizer__precision": "float64", "encoding": ENCODINGS[1]}
    whole = list(train(small(**values), folder(tmp_path, "whole")))
    parts = list(train(small(**values, optimizer__accumulate=3), folder(tmp_path, "parts")))
    for one, other in zip(whole, parts, strict=True):
        assert other.values["train/loss"] == pytest.approx(one.values["train/loss"], abs=1e-12)
    weights = read(tmp_path / "parts" / WEIGHTS)
    for name, value in read(tmp_path / "whole" / WEIGHTS).items():
        assert torch.allclose(weights[name], value, rtol=0, atol=1e-10), name


def test_a_closed_run_goes_on_bit_for_bit(tmp_path):
    whole_if_it_goes_on(small(optimizer__accumulate=2), tmp_path)


@pytest.mark.parametrize(
    "values", [{"encoding": PEG(form="depthwise_stack")}, {"model.kind": "volo", "data.image_size": 16}]
)
def test_batch_norms_that_learn_are_refused(values):
    with pytest.raises(SpecError, match=r"optimizer\.accumulate must be 1 where a batch norm learns .* got 2"):
        SMALL.put({**values, "optimizer.accumulate": 2})


def test_a_frozen_batch_norm_sees_no_batch():
    SMALL.put({"encoding": PEG(form="depthwise_stack", frozen=True), "optimizer.accumulate": 2})


def test_a_batch_norm_of_ones_own_is_refused_where_it_is_built():
    model = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2))
    with pytest.raises(SpecError, match=r"optimizer\.accumulate must be 1 where a batch norm learns, got 2"):
        check_accumulate(model, 2)
    check_accumulate(model, 1)
    check_accumulate(model.requires_grad_(False), 2)


def test_parts_need_less_memory_and_are_another_run():
    whole = Recipe().put({"optimizer.batch_size": 1000, "model.depth": 4})
    parts = whole.put({"optimizer.accumulate": 4})
    assert estimate_cost(parts).memory_bytes < estimate_cost(whole).memory_bytes
    assert Run(parts, 0).key != Run(whole, 0).key
