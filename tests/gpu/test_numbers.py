"""A GPU computes what a CPU computes: whole runs in float64, epoch by epoch."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.laws.conftest import EXAMPLES
from tests.rooms.trainables.backbones.test_specs import BACKBONES, OTHERS
from tests.rooms.trainables.training.small_runs import LOCALISED, small
from trainables.data.augment import DeiT, Standard
from trainables.data.splits_torch import Reading
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training, train
from trainables.training.optional.fused import NotFusedError, train_together
from trainables.training.runtime import runtime

OTHER = {
    "drloc, drop path, parts": {**LOCALISED, "model__depth": 3, "model__drop_path": 0.5, "optimizer__accumulate": 3},
    "average, layer decay": {"optimizer__ema_decay": 0.9, "optimizer__layer_decay": 0.9},
    "clip": {"optimizer__clip_grad": 0.1},
    "lamb": {"optimizer": {"kind": "lamb", "epochs": 4, "batch_size": 16}},
    "sgd": {"optimizer": {"kind": "sgd", "epochs": 4, "batch_size": 16}},
    "muon": {"optimizer": {"kind": "muon", "epochs": 4, "batch_size": 16}},
    "other sizes": {"test_sizes": (24, 32)},
}


def curves(run, tmp_path, device, **more):
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    return [
        {name: value for name, value in epoch.values.items() if name.partition("/")[0] in ("train", "val", "test")}
        for epoch in train(run, folder, device, **more)
    ]


def assert_same(run, tmp_path, **more):
    ours, theirs = curves(run, tmp_path, "cuda", **more), curves(run, tmp_path, "cpu")
    assert len(ours) == len(theirs) == run.recipe.optimizer.epochs
    for mine, other in zip(ours, theirs, strict=True):
        for name in mine.keys() - {"train/images_per_s"}:
            assert mine[name] == pytest.approx(other[name], rel=1e-6, abs=1e-9), name


def test_every_encoding(subtests, tmp_path_factory):
    for kind, some in EXAMPLES.items():
        for number, spec in enumerate(some):
            with subtests.test(f"{kind}-{number}"):
                run = small(encoding=spec, model__depth=2, model__embed_dim=16, optimizer__precision="float64")
                assert_same(run, tmp_path_factory.mktemp("run"))


def test_every_backbone(subtests, tmp_path_factory):
    for kind in BACKBONES:
        with subtests.test(kind):
            model = {"kind": kind, **OTHERS.get(kind, {})}
            run = small(model=model, encoding={"kind": "none"}, data__image_size=32, optimizer__precision="float64")
            assert_same(run, tmp_path_factory.mktemp("run"))


@pytest.mark.parametrize("values", OTHER.values(), ids=OTHER)
def test_what_else_a_recipe_says(values, tmp_path):
    assert_same(small(**values, optimizer__precision="float64"), tmp_path)


@pytest.mark.parametrize("precision", ["float32", "tf32", "bfloat16", "float16"])
def test_precisions_learn_alike(precision, tmp_path):
    run = small(encoding={"kind": "learnable"}, model__depth=2, optimizer__epochs=12)
    exact = curves(run, tmp_path, "cuda")
    other = curves(small(encoding={"kind": "learnable"}, model__depth=2, optimizer__epochs=12,
                         optimizer__precision=precision), tmp_path, "cuda")  # fmt: skip
    assert other[-1]["train/loss"] == pytest.approx(exact[-1]["train/loss"], rel=0.05)


@pytest.mark.parametrize(
    "augment", [Standard(border=2), DeiT(rand=None, erase=0), DeiT()], ids=["standard", "mix", "deit"]
)
def test_images_that_change(augment, tmp_path):
    """The last ones are decoded by processes of the run."""
    rng = np.random.default_rng(0)
    for number in range(60):
        folder = tmp_path / "set" / "train" / f"class_{number % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (40, 48, 3), np.uint8)).save(folder / f"{number}.png")
    data = {"kind": "folder", "path": str(tmp_path / "set"), "image_size": 32, "val_size": 8, "test_size": 8}
    run = small(data=data, augment=augment, optimizer__precision="float64", optimizer__epochs=2)
    assert_same(run, tmp_path, loader_workers=2)


def test_a_run_that_goes_on_equals_the_undisturbed_one(tmp_path):
    run = small(encoding={"kind": "relative_bias"}, optimizer__precision="float64")
    undisturbed = curves(run, tmp_path, "cuda")
    folder = tmp_path / "cut"
    folder.mkdir()
    begun = train(run, folder, "cuda")
    next(begun), next(begun)
    begun.close()
    went_on = [epoch.values for epoch in train(run, folder, "cuda")]
    for mine, other in zip(went_on, undisturbed, strict=True):
        assert mine["train/loss"] == pytest.approx(other["train/loss"], rel=1e-9)


@pytest.mark.parametrize("kind", ["irpe", "relative_bias", "relative", "learnable", "peg", "log_cpb"])
def test_a_deterministic_run_repeats_bit_for_bit(kind, tmp_path):
    run = small(encoding={"kind": kind}, model__depth=2, model__embed_dim=64, optimizer__epochs=3)
    with runtime(1, "float32", deterministic=True):
        first, again = (curves(run, tmp_path, "cuda") for _ in range(2))
    for mine, other in zip(first, again, strict=True):
        assert mine | {"train/images_per_s": 0} == other | {"train/images_per_s": 0}


@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_runs_that_train_as_one(precision, tmp_path):
    """PyTorch 2.11 has no gradient of a softmax in bfloat16 there."""
    runs = [small(seed, model__depth=2, optimizer__precision=precision, optimizer__epochs=3) for seed in range(3)]
    folders = [Path(tempfile.mkdtemp(dir=tmp_path)) for _ in (*runs, *runs)]
    try:
        told = list(train_together(runs, folders[:3], "cuda"))
    except NotFusedError as error:
        pytest.skip(f"before the first step torch says: {error}")
    for place, run in enumerate(runs):
        for mine, own in zip(told, train(run, folders[3 + place], "cuda"), strict=True):
            near = {"rel": 1e-6} if precision == "float64" else {"rel": 0.02}
            assert mine[place].values["train/loss"] == pytest.approx(own.values["train/loss"], **near)
            if precision == "float64":
                assert mine[place].values["val/accuracy"] == own.values["val/accuracy"]


def test_no_step_waits_for_the_gpu(subtests):
    """CUDA itself says so: torch raises where the host would wait."""
    cases = {kind: {"encoding": some[0], "model__depth": 2, "model__embed_dim": 16} for kind, some in EXAMPLES.items()}
    for name, values in {**cases, **OTHER}.items():
        with subtests.test(name):
            training = Training(small(**values), "cuda", {}, SINGLE, Reading())
            training.learn(1)
            batches = training._batches(2, 0)
            chosen, images, targets = next(batches)
            torch.cuda.set_sync_debug_mode("error")
            try:
                for step in range(4, 7):
                    training._step(chosen, images, targets, step)
            finally:
                torch.cuda.set_sync_debug_mode("default")
