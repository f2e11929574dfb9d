"""Trainings by two workers: as by one, and batch norms over both."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.rooms.trainables.data.own_data import SHAPES
from tests.rooms.trainables.training.small_runs import ENCODINGS, LOCALISED, SMALL, folder, numbers, small
from trainables.data.splits_torch import Reading, load
from trainables.encodings import IRPE, PEG, Composed, Rotary, Sinusoidal
from trainables.recipe import Run, TaughtByFile, TaughtByTrial
from trainables.recipe.outcome import Measurement
from trainables.spec import SpecError
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read
from trainables.training.distributed import DataParallel, saved_buffers
from trainables.training.evaluation import compute_metric, metric_sums
from trainables.training.loop import Training, build_model_with_weights, train
from trainables.training.saving import DAMAGED

ROOT = Path(__file__).parents[4]


def test_workers_with_batch_norms_on_cpus_are_refused():
    """Each would normalize its own share; a frozen stack keeps its statistics."""
    two = DataParallel(rank=0, world_size=2)
    for values in ({"encoding": PEG(form="depthwise_stack")}, {"model.kind": "volo", "data.image_size": 16}):
        run = Run(SMALL.put(values), 0)
        with pytest.raises(SpecError, match="workers must be 0 on CPUs where a model has batch norms, got 2"):
            Training(run, "cpu", {}, two, Reading())
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


def test_workers_exchange_running_statistics_and_no_fixed_tables():
    values = {"encoding": Composed(parts=(PEG(form="depthwise_stack"), IRPE(), Sinusoidal()))}
    model = build_model_with_weights(SMALL.put(values), 0)
    found = saved_buffers(model)
    assert {name.rpartition(".")[2] for name in found} == {"running_mean", "running_var", "num_batches_tracked"}
    assert len(found) == 3 * 4
    assert len(list(model.buffers())) > len(found)
    for name, value in found.items():
        assert value.data_ptr() == model.get_buffer(name).data_ptr(), "a copy would change nothing"


DROPS = {"model__depth": 3, "model__drop_path": 0.6}
TEACHER = TaughtByTrial(values={"encoding.kind": "none"})


def taught_by_file(run, path):
    """The same run with its teacher, as it begins, from a file."""
    torch.save(build_model_with_weights(run.recipe.teacher_recipe, 5).state_dict(), path)
    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    teacher = TaughtByFile(path=str(path), sha256=sha256, values=run.recipe.teacher.values)
    return Run(run.recipe.put({"teacher": teacher}), run.seed)


def by_two(run, path, *steps):
    """The measurements of both workers of a run, trained by two processes, or killed after some steps."""
    workers, outs = started(run, path, *steps)
    assert [worker.wait(120) for worker in workers] == [0, 0]
    return [] if steps else [[Measurement.read(item) for item in json.loads(out.read_text())] for out in outs]


def started(run, path, *steps):
    """Two processes that train a run, and the files of their measurements."""
    (path / "run.json").write_text(json.dumps(run.plain()))
    outs, work = ([path / name.format(rank) for rank in (0, 1)] for name in ("{}.json", "work{}"))
    store = path / f"store{len(list(path.iterdir()))}"
    for each in work:
        each.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    workers = [
        subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("two_workers.py")), *map(str, arguments)], env=environment
        )
        for arguments in [(path / "run.json", work[r], store, r, outs[r], *steps) for r in (0, 1)]
    ]
    return workers, outs


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
        ("float64", 10, 1e-10, {"encoding": Composed(parts=(*ENCODINGS[1].parts, Rotary(jitter_coords=2.0)))}),
        ("float32", 4, 1e-5, {"encoding": ENCODINGS[1]}),
        ("float64", 4, 1e-10, {**LOCALISED, "model__pool": "distilled", "teacher": TEACHER}),
        ("float64", 4, 1e-10, {"encoding": ENCODINGS[1], "trainable": "position+head"}),
        ("float64", 4, 1e-10, {"optimizer__accumulate": 3, "optimizer__ema_decay": 0.9, **DROPS, **LOCALISED}),
        ("float64", 4, 1e-10, {"optimizer__schedule": "wsd", "optimizer__lengths": (1, 3)}),
    ],
    ids=[
        "float64",
        "float32",
        "drloc and a teacher",
        "a frozen backbone",
        "in parts, with drop path and an average",
        "lengths",
    ],
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
    ema = [measured[-1].values.get("test/accuracy_ema") for measured in (alone, *both)]
    assert len({*ema}) == 1
    assert list((tmp_path / "work1").iterdir()) == []
    if precision == "float64":
        weights = read(tmp_path / "work0" / WEIGHTS)
        for name, value in read(tmp_path / "alone" / WEIGHTS).items():
            assert torch.allclose(weights[name], value, rtol=0, atol=1e-10), name


@pytest.mark.slow
def test_two_workers_learn_from_the_same_images_of_ones_own(tmp_path):
    run = small(data={"kind": "mine.py:Shapes", "source": SHAPES}, optimizer__epochs=2)
    both = by_two(run, tmp_path)
    assert numbers(both[0]) == numbers(both[1])
    alone = list(train(run, folder(tmp_path, "alone")))
    for one, other in zip(both[0], alone, strict=True):
        assert one.values["train/loss"] == pytest.approx(other.values["train/loss"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "lengths"), [(2, ()), (7, ()), (7, (1,)), (3, (1,))])
def test_two_workers_go_on_from_inside_an_epoch(tmp_path, steps, lengths):
    """5 steps an epoch; the loss of the epoch counts what both had learned before they were killed."""
    spec = {"optimizer__schedule": "wsd" if lengths else "one_cycle", "optimizer__lengths": lengths}
    run = small(optimizer__precision="float64", optimizer__epochs=3, data__train_size=65, encoding=ENCODINGS[1], **spec)
    whole = list(train(run, folder(tmp_path, "alone")))
    by_two(run, tmp_path, steps)
    left = read(tmp_path / "work0" / CHECKPOINT)["progress"]
    assert (len(left["curve"]), left["steps"]) == divmod(steps, 5)
    assert list((tmp_path / "work1").iterdir()) == []
    shutil.copyfile(tmp_path / "work0" / CHECKPOINT, tmp_path / "work1" / CHECKPOINT)  # they share a folder elsewhere
    both = by_two(run, tmp_path)
    assert numbers(both[0]) == numbers(both[1])
    for mine, ours in zip(whole, both[0], strict=True):
        assert ours.values["train/loss"] == pytest.approx(mine.values["train/loss"], abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("damage", [lambda path: path.write_bytes(b"no checkpoint"), lambda path: path.unlink()])
def test_two_workers_begin_again_where_one_cannot_read_the_checkpoint(tmp_path, damage):
    """One that began again alone would wait without end for the other."""
    run = small(optimizer__precision="float64", optimizer__epochs=3, encoding=ENCODINGS[1])
    whole = list(train(run, folder(tmp_path, "alone")))
    by_two(run, tmp_path, 2)
    shutil.copyfile(tmp_path / "work0" / CHECKPOINT, tmp_path / "work1" / CHECKPOINT)
    damage(tmp_path / "work1" / CHECKPOINT)
    both = by_two(run, tmp_path)
    assert numbers(both[0]) == numbers(both[1])
    assert (tmp_path / "work0" / CHECKPOINT).with_suffix(DAMAGED).exists()
    for mine, ours in zip(whole, both[0], strict=True):
        assert ours.values["train/loss"] == pytest.approx(mine.values["train/loss"], abs=1e-10)
