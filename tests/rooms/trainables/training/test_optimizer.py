"""Schedules against torch and timm; steps of AdamW, LAMB, SGD and Muon by formulas and timm; and who decays."""

import math

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

from trainables.encodings import Fourier, Learnable
from trainables.recipe import LAMB, SGD, AdamW, Muon, Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.training.loop import build_model_with_weights
from trainables.training.optimizer import build_optimizer, highest_rate, rate, set_rate
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


@pytest.mark.parametrize("schedule", ["one_cycle", "cosine", "constant"])
def test_rates_are_in_proportion_to_the_batch_size(schedule):
    """DeiT: a rate of 5e-4 for 512 images a step, times the batch size / 512."""
    spec = AdamW(lr=5e-4, lr_base_size=512, batch_size=128, schedule=schedule)
    plain = AdamW(lr=1.25e-4, batch_size=128, schedule=schedule)
    for step in range(20):
        assert rate(spec, step, 20) == pytest.approx(rate(plain, step, 20), rel=1e-15)
    assert max(rate(spec, step, 20) for step in range(20)) == pytest.approx(5e-4 / 4, rel=0.1)


OTHERS = tuple(kind(lr=0.02, epochs=2, batch_size=8) for kind in (LAMB, SGD, Muon))


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.held = torch.nn.Parameter(torch.tensor([[1.0, -2.0, 3.0]], dtype=torch.float64))
        self.free = torch.nn.Parameter(torch.tensor([0.5, 4.0], dtype=torch.float64))


def norm(values):
    return math.sqrt(sum(value * value for value in values))


def moved(spec, rates, update):
    """The weights after a step at each rate: of the optimizer, and by the formula of one parameter's step."""
    model = Two()
    optimizer = build_optimizer(model, spec, {"free"})
    expected = {name: value.flatten().tolist() for name, value in model.named_parameters()}
    state = {name: ([0.0] * len(values), [0.0] * len(values)) for name, values in expected.items()}
    for step, lr in enumerate(rates, start=1):
        set_rate(optimizer, lr)
        for parameter in model.parameters():
            parameter.grad = parameter.detach().square()
        optimizer.step()
        for name, decay in (("held", spec.weight_decay), ("free", 0.0)):
            gradient = [value * value for value in expected[name]]
            expected[name] = update(expected[name], gradient, *state[name], lr, decay, step)
    return {name: value.flatten().tolist() for name, value in model.named_parameters()}, expected


def test_steps_of_lamb_are_adams_scaled_to_the_norm_of_the_weights():
    """You et al. 2020, algorithm 2; what does not decay is not scaled."""
    spec = LAMB(weight_decay=0.1, betas=(0.8, 0.95), eps=1e-3)

    def update(weights, gradient, first, second, lr, decay, step):
        direction = []
        for i, g in enumerate(gradient):
            first[i] += (1 - 0.8) * (g - first[i])
            second[i] += (1 - 0.95) * (g * g - second[i])
            m, v = first[i] / (1 - 0.8**step), second[i] / (1 - 0.95**step)
            direction.append(m / (math.sqrt(v) + 1e-3) + decay * weights[i])
        ratio = norm(weights) / norm(direction) if decay else 1.0
        return [w - lr * ratio * d for w, d in zip(weights, direction, strict=True)]

    found, expected = moved(spec, (0.1, 0.03, 0.2), update)
    for name in expected:
        assert found[name] == pytest.approx(expected[name], rel=1e-12)


def test_steps_of_sgd_have_momentum_and_a_penalty():
    """Sutskever et al. 2013, as torch writes it: the first momentum is the gradient itself."""
    for nesterov in (True, False):
        spec = SGD(weight_decay=0.1, momentum=0.7, nesterov=nesterov)

        def update(weights, gradient, first, _, lr, decay, step, nesterov=nesterov):
            whole = [g + decay * w for g, w in zip(gradient, weights, strict=True)]
            first[:] = [g if step == 1 else 0.7 * m + g for m, g in zip(first, whole, strict=True)]
            direction = [g + 0.7 * m for g, m in zip(whole, first, strict=True)] if nesterov else first
            return [w - lr * d for w, d in zip(weights, direction, strict=True)]

        found, expected = moved(spec, (0.01, 0.03, 0.02), update)
        for name in expected:
            assert found[name] == pytest.approx(expected[name], rel=1e-12)


