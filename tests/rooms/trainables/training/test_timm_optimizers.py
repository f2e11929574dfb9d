"""LAMB, SGD and Muon: their steps by formulas and by timm's own factory, who learns how, and resuming."""

import math

import pytest
import torch
from timm.optim import create_optimizer_v2

from tests.rooms.trainables.training.small_runs import folder, numbers, same, small
from trainables.encodings import Learnable
from trainables.recipe import LAMB, SGD, AdamW, Muon, Recipe, Run
from trainables.recipe.code_digest import CodeDigests
from trainables.spec import SpecError
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read
from trainables.training.loop import build_model_with_weights, train
from trainables.training.optimizer import build_optimizer, highest_rate, set_rate
from trainables.training.parameters import no_decay

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


def test_a_closed_run_goes_on_bit_for_bit(tmp_path):
    """With layers of their own rates and a warmed-up average, as those too follow from the step alone."""
    for spec in OTHERS:
        more = {"optimizer.layer_decay": 0.6, "optimizer.ema_decay": 0.9, "optimizer.ema_warmup": True}
        run = Run(small(data__train_size=20).recipe.put({"optimizer": spec.plain(), **more}), 0)
        whole = list(train(run, folder(tmp_path, spec.kind)))
        running = train(run, folder(tmp_path, f"{spec.kind} cut"))
        next(running)
        running.close()
        assert numbers(train(run, tmp_path / f"{spec.kind} cut")) == numbers(whole)
        for name in (CHECKPOINT, WEIGHTS):
            assert same(read(tmp_path / f"{spec.kind} cut" / name), read(tmp_path / spec.kind / name)), spec.kind


def test_a_kind_begins_at_its_own_defaults_and_is_another_run(subtests):
    found = {spec.kind: Recipe().put({"optimizer.kind": spec.kind}) for spec in (AdamW(), *OTHERS)}
    assert [recipe.optimizer for recipe in found.values()] == [AdamW(), LAMB(), SGD(), Muon()]
    assert len({Run(recipe, 0).key for recipe in found.values()}) == 4
    assert found["adamw"] == Recipe()
    assert (SGD().lr, SGD().weight_decay) == (0.1, 1e-4)
    for kind in ("lamb", "sgd", "muon"):
        extra = {*CodeDigests().files(found[kind])} - {*CodeDigests().files(Recipe())}
        assert extra == {"training/optional/timm_optimizers.py"}
    for values, said in [
        ({"optimizer.kind": "adam"}, r"optimizer\.kind must be .*adamw.*, got 'adam'"),
        ({"optimizer.kind": "sgd", "optimizer.betas": [0.9, 0.99]}, r"no field 'optimizer\.betas'"),
        (
            {"optimizer.kind": "sgd", "optimizer.momentum": 0.0},
            r"optimizer\.nesterov must be false where momentum is 0",
        ),
        ({"optimizer.kind": "muon", "optimizer.betas": [0.9, 1.0]}, r"optimizer\.betas must be two numbers"),
        ({"optimizer.ema_warmup": True}, r"optimizer\.ema_warmup must be false where ema_decay is null, got True"),
    ]:
        with subtests.test(str(values)), pytest.raises(SpecError, match=said):
            Recipe().put(values)
