"""The moving average of the weights: its formula, its scores, its file, and that it changes nothing else."""

from itertools import islice

import pytest
import torch

from tests.rooms.trainables.training.small_runs import ENCODINGS, folder, numbers, same, small
from trainables.backbones import ViT
from trainables.data.splits_torch import Reading, load
from trainables.encodings import PEG, Fourier, Learnable
from trainables.recipe import Recipe, Run
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.cost import estimate_cost
from trainables.spec import SpecError
from trainables.training import loop
from trainables.training.checkpoint import CHECKPOINT, EMA_WEIGHTS, WEIGHTS, read
from trainables.training.distributed import SINGLE
from trainables.training.evaluation import compute_metric, metric_sums
from trainables.training.loop import Training, build_model_with_weights, train

EMA = {"optimizer__ema_decay": 0.9}


@pytest.mark.parametrize("encoding", [Fourier(hidden=6), PEG(form="depthwise_stack")], ids=["", "statistics"])
def test_after_each_step_it_moves_towards_the_weights(encoding):
    training = Training(small(encoding=encoding, **EMA, optimizer__precision="float64"), "cpu", {}, SINGLE, Reading())
    expected = {name: value.clone() for name, value in training.model.state_dict().items()}
    loop.train_mode(training.module)
    for step in range(5):
        chosen = torch.arange(10) + step
        training._step(chosen, *training.splits.train.batch(chosen, training.dtype), step)
        for name, value in training.model.state_dict().items():
            moves = value.is_floating_point()
            expected[name] = 0.9 * expected[name] + 0.1 * value if moves else value.clone()
    for name, value in training.ema.module.state_dict().items():
        assert torch.allclose(value, expected[name], rtol=0, atol=1e-14), name
        assert value.data_ptr() != training.model.state_dict()[name].data_ptr()
    moved = [not torch.equal(expected[name], value) for name, value in training.model.state_dict().items()]
    assert sum(moved) > len(moved) / 2


def test_a_warmed_up_average_forgets_the_first_weights():
    """After step s it keeps 1 - s^(-2/3) of itself, at most the decay: nothing after the first, a half after three."""
    training = Training(
        small(**EMA, optimizer__ema_warmup=True, optimizer__precision="float64"), "cpu", {}, SINGLE, Reading()
    )
    expected = training.model.state_dict()["head.weight"].clone()
    loop.train_mode(training.module)
    for step in range(35):
        chosen = torch.arange(4) + step % 3
        training._step(chosen, *training.splits.train.batch(chosen, training.dtype), step)
        decay = min(0.9, 1 - (step + 1) ** (-2 / 3))
        expected = decay * expected + (1 - decay) * training.model.state_dict()["head.weight"]
        found = training.ema.module.state_dict()["head.weight"]
        assert torch.allclose(found, expected, rtol=0, atol=1e-13), step
        assert step > 0 or torch.equal(found, training.model.state_dict()["head.weight"])
    assert decay == 0.9


@pytest.mark.parametrize("task", ["direction", "distance"])
def test_its_scores_are_those_of_the_kept_file_and_the_rest_stays(tmp_path, task):
    plain = list(train(small(data__task=task), folder(tmp_path, "plain")))
    both = list(train(small(data__task=task, **EMA), folder(tmp_path, "both")))
    metric = small(data__task=task).recipe.data.metric
    assert numbers(both) == numbers(plain)
    added = [{*mine.values} - {*theirs.values} for mine, theirs in zip(both, plain, strict=True)]
    assert added == [{f"val/{metric}_ema"}] * 3 + [{f"val/{metric}_ema", f"test/{metric}_ema"}]
    assert same(read(tmp_path / "both" / WEIGHTS), read(tmp_path / "plain" / WEIGHTS))
    assert not (tmp_path / "plain" / EMA_WEIGHTS).exists()
    model = build_model_with_weights(small(data__task=task).recipe, 0)
    model.load_state_dict(read(tmp_path / "both" / EMA_WEIGHTS))
    splits = load(small(data__task=task).recipe.data)
    for name, split in (("val", splits.validation), ("test", splits.test)):
        images, targets = split.batch(slice(None), torch.float32)
        with torch.no_grad():
            sums = metric_sums(metric, model.eval()(images), targets)
        expected = compute_metric(metric, sums, split.targets)
        assert both[-1].values[f"{name}/{metric}_ema"] == pytest.approx(expected, abs=1e-6)
    assert not same(read(tmp_path / "both" / EMA_WEIGHTS), read(tmp_path / "both" / WEIGHTS))


