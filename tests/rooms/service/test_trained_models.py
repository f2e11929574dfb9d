"""A trained model: it predicts what its run was tested for; a file of it says what it is, and is read back."""

import json
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import safetensors
import torch
from PIL import Image
from typer.testing import CliRunner

import service
from service.analysis.trial_result import RunResult, TrialResult
from service.cli import app
from service.reporting.page import command, snippet
from service.results import Result
from service.storage.home import Home
from service.terminal.views import exported
from tests.rooms.photographs import CLASSES, SIDE, trained
from trainables import trusted
from trainables.data.splits_torch import load
from trainables.recipe import revisions
from trainables.spec import LocusError
from trainables.training.checkpoint import read, write
from trainables.training.loop import build_model_with_weights
from trainables.training.model_file import ONNX_NEEDS, write_model
from trainables.training.pictures import pixels
from trainables.training.trained import TrainedModel


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Home:
    return trained(tmp_path_factory.mktemp("photographs"))


@pytest.fixture(scope="module")
def result(home) -> Result:
    return service.result("pets", home=str(home.root))


@pytest.fixture(scope="module")
def tested(home) -> list[Path]:
    """The images of the run's own test."""
    return sorted(path for path in (home.root.parent / "pets/test").rglob("*.*"))


def test_predictions_on_the_test_images_are_the_runs_own(result, tested):
    truth = [path.parent.name for path in tested]
    assert {path.suffix for path in tested} == {".jpg", ".png"}
    scores = set()
    for row in result.rows:
        for seed, run in row.runs.items():
            found = row.predict(tested, seed)
            assert found.classes == CLASSES
            right = sum(label == name for label, name in zip(found.labels, truth, strict=True))
            assert right / len(truth) == run.final("test/accuracy")
            scores.add(right)
    assert len(scores) > 1, "scores that differ tell models apart"
    assert max(scores) < len(truth)
    best = result.best
    seeds = {seed: run.final("val/accuracy") for seed, run in best.runs.items()}
    assert best.best_seed == max(seeds, key=seeds.__getitem__)
    assert np.array_equal(best.predict(tested).outputs, best.predict(tested, best.best_seed).outputs)


def test_an_image_is_the_same_however_it_is_given(result, tested):
    model = result.best.trained()
    found = model.predict(tested)
    mean, std = torch.tensor([0.5, 0.4, 0.6]), torch.tensor([0.2, 0.3, 0.25])
    data = result.best.recipe.data
    images = load(data).test.images
    read = [pixels(str(path), path, data).numpy().tobytes() for path in tested]
    assert sorted(read) == sorted(image.numpy().tobytes() for image in images)
    own = model.predict(images)
    normalized = (images.double().permute(0, 2, 3, 1) / 255 - mean) / std
    with torch.no_grad():
        by_hand = result.best.model()(normalized.permute(0, 3, 1, 2).float()).softmax(dim=1)
    np.testing.assert_allclose(own.probabilities, by_hand, atol=1e-5)
    opened = [Image.open(path) for path in tested]
    sizes = [image.size for image in opened]
    assert np.array_equal(model.predict(opened).outputs, found.outputs)
    assert [image.size for image in opened] == sizes, "the images of a person stay as they are"
    assert np.array_equal(model.predict(opened).outputs, found.outputs)
    arrays = images.permute(0, 2, 3, 1).numpy()
    for same in (arrays, [*arrays], images.float() / 255, [*images]):
        assert np.array_equal(model.predict(same).outputs, own.outputs)
    whole = np.asarray(Image.open(tested[0]))
    assert whole.shape == (24, 20, 3)
    for one in (tested[0], str(tested[0]), whole, torch.from_numpy(whole.copy()).permute(2, 0, 1)):
        np.testing.assert_allclose(model.predict(one).outputs, found.outputs[:1], rtol=1e-4, atol=1e-4)
    assert np.array_equal(pickle.loads(pickle.dumps(model)).predict(opened).outputs, found.outputs)
    text = repr(found).splitlines()
    assert (len(text), text[-1]) == (12, "... and 35 more")
    assert text[1].split() == [str(tested[0]), found.labels[0], f"{found.probabilities[0].max():.4f}"]
    assert len(found) == len(found.table()) == 45


