"""A trained model in MLflow's registry: what MLflow loads, without locus, gives the numbers that the model gives."""

import subprocess
import sys

import mlflow
import numpy as np
import pytest
import torch
from mlflow.tracking import MlflowClient

from service.analysis.trial_result import Training
from service.storage.editions import save_edition
from service.tracking.databases import MlflowError
from service.tracking.registry import find_run, register
from tests.ports import held_port
from tests.rooms.service.tracking.facts import Facts, show
from trainables.data import MeanStd
from trainables.recipe import Run
from trainables.recipe.model_torch import build_model
from trainables.recipe.revisions import code_of
from trainables.spec import LocusError
from trainables.training.init import init_weights
from trainables.training.trained import Facts as ModelFacts
from trainables.training.trained import TrainedModel

LOADS = """
import json, sys
import mlflow, numpy
uri, place, folder = sys.argv[1:]
mlflow.set_tracking_uri(uri)
images = numpy.load(f"{folder}/images.npy")
numpy.save(f"{folder}/pyfunc.npy", mlflow.pyfunc.load_model(place).predict(images))
import torch
with torch.no_grad():
    numpy.save(f"{folder}/pytorch.npy", mlflow.pytorch.load_model(place)(torch.from_numpy(images)).numpy())
assert not [name for name in sys.modules if name.split(".")[0] in ("service", "trainables")]
"""


def training(facts: Facts) -> Training:
    """The training of the first run."""
    recipe = facts.edition.trial(0, {"encoding.gamma": 2.5}).recipe
    return Training("0", 0, Run(recipe=recipe, seed=0).key, code_of(recipe).digest)


def model_of(facts: Facts) -> TrainedModel:
    """The model of the first trial as it begins, on bytes that are normalized."""
    trial = facts.edition.trial(0, {"encoding.gamma": 2.5})
    recipe = trial.recipe.put({"data.normalize": MeanStd(mean=(0.5, 0.4, 0.6), std=(0.2, 0.3, 0.25))})
    host = build_model(recipe)
    init_weights(host, 3)
    said = ModelFacts(
        recipe=recipe, seed=0, classes=("left", "right"), image_size=recipe.data.size, white=255,
        normalize=recipe.normalize, averaged=False, scores={"val/accuracy": 0.75}, study=facts.edition.id,
        trial=trial.name, key="0123", code=code_of(trial.recipe).digest, locus="1",
    )  # fmt: skip
    return TrainedModel(said, host.state_dict())


@pytest.fixture
def images() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (5, 3, 32, 32), np.uint8)


def expected(model: TrainedModel, images: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(images)).numpy()


def test_the_run_of_a_training_is_that_of_its_key_and_its_code(home, small):
    with pytest.raises(LocusError, match=r"MLflow at sqlite:.* must have the run of #0, seed 0, of .*got none: run"):
        find_run(home, small.edition, None, training(small))
    show(home, small)
    assert find_run(home, small.edition, None, training(small)).tags["locus.key"] == training(small).key
    with pytest.raises(LocusError, match="#7, seed 0"):
        find_run(home, small.edition, None, training(small)._replace(label="7"))
    for other in ({"code": "0ther0ther00"}, {"key": "0" * 16}):
        known = training(small).code
        code = other.get("code", known)
        must = f"the run of #0, seed 0, of .* by code {code}, got that of another training, by code {known}: run"
        with pytest.raises(LocusError, match=must):
            find_run(home, small.edition, None, training(small)._replace(**other))


@pytest.mark.slow
@pytest.mark.gate
def test_a_registered_model_gives_the_same_numbers(home, small, images, tmp_path, monkeypatch):
    show(home, small)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    before = mlflow.get_tracking_uri()
    run, model = find_run(home, small.edition, None, training(small)), model_of(small)
    uris = [register(home, None, run, "left-right", model) for _ in range(2)]
    assert uris == ["models:/left-right/1", "models:/left-right/2"]
    assert (mlflow.get_tracking_uri(), [*elsewhere.iterdir()]) == (before, [])
    client = MlflowClient(home.tracking)
    version = client.get_model_version("left-right", "2")
    assert (version.run_id, version.tags["locus.key"], version.tags["locus.trial"]) == (run.id, "0123", "gamma=2.5")
    models = [client.get_logged_model(one.model_id) for one in client.get_run(run.id).outputs.model_outputs]
    (logged,) = (one for one in models if one.artifact_location == version.source)
    assert len(models) == 2
    assert (logged.status.name, logged.source_run_id) == ("READY", run.id)
    assert logged.artifact_location.startswith(home.artifacts.as_uri())
    loaded = mlflow.pyfunc.load_model(logged.artifact_location)
    floats = images.astype(np.float32) / 255
    for batch in (floats, floats[:1], loaded.input_example):
        assert np.array_equal(loaded.predict(batch), expected(model, batch))
    (taken,) = loaded.metadata.signature.inputs
    assert (taken.type, taken.shape) == (np.dtype(np.float32), (-1, 3, 32, 32))
    assert loaded.metadata.metadata["classes"] == '["left", "right"]'
    with pytest.raises(mlflow.exceptions.MlflowException, match="does not match expected dtype float32"):
        loaded.predict(images)
    with pytest.raises(MlflowError, match="answers with an error"):
        register(home, None, run, "no/such:name", model)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_another_process_loads_it_from_a_server(home, small, images, tmp_path):
    from service.tracking.server import server

    save_edition(small.edition, home)
    model = model_of(small)
    with held_port() as port, server(home, port):
        address = f"http://127.0.0.1:{port}"
        show(home, small, tracking=address)
        run = find_run(home, small.edition, address, training(small))
        place = register(home, address, run, "left-right", model)
        np.save(tmp_path / "images.npy", images.astype(np.float32) / 255)
        words = [sys.executable, "-c", LOADS, address, place, str(tmp_path)]
        done = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for name in ("pyfunc", "pytorch"):
        assert np.array_equal(np.load(tmp_path / f"{name}.npy"), expected(model, images))
