"""Logs a trained model to the MLflow run that trained it, and registers it under a name.

The model is a graph of torch (`pt2`) with its normalization: MLflow loads it without locus, and runs no code of locus.
"""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from mlflow import pytorch
from mlflow.entities import LoggedModelOutput
from mlflow.exceptions import MlflowException
from mlflow.models import Model, ModelSignature
from mlflow.models.model import MLMODEL_FILE_NAME
from mlflow.tracking import MlflowClient
from mlflow.types import Schema, TensorSpec
from sqlalchemy.exc import SQLAlchemyError

from search_spaces.study import Edition
from search_spaces.words import without_sources
from service.analysis.trial_result import Training
from service.storage.home import Home, without_secrets
from service.tracking.databases import in_a_sentence
from service.tracking.rows import CODE, KEY
from service.tracking.store import Shown, look_up
from service.tracking.sync import check
from trainables.spec import LocusError

if TYPE_CHECKING:
    from trainables.training.trained import TrainedModel

NAME = "model"
"""The name of the logged model at its MLflow run."""


def find_run(home: Home, edition: Edition, tracking: str | None, training: Training) -> Shown:
    """Returns the MLflow run that shows a training: one of the same trial and seed, with the same key and code.

    Raises: LocusError if MLflow has no such run, or if it shows another training, because the study was trained again
    while this MLflow could not be reached, or was not used; MlflowError if MLflow cannot be used.
    """
    label, seed, key, code = training
    check(home, tracking)
    store = look_up(home, edition, tracking)
    run = store.shown.get(("run", label, seed)) if store else None
    if run is None or not {KEY: key, CODE: code}.items() <= run.tags.items():
        got = "none" if run is None else f"that of another training, by code {run.tags.get(CODE)}"
        uri = without_secrets(tracking or f"sqlite:///{home.database}")
        raise LocusError(
            f"MLflow at {uri} must have the run of #{label}, seed {seed}, of {edition.id} by code {code}, got {got}: "
            "run the study again, which sends it"
        )
    return run


def register(home: Home, tracking: str | None, run: Shown, name: str, model: TrainedModel) -> str:
    """Logs a model to a run, with signature and input example, registers it, and returns `models:/NAME/VERSION`.

    The model takes float32 from 0 (black) to 1 (white), of shape (N, channels, height, width), and returns its outputs.
    Raises: LocusError if torch cannot export the model; MlflowError if MLflow refuses something.
    """
    from trainables.training.trained import texts

    uri = tracking or home.tracking
    client = MlflowClient(tracking_uri=uri, registry_uri=uri)
    facts = texts(without_sources(model.facts.plain()))
    with tempfile.TemporaryDirectory(prefix="locus-model-") as folder:
        path = Path(folder) / NAME
        saved = Model(run_id=run.id, metadata=facts)
        _save(saved, path, model)
        try:
            try:
                client.create_registered_model(name)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
            tags = {f"locus.{part}": facts[part] for part in ("study", "trial", "seed", "key", "code")}
            logged = client.create_logged_model(run.experiment, NAME, run.id, tags)
            saved.artifact_path, saved.model_id = logged.artifact_location, logged.model_id
            saved.model_uuid = logged.model_id
            saved.save(str(path / MLMODEL_FILE_NAME))
            try:
                client.log_model_artifacts(logged.model_id, str(path))
            except Exception:  # a model without all of its files counts as failed there
                client.finalize_logged_model(logged.model_id, "FAILED")
                raise
            client.finalize_logged_model(logged.model_id, "READY")
            client.log_outputs(run.id, [LoggedModelOutput(logged.model_id, 0)])
            files = logged.artifact_location  # models:/ID would be looked up where $MLFLOW_TRACKING_URI says
            version = client.create_model_version(name, files, run.id, tags, model_id=logged.model_id)
        except (MlflowException, SQLAlchemyError) as error:
            raise in_a_sentence(error, tracking or f"sqlite:///{home.database}") from None
    return f"models:/{name}/{version.version}"


def _save(saved: Model, path: Path, model: TrainedModel) -> None:
    """Writes the folder that MLflow stores of a model. Raises: LocusError if torch cannot export the model."""
    import torch

    from trainables.training.model_file import made_floats

    images = made_floats(model)
    with torch.inference_mode():
        outputs = model(images).numpy()
    inputs = Schema([TensorSpec(np.dtype(np.float32), (-1, *images.shape[1:]))])
    signature = ModelSignature(inputs, Schema([TensorSpec(outputs.dtype, (-1, *outputs.shape[1:]))]))
    quiet = logging.getLogger("torch.export")
    level = quiet.level
    quiet.setLevel(logging.ERROR)
    try:
        pytorch.save_model(
            model, str(path), mlflow_model=saved, signature=signature, input_example=images.numpy(),
            pip_requirements=[f"torch=={torch.__version__.partition('+')[0]}"], serialization_format="pt2",
        )  # fmt: skip
        graph = torch.export.load(path / "data" / "model.pt2").module()
        three = torch.cat([images, images[:1]])  # a graph may hold the number of images that it was made of
        with torch.inference_mode():
            torch.testing.assert_close(graph(three), model(three))
    except Exception as error:  # torch raises what it meets while it traces the model: its own errors, a user's
        text = " ".join(str(error).split())[:200]
        must = "one that torch.export can trace for any number of images"
        raise LocusError(f"the model must be {must}, got {type(error).__name__}: {text}") from None
    finally:
        quiet.setLevel(level)
