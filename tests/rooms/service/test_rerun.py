"""One run again, compared number by number: really trained, tiny."""

from functools import partial
from pathlib import Path

import pytest

from service.consistency import rerun
from service.storage.home import Home
from service.storage.outcomes import Answered, Outcomes, read_answer
from trainables.backbones import ViT
from trainables.recipe import FromTrial, Recipe, Run, TaughtByTrial
from trainables.recipe.outcome import Completed, Diverged, Measurement
from trainables.recipe.revisions import Code, code_of
from trainables.spec import LocusError

TINY = Recipe().put(
    {
        "data.image_size": 16, "data.train_size": 60, "data.val_size": 20, "data.test_size": 20, "model.embed_dim": 16,
        "model.num_heads": 2, "optimizer.epochs": 2, "optimizer.batch_size": 25, "encoding.kind": "fourier",
    }
)  # fmt: skip


def answer(home: Home, run: Run, **parents: Path) -> Answered:
    """Trains a run and keeps its answer, as a driver does."""
    from trainables.training.loop import train
    from trainables.training.runtime import environment, runtime

    folder = home.root / "work" / run.key
    folder.mkdir(parents=True)
    with runtime(1, run.recipe.optimizer.precision):
        said = list(train(run, folder, parents=parents))
        found = environment("cpu")
    curve = tuple(one for one in said if isinstance(one, Measurement))
    last = said[-1]
    outcome = Diverged(epoch=last.epoch, curve=curve) if isinstance(last, Diverged) else Completed(curve=curve)
    answered = Answered(run=run, code=code_of(run.recipe), outcome=outcome, environment=found)
    Outcomes(home).put(answered, folder / "weights.pt" if isinstance(outcome, Completed) else None)
    return answered


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Home:
    home = Home(tmp_path_factory.mktemp("home"))
    answer(home, Run(TINY, 3))
    return home


def test_a_run_gives_its_numbers_again_bit_for_bit(home: Home) -> None:
    heard: list[str] = []
    done = rerun(home, Run(TINY, 3).key[:6], heard.append)
    assert done.equal
    assert (done.key, done.ending, done.changed) == (Run(TINY, 3).key, "completed", [])
    assert done.compared == 2 * 2 + 1, "loss and validation an epoch, one test; no clocks"
    assert heard == ["trained again on cpu with threads 1", "epoch 1/2", "epoch 2/2"]


def edited(home: Home, root: Path, **environment) -> tuple[Home, str]:
    """A home with one outcome, some of its environment changed."""
    known = read_answer(next(home.outcomes.glob(f"{Run(TINY, 3).key}/*.json")))
    changed = known.model_copy(update={"environment": known.environment | environment, "weights": {}})
    Outcomes(Home(root)).put(changed, None)
    return Home(root), known.run.key


@pytest.mark.parametrize("count", [2, 1])
def test_threads_are_those_of_the_run_and_set_back(home: Home, tmp_path: Path, count: int) -> None:
    import torch

    before, threads = torch.get_num_threads(), []
    changed, key = edited(home, tmp_path, threads=count)
    rerun(changed, key, lambda line: line.startswith("epoch") and threads.append(torch.get_num_threads()))
    assert threads == [count, count]
    assert torch.get_num_threads() == before


@pytest.mark.slow
@pytest.mark.gate
def test_a_compiled_run_is_compiled_again(home: Home, tmp_path: Path, monkeypatch) -> None:
    from trainables.training.optional import compiled as compilation

    by_torch = partial(compilation.compiled, backend="eager")  # computes the same numbers to the last bit
    calls: list[str] = []
    monkeypatch.setattr(compilation, "compiled", lambda module: calls.append("compiled") or by_torch(module))
    changed, key = edited(home, tmp_path, compile=True)
    assert rerun(changed, key, calls.append).equal
    assert calls[:2] == ["trained again on cpu with threads 1, compiled", "compiled"]


def test_a_batch_is_computed_in_as_many_parts_again(home: Home, tmp_path: Path) -> None:
    """A run whose GPU was too small for the recipe's parts; in other parts the last digits are others."""
    changed, key = edited(home, tmp_path, accumulate=5)
    differences = rerun(changed, key).differences
    assert {gap.name for gap in differences} >= {"train/loss"}
    assert all(abs(gap.now - gap.before) < 1e-6 for gap in differences if gap.name == "train/loss")


