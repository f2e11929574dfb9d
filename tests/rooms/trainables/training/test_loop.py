"""The training loop: against a plain loop, cut and resumed, diverging, by two workers, with a parent."""

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from trainables.backbones import ViT
from trainables.data import Digits, RedGreen
from trainables.data.splits_torch import load
from trainables.encodings import PEG, Composed, Fourier, Learnable, RelativeBias
from trainables.recipe import AdamW, DRLoc, FromFile, FromTrial, Recipe, Run, TaughtByFile, TaughtByTrial, evaluation
from trainables.recipe.evaluation import eval_batch, eval_bytes
from trainables.recipe.outcome import Diverged, Measurement
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError
from trainables.training import loop
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read, write
from trainables.training.distributed import DataParallel
from trainables.training.evaluation import Evaluation
from trainables.training.loop import build_model_with_weights, train
from trainables.training.metrics import compute_metric, metric_sums
from trainables.training.optimizer import rate
from trainables.training.parameters import no_decay

ROOT = Path(__file__).parents[4]
SMALL = Recipe(
    data=RedGreen(image_size=16, square=4, train_size=50, val_size=12, test_size=14),
    model=ViT(embed_dim=8, num_heads=2),
    encoding=Fourier(hidden=6),
    optimizer=AdamW(lr=0.01, epochs=4, batch_size=16),
)


def small(seed=0, **values):
    return Run(recipe=SMALL.put({path.replace("__", "."): value for path, value in values.items()}), seed=seed)


def numbers(measurements):
    """What does not depend on the clock."""
    kept = ("train/loss", "val/accuracy", "val/r2", "test/accuracy", "test/r2")
    return [(m.epoch, {name: m.values[name] for name in kept if name in m.values}) for m in measurements]


def same(first, second):
    """Bitwise equality of whole checkpoints, the clock's numbers left out."""
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        clock = {"time/epoch_s", "train/images_per_s"}
        return first.keys() == second.keys() and all(same(first[name], second[name]) for name in first.keys() - clock)
    if isinstance(first, list):
        return len(first) == len(second) and all(same(*pair) for pair in zip(first, second, strict=True))
    return first == second


def test_an_epoch_is_a_measurement_and_the_last_one_holds_the_test(tmp_path):
    measured = list(train(small(), tmp_path))
    assert [m.epoch for m in measured] == [1, 2, 3, 4]
    each = {"train/loss", "val/accuracy", "train/images_per_s", "time/epoch_s"}
    assert [set(m.values) for m in measured] == [each, each, each, each | {"test/accuracy"}]
    assert sorted(path.name for path in tmp_path.iterdir()) == [CHECKPOINT, WEIGHTS]


@pytest.mark.parametrize(("task", "name"), [("distance", "r2"), ("direction4", "accuracy"), ("absolute", "accuracy")])
def test_every_task_trains(tmp_path, task, name):
    last = list(train(small(data__task=task), tmp_path))[-1]
    assert {f"val/{name}", f"test/{name}"} <= set(last.values)


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


ENCODINGS = (Fourier(hidden=6), Composed(parts=(Learnable(), PEG(), RelativeBias())))


LOCALISED = {"encoding": PEG(padding="valid"), "auxiliary": DRLoc(pairs=5, hidden=12)}


