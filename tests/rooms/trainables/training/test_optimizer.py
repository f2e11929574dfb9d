"""The schedules against torch's own, AdamW against its formula, and who decays."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from timm.scheduler import CosineLRScheduler

from trainables.encodings import Fourier, Learnable
from trainables.recipe import AdamW, Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.optimizer import build_optimizer, rate, set_rate
from trainables.training.parameters import no_decay


@settings(max_examples=40)
@given(st.integers(3, 60), st.floats(0.05, 0.9))
def test_one_cycle_is_torchs(steps, warmup):
    spec = AdamW(lr=0.3, warmup=warmup)
    parameter = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([parameter], lr=0.3)
    if abs(warmup * steps - 1) < 1e-9:
        return  # torch divides by nought
    rates = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, 0.3, total_steps=steps, pct_start=warmup, cycle_momentum=False
    )
    for step in range(steps):
        assert rate(spec, step, steps) == pytest.approx(rates.get_last_lr()[0], rel=1e-9)
        optimizer.step()
        if step + 1 < steps:
            rates.step()


@settings(max_examples=40)
@given(st.sampled_from(("one_cycle", "cosine")), st.integers(1, 60), st.floats(0, 0.99))
def test_every_rate_is_positive_and_at_most_the_highest(schedule, steps, warmup):
    rates = [rate(AdamW(lr=0.3, warmup=warmup, schedule=schedule), step, steps) for step in range(steps)]
    assert all(0 < value <= 0.3 for value in rates)
    peak = rates.index(max(rates))
    assert rates == sorted(rates[: peak + 1]) + sorted(rates[peak + 1 :], reverse=True)


def test_cosine_rises_in_a_line_and_falls_along_a_cosine():
    spec = AdamW(lr=2.0, warmup=0.25, schedule="cosine")
    rates = [rate(spec, step, 12) for step in range(12)]
    assert rates[:3] == pytest.approx([2 / 3, 4 / 3, 2.0])
    assert rates[3:] == pytest.approx([1 + math.cos(math.pi * k / 10) for k in range(1, 10)])


@settings(max_examples=40)
@given(st.integers(2, 60), st.integers(0, 20), st.floats(0, 1))
def test_a_cosine_ends_where_timms_does(steps, rising, share):
    """timm's schedule a step later, as its first rate is the highest itself; and one step before its end."""
    spec = AdamW(lr=0.3, schedule="cosine", min_lr=0.3 * share, warmup=rising / (steps + rising))
    assume(spec.warmup * (steps + rising) == rising)  # rounded up, the warm-up would take a step more
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=0.3)
    timms = CosineLRScheduler(optimizer, t_initial=steps + 1, lr_min=0.3 * share)
    for step in range(steps):
        expected = timms._get_lr(step + 1)[0]
        assert rate(spec, step + rising, steps + rising) == pytest.approx(expected, rel=1e-9)


def test_without_a_lowest_rate_the_cosine_is_what_it_was():
    """To the last bit; 0 has been its end."""
    spec = AdamW(lr=0.0123, schedule="cosine", warmup=0.1)
    for step in range(3, 30):
        share = (step - 0.1 * 30 + 1) / (30 - 0.1 * 30 + 1)
        assert rate(spec, step, 30) == 0.0 + (0.0123 - 0.0) * (1 + math.cos(math.pi * share)) / 2


def test_lowest_rates_that_cannot_be_are_refused(subtests):
    for values, must in [
    ({"schedule": "one_cycle", "min_lr": 1e-5}, "0 where schedule is not cosine, got 1e-05"),
    ({"schedule": "constant", "min_lr": 1e-5}, "0 where schedule is not cosine, got 1e-05"),
    ({"schedule": "cosine", "lr": 1e-3, "min_lr": 2e-3}, r"at most the highest rate \(0\.001\), got 0\.002"),
    ({"schedule": "cosine", "lr": 1e-3, "lr_base_size": 512, "batch_size": 256, "min_lr": 6e-4},
     r"at most the highest rate \(0\.0005\), got 0\.0006"),
    ({"schedule": "cosine", "min_lr": -1e-5}, "a learning rate of 0 or more, got -1e-05"),
]:  # fmt: skip
        refused = pytest.raises(SpecError, match=rf"^optimizer\.min_lr must be {must}$")
        with subtests.test(f"{values}, {must}"), refused:
            Recipe().put({f"optimizer.{name}": value for name, value in values.items()})


def test_constant_is_constant():
    assert {rate(AdamW(lr=0.1, schedule="constant"), step, 9) for step in range(9)} == {0.1}