def test_a_first_step_of_muon_is_orthogonal_and_tables_learn_by_adamw():
    """The nearest orthogonal matrix is U V' of the gradient's singular values; Newton-Schulz is near it."""
    model = build_model_with_weights(Recipe(encoding=Learnable()), 0).double()
    spec = Muon(weight_decay=0.0)
    optimizer = build_optimizer(model, spec, no_decay(model))
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    stream = torch.Generator().manual_seed(0)
    for value in model.parameters():
        value.grad = torch.randn(value.shape, generator=stream, dtype=torch.float64)
    set_rate(optimizer, 0.01)
    optimizer.step()
    steps = {name: (value.detach() - before[name]) / -0.01 for name, value in model.named_parameters()}
    gradients = {name: value.grad for name, value in model.named_parameters()}
    for name in ("blocks.0.attn.qkv.weight", "blocks.0.mlp.fc2.weight", "patch_embed.proj.weight"):
        step, gradient = steps[name].flatten(1), gradients[name].flatten(1)
        u, _, v = torch.linalg.svd(gradient, full_matrices=False)
        nearest = 0.2 * math.sqrt(max(gradient.shape)) * u @ v
        assert torch.linalg.svdvals(step / (0.2 * math.sqrt(max(gradient.shape)))).sub(1).abs().max() < 0.35, name
        assert torch.cosine_similarity(step.flatten(), nearest.flatten(), dim=0) > 0.97, name
    for name in ("encoding.learnable.table", "cls_token", "norm.weight", "head.bias"):
        adams = gradients[name] / (gradients[name].abs() + spec.eps)  # its first step
        assert torch.allclose(steps[name], adams, rtol=1e-9, atol=0), name


def test_steps_are_those_of_timms_factory():
    class Theirs(torch.nn.Module):
        def __init__(self, model):
            super().__init__()
            self.model = model

        def no_weight_decay(self):
            return {f"model.{name}" for name in no_decay(self.model)}

    for spec in OTHERS:
        ours, theirs = (build_model_with_weights(Recipe(encoding=Learnable()), 0).double() for _ in range(2))
        optimizer = build_optimizer(ours, spec, no_decay(ours))
        own = {name: getattr(spec, name) for name in ("momentum", "betas", "eps") if hasattr(spec, name)}
        own |= {"max_grad_norm": None} if isinstance(spec, LAMB) else {}
        timms = create_optimizer_v2(
            Theirs(theirs), spec.kind, lr=highest_rate(spec), weight_decay=spec.weight_decay,
            fallback_no_weight_decay=True, **own,
        )  # fmt: skip
        set_rate(optimizer, highest_rate(spec))
        for step in range(3):
            for model, one in ((ours, optimizer), (theirs, timms)):
                stream = torch.Generator().manual_seed(step)
                for value in model.parameters():
                    value.grad = torch.randn(value.shape, generator=stream, dtype=torch.float64)
                one.step()
        start = build_model_with_weights(Recipe(encoding=Learnable()), 0).double().state_dict()
        for name, value in ours.state_dict().items():
            assert torch.allclose(value, theirs.state_dict()[name], rtol=1e-12, atol=0), (spec.kind, name)
            assert not torch.equal(value, start[name])


def test_a_kind_begins_at_its_own_defaults_and_is_another_run():
    found = {spec.kind: Recipe().put({"optimizer.kind": spec.kind}) for spec in (AdamW(), *OTHERS)}
    assert [recipe.optimizer for recipe in found.values()] == [AdamW(), LAMB(), SGD(), Muon()]
    assert len({Run(recipe, 0).key for recipe in found.values()}) == 4
    assert found["adamw"] == Recipe()
    put = Recipe().put({"optimizer.betas": [0.9, 0.95]})
    assert Recipe.read(put.plain()) == put != Recipe()
    assert (SGD().lr, SGD().weight_decay) == (0.1, 1e-4)
