"""The only room that uses MLflow. This file sets options of MLflow's client, and does not import it."""

import os


def set_up_client() -> None:
    """Sets the client's options that the user has not set: it tries a silent server for a minute at most."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_TIMEOUT", "20")
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