def test_a_model_for_images_of_any_size_can_be_pickled(result):
    for side in (SIDE, 2 * SIDE):
        model, images = result.best.model(image_size=side), torch.rand(2, 3, side, side)
        with torch.no_grad():
            assert torch.equal(pickle.loads(pickle.dumps(model))(images), model(images))


def test_a_model_has_the_weights_as_they_were_trained_also_in_float64(tmp_path):
    best = service.result("pets", home=str(trained(tmp_path, precision="float64").root)).best
    kept, model = read(best.weights[best.best_seed]), best.model()
    assert all(torch.equal(value, kept[name]) for name, value in model.state_dict().items())
    assert all(value.requires_grad for value in model.parameters())


def test_what_is_no_image_is_one_sentence(result, tested, tmp_path):
    model = result.best.trained()
    (tmp_path / "torn.png").write_bytes(tested[0].read_bytes()[:60])
    for given, said in (
        ([], "images must hold an image or more, got none"),
        (tmp_path / "no.png", "no.png must be an image that Pillow can read, got: .*No such file"),
        (tmp_path / "torn.png", "torn.png must be an image that Pillow can read"),
        (7, "images must be paths, Pillow images, arrays or tensors, got int"),
        ([None], "images must be paths, Pillow images, arrays or tensors, got NoneType"),
        (np.zeros((4, 4)), r"images must be of 3 axes, or of 4 if they are several, got \(4, 4\)"),
        ([np.zeros((2, 4, 4, 3))], r"each image of a list must be of 3 axes, got \(2, 4, 4, 3\)"),
        (np.zeros((4, 4, 3)), r"image 0 must be of bytes \(uint8\), got float64"),
        (np.zeros((3, 8, 8), np.uint8), r"image 0 must be of 1, 3 or 4 channels, the last axis, got \(3, 8, 8\)"),
        (np.zeros((0, 8, 3), np.uint8), r"image 0 must be of one row and one column or more, got \(0, 8, 3\)"),
        (torch.zeros(3, 8, 8), r"image 0 must be of shape \(3, 16, 16\) where it has floats .*, got \(3, 8, 8\)"),
        (torch.full((3, 16, 16), 1.5), r"floats of image 0 must be from 0 \(black\) to 1 \(white\), .*got 1.5 to 1.5"),
        ([torch.zeros(3, 16, 16), tested[0]], "images must all be floats, or all be pictures or bytes, got both"),
    ):
        with pytest.raises(LocusError, match=said):
            model.predict(given)


