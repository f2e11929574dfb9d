"""The loop against a plain loop, what it measures and what moves it; metrics, parents, augmented and compiled runs."""

import hashlib
import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, balanced_accuracy_score, r2_score
from torch.nn.functional import cross_entropy

from tests.rooms.trainables.data.pictures import image_folder
from tests.rooms.trainables.training.small_runs import CLOCKED, folder, numbers, small
from trainables.data.splits_torch import Reading, load
from trainables.recipe import FromFile, FromTrial, Recipe, Run, evaluation
from trainables.recipe.evaluation import eval_batch, eval_bytes
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError
from trainables.training.checkpoint import CHECKPOINT, WEIGHTS, read
from trainables.training.distributed import SINGLE
from trainables.training.evaluation import compute_metric, metric_sums
from trainables.training.loop import Training, build_model_with_weights, train
from trainables.training.optimizer import rate
from trainables.training.parameters import no_decay
from trainables.training.runtime import peak_gib, reset_peak


def test_an_epoch_is_a_measurement_and_the_last_one_holds_the_test(tmp_path):
    measured = list(train(small(), tmp_path))
    assert [m.epoch for m in measured] == [1, 2, 3, 4]
    each = {"train/loss", "val/accuracy", *CLOCKED}
    assert [{*m.values} for m in measured] == [each, each, each, each | {"test/accuracy"}]
    assert sorted(path.name for path in tmp_path.iterdir()) == [CHECKPOINT, WEIGHTS]


def test_skill_is_reported_in_place_of_the_metric(tmp_path):
    """The runs are the same but for what the score is called; of two classes it is 2 * accuracy - 1."""
    plain, skill = (list(train(small(data__skill=one), folder(tmp_path, str(one))))[-1].values for one in (False, True))
    assert "val/accuracy" not in skill
    for split in ("val", "test"):
        assert skill[f"{split}/skill"] == pytest.approx(2 * plain[f"{split}/accuracy"] - 1)


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


@settings(max_examples=30)
@given(st.integers(0, 1000), st.integers(1, 28))
def test_scores_of_shares_are_scikit_learns_of_the_whole(seed, cut):
    numbers = torch.Generator().manual_seed(seed)
    outputs = torch.randn(29, 2, generator=numbers)
    labels = torch.randint(0, 2, (29,), generator=numbers)
    offsets = torch.randn(29, 2, generator=numbers, dtype=torch.float64) * torch.tensor([1.0, 7.0])
    answers = outputs.argmax(1)
    for measure, targets, expected in (
        ("accuracy", labels, accuracy_score(labels, answers)),
        ("balanced_accuracy", labels, balanced_accuracy_score(labels, answers)),
        ("r2", offsets, r2_score(offsets, outputs)),
    ):
        parts = [metric_sums(measure, outputs[:cut], targets[:cut]), metric_sums(measure, outputs[cut:], targets[cut:])]
        assert compute_metric(measure, sum(parts), targets) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_an_output_that_is_not_finite_is_no_score(bad):
    outputs = torch.zeros(5, 2)
    outputs[3, 1] = bad
    labels = torch.tensor([0, 1, 0, 0, 1])
    for measure, targets in (("accuracy", labels), ("balanced_accuracy", labels), ("r2", torch.randn(5, 2))):
        assert not math.isfinite(compute_metric(measure, metric_sums(measure, outputs, targets), targets))


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


def test_a_parent_that_does_not_fit_is_refused(tmp_path):
    child = small(init=FromTrial(values={"model.embed_dim": 12}))
    list(train(child.needs()[0], folder(tmp_path, "parent")))
    with pytest.raises(SpecError, match=r"init.values must give a parent with cls_token of shape \(1, 1, 8\)"):
        next(train(child, tmp_path, parents={"init": tmp_path / "parent" / WEIGHTS}))


SMALL_STEPS = {"epochs": 4, "batch_size": 7}
AUGMENTED = {
    "data.image_size": 8,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "model.depth": 2,
    **{f"optimizer.{name}": value for name, value in SMALL_STEPS.items()},
}


@pytest.fixture
def recipe(tmp_path):
    root = image_folder(tmp_path / "set", {"train": 10, "test": 4})
    return Recipe().put({"data.kind": "folder", "data.path": str(root), **AUGMENTED})


def test_kinds_train_on_other_pixels(recipe, tmp_path):
    losses = set()
    for kind in ("none", "standard", "deit", "three_augment"):
        (tmp_path / kind).mkdir()
        run = Run(recipe.put({"augment.kind": kind, "optimizer.epochs": 1}), 3)
        losses.add(next(iter(train(run, tmp_path / kind))).values["train/loss"])
    assert len(losses) == 4


def test_a_teacher_sees_the_pixels_of_each_batch(recipe, tmp_path):
    taught = {"model.pool": "distilled", "teacher": {"kind": "from_trial", "values": {}}}
    pupil = recipe.put({"augment.kind": "standard", **taught})
    (tmp_path / "teacher").mkdir()
    list(train(Run(pupil.teacher_recipe, 0), tmp_path / "teacher"))
    parents = {"teacher": tmp_path / "teacher" / WEIGHTS}
    training = Training(Run(pupil, 0), "cpu", parents, SINGLE, Reading())
    assert training.objective.teacher_labels is None
    seen = []
    asked, learnt = training.teacher.__call__, training.normalize.forward
    training.teacher = lambda pixels: seen.append(("teacher", pixels.clone())) or asked(pixels)
    training.normalize.forward = lambda pixels: seen.append(("student", pixels.clone())) or learnt(pixels)
    training.learn(1)
    assert [who for who, _ in seen[:4]] == ["teacher", "student"] * 2
    for (_, one), (_, other) in zip(seen[::2], seen[1::2], strict=True):
        assert torch.equal(one, other)


ROOT = Path(__file__).parents[4]


def outcome(name):
    done = subprocess.run(
        [sys.executable, "-m", "tests.rooms.trainables.training.compiled_runs", name],
        capture_output=True,
        text=True,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.timeout(900)  # a busy machine may need long to import the compiler
@pytest.mark.parametrize(
    ("name", "graphs"),
    [
        pytest.param("plain", 2, marks=[pytest.mark.slow, pytest.mark.gate]),
        pytest.param("in parts", 3, marks=pytest.mark.slow),
        pytest.param("drop path, an average, localization", 2, marks=pytest.mark.slow),
        pytest.param("float64", 2, marks=pytest.mark.slow),
    ],
)
def test_a_run_goes_on_compiled_or_not(name, graphs):
    """50 images in batches of 16: a full batch and one of 2; in three parts of 5, 5 and 6, and two of 1."""
    found = outcome(name)
    assert found["compiled first"] == found["compiled then"] == found["eager"]
    assert found["graphs, compiled first"] == found["graphs, compiled then"] == graphs
    assert found["names"][0] == found["names"][1] == found["names"][2]


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_runs_are_trained_as_one_compiled_or_not():
    found = outcome("as one")
    assert found["compiled"] == found["eager"]
    assert found["graphs"] == 2


CPU = torch.device("cpu")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux forgets a peak")
def test_the_peak_is_of_what_came_since():
    reset_peak(CPU)
    before = peak_gib(CPU)
    large = torch.ones(64 * 2**20)  # a quarter of a GiB
    high = peak_gib(CPU)
    assert before + 0.2 < high < before + 0.4
    del large
    reset_peak(CPU)
    assert peak_gib(CPU) < before + 0.1
    assert Path("/proc/self/status").exists()