@pytest.mark.parametrize("cut", [1, 3])
@pytest.mark.parametrize(
    "values", [*({"encoding": one} for one in ENCODINGS), LOCALISED], ids=["", "composed", "drloc"]
)
def test_a_closed_run_goes_on_bit_for_bit(tmp_path, values, cut):
    run = small(**values)
    whole = list(train(run, folder(tmp_path, "whole")))
    running = train(run, folder(tmp_path, "cut"))
    first = list(islice(running, cut))
    running.close()
    second = list(train(run, tmp_path / "cut"))
    assert second[:cut] == first
    assert numbers(second) == numbers(whole)
    assert same(read(tmp_path / "cut" / CHECKPOINT), read(tmp_path / "whole" / CHECKPOINT))
    assert same(read(tmp_path / "cut" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


def test_a_killed_run_goes_on_from_its_last_checkpoint(tmp_path, monkeypatch):
    run = small()
    whole = list(train(run, folder(tmp_path, "whole")))
    monkeypatch.setattr(loop, "CHECKPOINT_S", 0.0)
    running = train(run, folder(tmp_path, "running"))
    assert len(list(islice(running, 2))) == 2
    shutil.copytree(tmp_path / "running", tmp_path / "left")  # as a kill would leave it
    running.close()
    assert numbers(train(run, tmp_path / "left")) == numbers(whole)
    assert same(read(tmp_path / "left" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


def test_checkpoints_are_not_written_every_epoch(tmp_path):
    running = train(small(), tmp_path)
    next(running)
    assert list(tmp_path.iterdir()) == []
    running.close()
    assert [path.name for path in tmp_path.iterdir()] == [CHECKPOINT]


def test_a_finished_run_says_everything_again(tmp_path):
    whole = list(train(small(), tmp_path))
    weights = read(tmp_path / WEIGHTS)
    (tmp_path / WEIGHTS).unlink()
    assert list(train(small(), tmp_path)) == whole
    assert same(read(tmp_path / WEIGHTS), weights)


def test_weights_lie_there_before_the_last_measurement(tmp_path):
    running = train(small(), tmp_path)
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


def test_a_rate_far_too_high_diverges_at_its_first_epoch(tmp_path):
    run = small(optimizer__lr=1e30, optimizer__schedule="constant")
    items = list(train(run, tmp_path))
    assert items == [Diverged(epoch=1, curve=(), reason="train/loss not finite")]
    assert not (tmp_path / WEIGHTS).exists()


def poisoned(tmp_path, name):
    """A run cut after its second epoch, with one weight of its checkpoint made NaN."""
    run = small(trainable="position+head")
    running = train(run, tmp_path)
    first = list(islice(running, 2))
    running.close()
    state = read(tmp_path / CHECKPOINT)
    state["weights"][name].view(-1)[0] = math.nan
    write(tmp_path / CHECKPOINT, state)
    return run, first


def test_divergence_comes_last_and_carries_the_epochs_before_it(tmp_path):
    run, first = poisoned(tmp_path, "head.bias")
    said = list(train(run, tmp_path))
    assert said == [*first, Diverged(epoch=3, curve=tuple(first), reason="train/loss not finite")]


@pytest.mark.parametrize("where", ["weights", "val/accuracy"])
def test_divergence_says_where_it_began(tmp_path, monkeypatch, where):
    def learn(training, number):
        spoilt = training.learning[0] if where == "weights" else training.model.norm.bias
        with torch.no_grad():
            spoilt.view(-1)[0] = math.inf
        return 0.5

    monkeypatch.setattr(loop.Training, "_learn", learn)
    (item,) = train(small(trainable="position+head"), tmp_path)
    assert item.reason == f"{where} not finite"


def test_bfloat16_is_near_float32(tmp_path):
    losses = [
        [m.values["train/loss"] for m in train(small(optimizer__precision=kind), folder(tmp_path, kind))]
        for kind in ("float32", "bfloat16")
    ]
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], abs=0.02)


@pytest.mark.parametrize("trainable", ["position", "position+head"])
def test_a_child_begins_with_its_parents_weights_and_only_what_is_trainable_learns(tmp_path, trainable):
    task = "absolute" if trainable == "position" else "direction4"
    child = small(init=FromTrial(values={"data.task": task}, part="backbone"), trainable=trainable)
    (parent,) = child.needs()
    assert parent.recipe.trainable == "all"
    list(train(parent, folder(tmp_path, "parent")))
    list(train(child, folder(tmp_path, "child"), parents={"init": tmp_path / "parent" / WEIGHTS}))
    before, drawn = read(tmp_path / "parent" / WEIGHTS), build_model_with_weights(small().recipe, 0).state_dict()
    learning = ("encoding.", "head.") if trainable == "position+head" else ("encoding.",)
    for name, value in read(tmp_path / "child" / WEIGHTS).items():
        if name.startswith(learning):
            assert not torch.equal(value, drawn[name]), name
        else:
            assert torch.equal(value, before[name]), name


def test_a_head_that_neither_fits_nor_learns_is_refused(tmp_path):
    """A frozen head that was drawn at random: the parent's has four outputs."""
    with pytest.raises(SpecError, match=r"or 'position\+head' where the parent's head has 4 outputs, not 2, got"):
        small(init=FromTrial(values={"data.task": "direction4"}, part="backbone"), trainable="position")
    torch.save(build_model_with_weights(small(data__task="direction4").recipe, 0).state_dict(), tmp_path / "w.pt")
    sha256 = hashlib.sha256((tmp_path / "w.pt").read_bytes()).hexdigest()
    run = small(init=FromFile(str(tmp_path / "w.pt"), sha256, "backbone"), trainable="position")
    said = "trainable must be 'position\\+head' or 'all' where the weights have no head.bias that fits, got 'position'"
    with pytest.raises(SpecError, match=said):
        next(train(run, tmp_path))
    assert list(train(Run(run.recipe.put({"trainable": "position+head"}), 0), tmp_path))


def test_a_crash_in_the_last_tests_trains_no_epoch_again(tmp_path, monkeypatch):
    """The tests at a further size are where memory ends: the next attempt begins with them."""
    run = small(test_sizes=[24])
    whole = list(train(run, folder(tmp_path, "whole")))
    metric, learn = Evaluation.__call__, loop.Training._learn

    def crashes(self, model, split, side=None):
        if side is not None:
            raise MemoryError
        return metric(self, model, split, side)

    monkeypatch.setattr(Evaluation, "__call__", crashes)
    with pytest.raises(MemoryError):
        list(train(run, folder(tmp_path, "crashed")))
    monkeypatch.setattr(Evaluation, "__call__", metric)
    trained = []
    monkeypatch.setattr(loop.Training, "_learn", lambda self, number: trained.append(number) or learn(self, number))
    again = list(train(run, tmp_path / "crashed"))
    assert trained == []
    assert numbers(again) == numbers(whole)
    assert again[-1].values["test/accuracy_at_24"] == whole[-1].values["test/accuracy_at_24"]
    assert same(read(tmp_path / "crashed" / CHECKPOINT), read(tmp_path / "whole" / CHECKPOINT))
    assert same(read(tmp_path / "crashed" / WEIGHTS), read(tmp_path / "whole" / WEIGHTS))


def test_the_metric_is_of_any_number_of_images_together(tmp_path, monkeypatch):
    run = small(data__task="distance", test_sizes=[24])
    whole = list(train(run, folder(tmp_path, "whole")))
    for side in (None, 24):
        assert eval_batch(run.recipe, side) == 256
    monkeypatch.setattr(evaluation, "EVAL_BYTES", 3 * eval_bytes(run.recipe, 24))
    assert eval_batch(run.recipe, 24) == 3
    few = list(train(run, folder(tmp_path, "few")))
    for one, other in zip(whole, few, strict=True):
        for name in one.values.keys() - {"train/images_per_s", "time/epoch_s"}:
            assert other.values[name] == pytest.approx(one.values[name], abs=1e-6), name
    assert [m.values["train/loss"] for m in whole] == [m.values["train/loss"] for m in few]


def test_workers_with_batch_norms_on_cpus_are_refused(tmp_path):
    """Each would normalize its own share; a frozen stack keeps its statistics."""
    two = DataParallel(rank=0, world_size=2)
    for values in ({"encoding": PEG(form="depthwise_stack")}, {"model.kind": "volo", "data.image_size": 16}):
        run = Run(SMALL.put(values), 0)
        with pytest.raises(SpecError, match="workers must be 0 on CPUs where a model has batch norms, got 2"):
            next(train(run, tmp_path, team=two))
    frozen = build_model_with_weights(SMALL.put({"encoding": PEG(form="depthwise_stack", frozen=True)}), 0)
    assert two.synchronized(frozen, torch.device("cpu")) is frozen


def test_batch_norms_are_synchronized_on_gpus():
    model = build_model_with_weights(SMALL.put({"encoding": PEG(form="depthwise_stack")}), 0)
    names = list(model.state_dict())
    made = DataParallel(rank=0, world_size=2).synchronized(model, torch.device("cuda"))
    norms = [module for module in made.modules() if isinstance(module, torch.nn.modules.batchnorm._BatchNorm)]
    assert {type(module) for module in norms} == {torch.nn.SyncBatchNorm}
    assert len(norms) == 4
    assert list(made.state_dict()) == names


def test_a_parent_that_does_not_fit_is_refused(tmp_path):
    child = small(init=FromTrial(values={"model.embed_dim": 12}))
    list(train(child.needs()[0], folder(tmp_path, "parent")))
    with pytest.raises(SpecError, match=r"init.values must give a parent with cls_token of shape \(1, 1, 8\)"):
        next(train(child, tmp_path, parents={"init": tmp_path / "parent" / WEIGHTS}))


def folder(path, name):
    (path / name).mkdir()
    return path / name


TEACHER = TaughtByTrial(values={"encoding.kind": "none"})


def taught_by_file(run, path):
    """The same run with its teacher, as it begins, from a file."""
    torch.save(build_model_with_weights(run.recipe.teacher_recipe, 5).state_dict(), path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    teacher = TaughtByFile(path=str(path), sha256=sha256, values=run.recipe.teacher.values)
    return Run(run.recipe.put({"teacher": teacher}), run.seed)


def by_two(run, path):
    """The measurements of both workers of a run, trained by two processes."""
    (path / "run.json").write_text(json.dumps(run.plain()))
    outs = [path / f"{rank}.json" for rank in (0, 1)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    workers = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("two_workers.py")), *map(str, arguments)], env=environment
        )
        for arguments in [(path / "run.json", folder(path, f"work{r}"), path / "store", r, outs[r]) for r in (0, 1)]
    ]
    assert [worker.wait(120) for worker in workers] == [0, 0]
    return [[Measurement.read(item) for item in json.loads(out.read_text())] for out in outs]


