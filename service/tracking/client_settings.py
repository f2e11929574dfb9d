"""How MLflow's client behaves in this process. It imports no MLflow, which reads a part of this when it is imported."""

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