@pytest.mark.parametrize(("encoding", "name"), [(Learnable(), "learnable"), (Fourier(), "fourier")])
def test_position_tables_frequencies_norms_and_biases_do_not_decay(encoding, name):
    model = build_model(Recipe(encoding=encoding))
    optimizer = build_optimizer(model, AdamW(weight_decay=0.3), no_decay(model))
    names = {parameter: qualified for qualified, parameter in model.named_parameters()}
    decays = {names[p]: group["weight_decay"] for group in optimizer.param_groups for p in group["params"]}
    assert set(decays) == set(names.values())
    assert decays["blocks.0.attn.qkv.weight"] == decays["patch_embed.proj.weight"] == 0.3
    exempt = ["cls_token", "norm.weight", "head.bias"]
    exempt += [qualified for qualified in decays if name in qualified and ("table" in qualified or "freq" in qualified)]
    assert len(exempt) == 4
    assert {decays[qualified] for qualified in exempt} == {0.0}


def test_only_the_position_learns_where_the_rest_is_frozen():
    model = build_model(Recipe(encoding=Fourier())).requires_grad_(False)
    model.encoding.requires_grad_(True)
    optimizer = build_optimizer(model, AdamW(), no_decay(model))
    learning = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    assert learning == {id(parameter) for parameter in model.encoding.parameters()}


@pytest.mark.parametrize(("betas", "eps"), [((0.9, 0.999), 1e-8), ((0.8, 0.95), 1e-3)])
def test_steps_are_adamws(betas, eps):
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.held = torch.nn.Parameter(torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.float64))
            self.free = torch.nn.Parameter(torch.tensor([0.5, 4.0], dtype=torch.float64))

    model, spec, rates = Two(), AdamW(weight_decay=0.1, betas=betas, eps=eps), (0.1, 0.03, 0.2)
    optimizer = build_optimizer(model, spec, {"free"})
    expected = {name: [*value.flatten().tolist()] for name, value in model.named_parameters()}
    first = {name: [0.0] * len(values) for name, values in expected.items()}
    second = {name: [0.0] * len(values) for name, values in expected.items()}
    for step, lr in enumerate(rates, start=1):
        set_rate(optimizer, lr)
        for parameter in model.parameters():
            parameter.grad = parameter.detach().square()  # any gradient will do
        optimizer.step()
        for name, decay in (("held", 0.1), ("free", 0.0)):
            for i, value in enumerate(expected[name]):
                gradient = value * value
                first[name][i] += (1 - betas[0]) * (gradient - first[name][i])
                second[name][i] += (1 - betas[1]) * (gradient**2 - second[name][i])
                m, v = first[name][i] / (1 - betas[0] ** step), second[name][i] / (1 - betas[1] ** step)
                expected[name][i] = value - lr * decay * value - lr * m / (math.sqrt(v) + eps)
    for name, parameter in model.named_parameters():
        assert parameter.flatten().tolist() == pytest.approx(expected[name], rel=1e-12)


def test_betas_are_read_from_a_list_and_change_the_key():
    put = Recipe().put({"optimizer.betas": [0.9, 0.95]})
    assert put.optimizer.betas == (0.9, 0.95)
    assert Recipe.read(put.plain()) == put
    assert Run(put, 0).key != Run(Recipe(), 0).key
    assert Run(Recipe().put({"optimizer.betas": [0.9, 0.999], "optimizer.eps": 1e-8}), 0).key == Run(Recipe(), 0).key


def test_wrong_betas_are_refused(subtests):
    for betas in [[0.9, 1.0], [-0.1, 0.9], [0.9], [0.9, 0.95, 0.99], 0.9]:
        with subtests.test(str(betas)), pytest.raises(SpecError, match=r"optimizer\.betas"):
            Recipe().put({"optimizer.betas": betas})


@pytest.mark.parametrize("schedule", ["one_cycle", "cosine", "constant"])
def test_rates_are_in_proportion_to_the_batch_size(schedule):
    """DeiT: a rate of 5e-4 for 512 images a step, times the batch size / 512."""
    spec = AdamW(lr=5e-4, lr_base_size=512, batch_size=128, schedule=schedule)
    plain = AdamW(lr=1.25e-4, batch_size=128, schedule=schedule)
    for step in range(20):
        assert rate(spec, step, 20) == pytest.approx(rate(plain, step, 20), rel=1e-15)
    assert max(rate(spec, step, 20) for step in range(20)) == pytest.approx(5e-4 / 4, rel=0.1)


def test_a_base_size_changes_the_key_and_must_be_positive():
    assert Run(Recipe().put({"optimizer.lr_base_size": 512}), 0).key != Run(Recipe(), 0).key
    with pytest.raises(SpecError, match=r"optimizer\.lr_base_size must be a positive number of images a step, or null"):
        Recipe().put({"optimizer.lr_base_size": 0})