@pytest.mark.slow
def test_two_workers_score_the_model_that_is_saved(tmp_path):
    run = small(optimizer__epochs=2, data__task="distance", data__test_size=60)
    both = by_two(run, tmp_path)
    assert numbers(both[0]) == numbers(both[1])
    model = build_model_with_weights(run.recipe, 0)
    model.load_state_dict(read(tmp_path / "work0" / WEIGHTS))
    split = load(run.recipe.data).test
    images, targets = split.batch(slice(None), torch.float32)
    with torch.no_grad():
        sums = metric_sums("r2", model.eval()(images), targets)
    assert both[0][-1].values["test/r2"] == pytest.approx(compute_metric("r2", sums, split.targets), abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "epochs", "near", "values"),
    [
        ("float64", 10, 1e-10, {"encoding": ENCODINGS[1]}),
        ("float32", 4, 1e-5, {"encoding": ENCODINGS[1]}),
        ("float64", 4, 1e-10, {**LOCALISED, "model__pool": "distilled", "teacher": TEACHER}),
    ],
    ids=["float64", "float32", "drloc and a teacher"],
)
def test_two_workers_train_as_one(tmp_path, precision, epochs, near, values):
    """5 steps an epoch; the last batch has one image, so the second worker's share of it is empty."""
    run = small(
        optimizer__precision=precision, optimizer__epochs=epochs, data__train_size=65, test_sizes=[24], **values
    )
    if run.needs():
        run = taught_by_file(run, tmp_path / "teacher.pt")
    alone = list(train(run, folder(tmp_path, "alone")))
    both = by_two(run, tmp_path)
    assert numbers(both[0]) == numbers(both[1])
    for mine, ours in zip(alone, both[0], strict=True):
        assert ours.values["train/loss"] == pytest.approx(mine.values["train/loss"], abs=near)
        assert ours.values["val/accuracy"] == mine.values["val/accuracy"]
    for name in ("test/accuracy", "test/accuracy_at_24"):
        assert both[0][-1].values[name] == both[1][-1].values[name] == alone[-1].values[name]
    assert list((tmp_path / "work1").iterdir()) == []
    if precision == "float64":
        weights = read(tmp_path / "work0" / WEIGHTS)
        for name, value in read(tmp_path / "alone" / WEIGHTS).items():
            assert torch.allclose(weights[name], value, rtol=0, atol=1e-10), name
