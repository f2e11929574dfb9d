"""The door to MLflow, and how its client behaves in this process. This file imports no MLflow, which reads it later."""

import os

SETTINGS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
}
"""A server that does not answer is tried for a minute at most; what was not sent is kept and sent later."""


def set_up_client() -> None:
    """Sets what the user has not set."""
    for name, value in SETTINGS.items():
        os.environ.setdefault(name, value)