def test_another_environment_is_reported_and_another_device_refused(home: Home, tmp_path: Path) -> None:
    changed, key = edited(home, tmp_path / "torch", torch="1.0", workers=2)
    lines: list[str] = []
    assert rerun(changed, key, lines.append).equal
    assert lines[1].startswith("torch was 1.0, is ")
    assert lines[2] == "trained by 2 workers before, now by one; the last digits may differ"
    changed, key = edited(home, tmp_path / "device", device="NVIDIA H100 80GB HBM3 (of a test)")
    why = rf"^{key} was trained on NVIDIA H100 80GB HBM3 \(of a test\): a rerun must be on a machine with one, got "
    with pytest.raises(LocusError, match=why):
        rerun(changed, key)


def test_a_number_that_does_not_come_out_again_is_named(home: Home, tmp_path: Path) -> None:
    known = read_answer(next(home.outcomes.glob(f"{Run(TINY, 3).key}/*.json")))
    first, last = known.outcome.curve
    before = last.values["train/loss"]
    other = last.model_copy(update={"values": {**last.values, "train/loss": before + 1e-12}})
    code = Code({**known.code.revisions, "ViT": 0})
    Outcomes(Home(tmp_path)).put(
        known.model_copy(update={"code": code, "outcome": Completed(curve=(first, other))}), None
    )
    done = rerun(Home(tmp_path), known.run.key)
    assert [(gap.epoch, gap.name, gap.now) for gap in done.differences] == [(2, "train/loss", before)]
    assert done.changed == [f"ViT {ViT.REVISION}, not 0"]


def test_a_divergence_comes_again(home: Home) -> None:
    run = Run(TINY.put({"optimizer.lr": 1e30, "optimizer.clip_grad": None, "optimizer.schedule": "constant"}), 0)
    assert answer(home, run).outcome.kind == "diverged"
    done = rerun(home, run.key)
    assert (done.equal, done.ending) == (True, "diverged")


@pytest.mark.parametrize(
    ("use", "values"),
    [
        ("init", {"init": FromTrial(values={"data.task": "absolute"}, part="encoding")}),
        ("teacher", {"model.pool": "distilled", "teacher": TaughtByTrial(values={"optimizer.lr": 0.02})}),
    ],
)
def test_a_child_is_trained_from_its_parents_weights_a_pupil_by_its_teacher(home: Home, use: str, values) -> None:
    child = Run(TINY.put(values), 3)
    parent = answer(home, child.needs()[0])
    weights = Outcomes(home).weights(parent.run.key, parent.name)
    answer(home, child, **{use: weights})
    assert rerun(home, child.key).equal
    weights.unlink()
    why = rf"the weights of the parent {parent.run.key} of {child.key} are gone or damaged; run its study again"
    with pytest.raises(LocusError, match=why):
        rerun(home, child.key)


def test_a_child_is_trained_from_the_weights_that_its_own_code_trained(home: Home, tmp_path: Path) -> None:
    """Somebody edits the loop, trains the parent for another study, and undoes the edit."""
    child = Run(TINY.put({"init": FromTrial(values={"data.task": "absolute"}, part="backbone")}), 4)
    parent, here, outcomes = child.needs()[0], Home(tmp_path), Outcomes(Home(tmp_path))
    known = answer(here, parent)
    weights = outcomes.weights(parent.key, known.name)
    answer(here, child, init=weights)
    edited = Code({**known.code.revisions, "loop": 0})
    other = answer(Home(tmp_path / "other"), Run(parent.recipe, 5))
    newest = known.model_copy(update={"code": edited, "ended": known.ended + 1})
    outcomes.put(newest, Outcomes(Home(tmp_path / "other")).weights(other.run.key, other.name))
    heard: list[str] = []
    assert rerun(here, child.key, heard.append).equal
    assert not any("started from" in line for line in heard)

    weights.unlink()
    assert rerun(here, child.key, heard.append).differences
    said = f"{child.key} started from weights of its parent {parent.key} that are gone, now from the newest"
    assert f"{said}; numbers may differ" in heard