@pytest.mark.parametrize("encoding", [*ENCODINGS, PEG(form="depthwise_stack")])
def test_a_closed_run_goes_on_bit_for_bit(tmp_path, encoding):
    run = small(encoding=encoding, **EMA)
    whole = list(train(run, folder(tmp_path, "whole")))
    running = train(run, folder(tmp_path, "cut"))
    list(islice(running, 2))
    running.close()
    again = list(train(run, tmp_path / "cut"))
    assert numbers(again) == numbers(whole)
    assert [m.values["val/accuracy_ema"] for m in again] == [m.values["val/accuracy_ema"] for m in whole]
    for name in (CHECKPOINT, WEIGHTS, EMA_WEIGHTS):
        assert same(read(tmp_path / "cut" / name), read(tmp_path / "whole" / name)), name


def test_a_crash_in_the_last_tests_loses_no_average(tmp_path, monkeypatch):
    run = small(**EMA, test_sizes=[24])
    whole = list(train(run, folder(tmp_path, "whole")))
    evaluate = Training.evaluate

    def crashes(self, number, learned):
        if number == 4:
            raise MemoryError
        return evaluate(self, number, learned)

    monkeypatch.setattr(Training, "evaluate", crashes)
    with pytest.raises(MemoryError):
        list(train(run, folder(tmp_path, "cut")))
    monkeypatch.setattr(Training, "evaluate", evaluate)
    again = list(train(run, tmp_path / "cut"))
    assert again[-1].values["test/accuracy_ema"] == whole[-1].values["test/accuracy_ema"]
    assert same(read(tmp_path / "cut" / EMA_WEIGHTS), read(tmp_path / "whole" / EMA_WEIGHTS))


def test_what_is_frozen_stays_as_it_is(tmp_path):
    run = small(**EMA, trainable="position+head", encoding=Learnable())
    list(train(run, tmp_path))
    start = build_model_with_weights(run.recipe, 0).state_dict()
    frozen = [name for name in start if not name.startswith(("encoding.", "head."))]
    assert all(torch.equal(read(tmp_path / EMA_WEIGHTS)[name], start[name]) for name in frozen)
    assert not torch.equal(read(tmp_path / EMA_WEIGHTS)["head.weight"], start["head.weight"])


def test_an_average_goes_with_drop_path_and_parts(tmp_path):
    run = small(**EMA, model__depth=3, model__drop_path=0.5, optimizer__accumulate=2)
    assert "test/accuracy_ema" in list(train(run, tmp_path))[-1].values


@pytest.mark.parametrize("decay", [0.0, 1.0])
def test_other_decays_are_refused(decay):
    with pytest.raises(SpecError, match=r"optimizer\.ema_decay must be a decay, 0 < decay < 1, or null"):
        Recipe().put({"optimizer.ema_decay": decay})


def test_it_is_another_run_needs_memory_and_its_file_counts():
    plain = Recipe(model=ViT(embed_dim=512, depth=8))
    put = plain.put({"optimizer.ema_decay": 0.999})
    assert Run(put, 0).key != Run(plain, 0).key
    cost = estimate_cost(put)
    assert cost.memory_bytes - estimate_cost(plain).memory_bytes == 4 * cost.parameters
    assert {*CodeDigests().files(put)} - {*CodeDigests().files(plain)} == {"training/optional/ema.py"}
