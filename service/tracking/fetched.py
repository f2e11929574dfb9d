"""Fetches the archive of a result from the MLflow server that a driver sent it to."""

from __future__ import annotations

import logging
import tempfile
from pathlib import Path

from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from service.tracking.sync import answers


def file_of(tracking: str, run: str, name: str) -> bytes | None:
    """An artifact of an MLflow run; None where this machine does not see the server, or the server has no such file."""
    logging.getLogger("mlflow").setLevel(logging.ERROR)
    if not answers(tracking):
        return None
    with tempfile.TemporaryDirectory(prefix="locus-fetched-") as folder:
        try:
            path = MlflowClient(tracking_uri=tracking).download_artifacts(run, name, folder)
            return Path(path).read_bytes()
        except (MlflowException, OSError):
            return None