def test_a_file_says_what_it_is_and_is_read_back(home, result, tested, tmp_path):
    best = result.best
    expected = best.predict(tested).outputs
    for ending in ("pt", "safetensors"):
        path = service.export_model("pets", tmp_path / f"best.{ending}", home=str(home.root))
        model = service.load_model(path)
        assert np.array_equal(model.predict(tested).outputs, expected)
        facts, run = model.facts, best.runs[best.best_seed]
        assert (facts.recipe, facts.seed, facts.trial) == (best.recipe, best.best_seed, best.name)
        assert (facts.key, facts.code, facts.study) == (run.run.key, run.code, "pets@base")
        assert (facts.classes, facts.image_size, facts.white) == (CLASSES, (3, SIDE, SIDE), 255)
        assert facts.normalize == best.recipe.data.normalize
        assert facts.scores == {name: run.final(name) for name in ("val/accuracy", "test/accuracy")}
        with pytest.raises(LocusError, match=f"must have the run of #{best.trial.label}, seed {best.best_seed}"):
            best.run_id
    with safetensors.safe_open(tmp_path / "best.safetensors", "pt") as file:
        said = file.metadata()
        assert {*file.keys()} == {*best.model().state_dict()}
    assert json.loads(said["recipe"]) == best.recipe.plain()
    assert (said["key"], json.loads(said["classes"])) == (facts.key, [*CLASSES])
    held = torch.load(tmp_path / "best.pt", weights_only=True)
    assert held["metadata"] == said
    again = tmp_path / "again.pt"
    write_model(again, service.load_model(tmp_path / "best.safetensors"))
    assert np.array_equal(service.load_model(again).predict(tested).outputs, expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["again.pt", "best.pt", "best.safetensors"]


OWN = """
from pydantic import Field
from trainables.encodings import CodeSpec, Param, normal


class Ramp(CodeSpec):
    kind: str = Field(default="ramp_of_mine.py:Ramp", init=False)

    def params(self, dim, grid):
        return {"slope": Param((dim,), normal(0.5))}

    def code(self, p, at):
        return at.prefixed(at.y[:, None] * p("slope"))
"""


def test_a_file_that_would_predict_otherwise_or_run_code_is_refused(result, tmp_path):
    path = tmp_path / "best.pt"
    write_model(path, result.best.trained())
    held = torch.load(path, weights_only=True)

    def changed(change) -> Path:
        other = {"state_dict": dict(held["state_dict"]), "metadata": dict(held["metadata"])}
        change(other)
        torch.save(other, tmp_path / "other.pt")
        return tmp_path / "other.pt"

    for change in (
        lambda one: one["metadata"].update(
            recipe=one["metadata"]["recipe"].replace('"coordinates": "raw"', '"coordinates": "unit"')
        ),
        lambda one: one["metadata"].update(white="128"),
        lambda one: one["state_dict"].update({"head.weight": 1.1 * one["state_dict"]["head.weight"]}),
    ):
        with pytest.raises(
            LocusError, match="must compute what it did when it was written, got other outputs: read it"
        ):
            service.load_model(changed(change))
    with pytest.raises(LocusError, match="must be a model that locus exported, got a file without its recipe"):
        service.load_model(changed(lambda one: one.pop("metadata")))
    path.write_bytes(path.read_bytes()[:-500])
    with pytest.raises(LocusError, match=r"best.pt is damaged"):
        service.load_model(path)
    for name, said in (("no.pt", "no such file"), ("best.bin", r"must end in .pt or .safetensors to be read back")):
        with pytest.raises(LocusError, match=said):
            service.load_model(tmp_path / name)
    (tmp_path / "torn.safetensors").write_bytes(b"no")
    with pytest.raises(LocusError, match="must be a file of safetensors, got a damaged one"):
        service.load_model(tmp_path / "torn.safetensors")
    recipe = result.best.recipe.put({"encoding": {"kind": "ramp_of_mine.py:Ramp", "source": OWN}})
    facts = result.best.trained().facts.model_copy(update={"recipe": recipe})
    write_model(tmp_path / "own.pt", TrainedModel(facts, build_model_with_weights(recipe, 0).state_dict()))
    assert service.load_model(tmp_path / "own.pt").facts.recipe == recipe, "it was run here before"
    held = torch.load(tmp_path / "own.pt", weights_only=True)
    held["metadata"]["recipe"] = held["metadata"]["recipe"].replace("normal(0.5)", "normal(0.25)")
    torch.save(held, tmp_path / "other.pt")
    before = trusted.known()
    said = r"other.pt carries the code of ramp_of_mine.py, which was not run here before: trust=True runs it"
    with pytest.raises(LocusError, match=said):
        service.load_model(tmp_path / "other.pt")
    assert trusted.known() == before
    assert "normal(0.25)" in service.load_model(tmp_path / "other.pt", trust=True).facts.recipe.encoding.source


RUN = CliRunner()


def test_the_command_writes_the_model_that_it_names(home, result, tmp_path, monkeypatch):
    at, path = ["--home", str(home.root)], tmp_path / "best.pt"
    done = RUN.invoke(app, ["export", "pets", "--model", str(path), *at])
    assert (done.exit_code, done.stdout.strip()) == (0, str(path)), done.output
    best = result.best
    assert f"study pets@base, “{best.name}”, seed {best.best_seed}: val/accuracy 0." in done.stderr
    assert "in: images of shape (N, 3, 16, 16), float32 from 0 (black) to 1 (white)\n" in done.stderr
    assert "out: shape (N, 3), logits of 3 classes: cat, dog, owl\n" in done.stderr
    before = path.read_bytes()
    words = {
        ("--model", str(path)): f"{path} must be a new file, got one that is there; --force replaces it",
        ("--model", "x.gguf"): "the file of a model must end in .pt or .safetensors or .onnx, got 'x.gguf'",
        ("--model", str(tmp_path / "no/x.pt")): "the model must go to a file that can be written, got",
        ("--model", str(path), "--csv"): "export must be told one of --csv, --latex, --figure, --model and --register",
        ("--csv", "--arm", "near"): "--arm, --seed, --ema and --force must stand beside --model or --register",
        ("--csv", "--ema"): "--arm, --seed, --ema and --force must stand beside --model or --register",
        ("--csv", "--all-seeds"): "--all-seeds must stand beside --model, and without --seed",
        ("--model", "x.pt", "--all-seeds", "--seed", "1"): "--all-seeds must stand beside --model, and without --seed",
        ("--model", "x.pt", "--all-seeds", "--ema"): "got seeds none: optimizer.ema_decay lets a run keep them",
        ("--model", "x.pt", "--ema"): "got seeds none: optimizer.ema_decay lets a run keep them",
        ("--model", "x.pt", "--to", "x"): "--to must stand beside --csv or --latex, got neither",
        ("--model", "x.pt", "--arm", "peg"): "the arm must be one of far, near, or the row of a trial of pets@base",
        ("--model", "x.pt", "--seed", "9"): "must hold seed 9, got seeds [0, 1]",
        ("--register", "pets"): "must have the run of #",
    }
    if not all(map(find_spec, ONNX_NEEDS)):
        words["--model", "x.onnx"] = "torch must have its exporter to write ONNX, got none: pip install onnx"
    monkeypatch.chdir(tmp_path)
    for asked, said in words.items():
        failed = RUN.invoke(app, ["export", "pets", *asked, *at])
        assert isinstance(failed.exception, LocusError), (asked, failed.output)
        assert said in str(failed.exception), asked
    assert [file.name for file in tmp_path.iterdir()] == ["best.pt"]
    assert path.read_bytes() == before
    for asked in (("--arm", "near", "--seed", "1"), ("--arm", "1", "--seed", "1")):
        done = RUN.invoke(app, ["export", "pets", "--model", str(path), "--force", *asked, *at])
        assert done.exit_code == 0, done.output
        facts = service.load_model(path).facts
        assert (facts.trial, facts.seed, facts.recipe.encoding.gamma) == ("near", 1, 0.5)
    done = RUN.invoke(app, ["export", "pets", "--model", "all.pt", "--arm", "near", "--all-seeds", *at])
    assert (done.exit_code, done.stdout) == (0, "all-seed0.pt\nall-seed1.pt\n"), done.output
    assert [service.load_model(tmp_path / f"all-seed{seed}.pt").facts.seed for seed in (0, 1)] == [0, 1]


def test_the_command_takes_the_moving_average_where_it_is_asked_for(home, tmp_path, monkeypatch):
    half, path, registered = tmp_path / "half.pt", tmp_path / "best.pt", []
    best = service.result("pets", home=str(home.root)).best
    weights = read(best.weights[0])
    write(half, {name: value * 0.5 if value.is_floating_point() else value for name, value in weights.items()})
    curve = {8: {"test/accuracy": 0.5, "test/accuracy_ema": 0.75}}
    monkeypatch.setattr(TrialResult, "_kept", lambda self, seed, ema: (0, half if ema else best.weights[0]))
    monkeypatch.setattr(RunResult, "curve", property(lambda self: curve))
    monkeypatch.setattr(Result, "register", lambda self, name, model, label: registered.append(model.facts) or name)
    for asked, name, factor in (((), "accuracy", 1), (("--ema",), "accuracy_ema", 0.5)):
        for to in (("--model", str(path), "--force"), ("--register", "pets")):
            done = RUN.invoke(app, ["export", "pets", *to, *asked, "--home", str(home.root)])
            assert done.exit_code == 0, done.output
            assert f"seed 0: test/{name} {curve[8][f'test/{name}']:.4f}" in done.stderr
        model = service.load_model(path)
        assert all(torch.equal(value, weights[name] * factor) for name, value in model.model.named_parameters())
        assert [facts.averaged for facts in (model.facts, registered[-1])] == [bool(asked)] * 2
        assert [*model.facts.scores] == [f"test/{name}"]


def test_averaged_weights_are_those_of_the_seed_with_their_highest_score(tmp_path):
    seeds = []
    for row in service.result("pets", home=str(trained(tmp_path, ema_decay=0.99).root)).rows:
        facts = row.trained(ema=True).facts
        other = row.trained(1 - facts.seed, ema=True).facts
        assert facts.scores["val/accuracy_ema"] >= other.scores["val/accuracy_ema"]
        seeds.append((facts.seed, row.best_seed))
    assert any(seed != last for seed, last in seeds), "the weights of the last step are best at another seed"


def test_the_scores_of_a_model_are_those_of_its_weights(home, monkeypatch, capsys):
    best = service.result("pets", home=str(home.root)).best
    place = seed, _ = best.best_seed, best.weights[best.best_seed]
    test = {"test/accuracy": 0.5, "test/accuracy_ema": 0.75}
    vars(best.runs[seed])["curve"] = {8: {"val/accuracy": 0.25, "val/accuracy_ema": 0.5, "train/loss": 1.0} | test}
    monkeypatch.setattr(TrialResult, "_kept", lambda self, seed, ema: place)
    said = []
    for ema, scores in (
        (False, {"val/accuracy": 0.25, "test/accuracy": 0.5}),
        (True, {"val/accuracy_ema": 0.5, "test/accuracy_ema": 0.75}),
    ):
        facts = best.trained(ema=ema).facts
        assert (facts.scores, facts.averaged) == (scores, ema)
        for decay in (None, 0.9):
            exported(facts.model_copy(update={"recipe": facts.recipe.put({"optimizer.ema_decay": decay})}))
            text = " ".join(capsys.readouterr().err.split())
            said.append(text.partition(f"seed {seed}")[2].partition(" in: ")[0])
    assert said[:2] == [
        ": val/accuracy 0.2500, test/accuracy 0.5000",
        ", its weights of the last step: val/accuracy 0.2500, test/accuracy 0.5000",
    ]
    assert said[3] == ", the moving average of its weights: val/accuracy_ema 0.5000, test/accuracy_ema 0.7500"


def test_weights_of_other_code_do_not_run_through_todays(home, tested, tmp_path, monkeypatch):
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    found, asked = service.result("pets", home=str(home.root)), {"home": str(home.root)}
    arm = found.of("trial")[0].name
    with pytest.raises(LocusError, match=r"^pets@base has no best trial: \d trials? not finished"):
        service.export_model("pets", tmp_path / "best.pt", **asked)
    for use in (
        found.trial(arm).model,
        lambda: found.trial(arm).predict(tested),
        lambda: service.export_model("pets", tmp_path / "best.pt", arm=arm, **asked),
        lambda: service.register_model("pets", "pets", arm=arm, **asked),
    ):
        with pytest.raises(LocusError, match=rf"^weights of {arm!r} must hold one kept, got seeds none"):
            use()
    assert not [*tmp_path.iterdir()]
    assert command(found) == ""


def test_the_lines_of_the_page_run_when_pasted(home, result, tmp_path, monkeypatch):
    names: dict = {}
    exec(snippet(result), names)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LOCUS_HOME", str(home.root))
    assert RUN.invoke(app, command(result).split()[1:]).exit_code == 0
    names["model"].load_state_dict(torch.load("best.pt")["state_dict"])
    images = torch.rand(3, 3, SIDE, SIDE)
    with torch.no_grad():
        torch.testing.assert_close(names["model"].eval()(images), result.best.model()(images))
