"""The door to MLflow, and how its client behaves in this process. This file imports no MLflow, which reads it later."""

import os


def set_up_client() -> None:
    """Sets what the user has not set: a server that does not answer is tried for a minute at most."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
