"""Where MLflow shows a study: its address, and the experiment.

Nobody's password stands in a log, a report or a list of processes.
"""

from __future__ import annotations

import os
import re
from urllib.parse import parse_qs, urlsplit

from service.storage.home import Home
from trainables.spec import SpecError

SECRETS = ("password", "passwd", "pwd", "token", "secret")
"""Parts of a query that hold a secret."""


def tracking_uri(given: str | None = None) -> str | None:
    """The URI of MLflow: as given, else $MLFLOW_TRACKING_URI; None for the store in the home.

    Raises: SpecError for a server's address with credentials, which MLflow takes from the environment.
    """
    found = given or os.environ.get("MLFLOW_TRACKING_URI")
    if found and found.startswith(("http://", "https://")) and has_secrets(found):
        raise SpecError(
            "the address of MLflow must hold no credentials, for it is printed and stored; set "
            "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD, or MLFLOW_TRACKING_TOKEN"
        )
    return found


def experiment_name(given: str | None = None) -> str | None:
    """The MLflow experiment that was chosen: as given, else $MLFLOW_EXPERIMENT_NAME; None if none was."""
    return given or os.environ.get("MLFLOW_EXPERIMENT_NAME") or None


def default_experiment(study: str) -> str:
    """The MLflow experiment of a study where none was chosen: a name that nobody else uses."""
    return f"locus/{study}"


def place_in_words(home: Home, id: str, tracking: str | None = None, experiment: str | None = None) -> str:
    """Where MLflow shows an edition of a study once it is run, as a plan says it. MLflow is not asked."""
    store = without_secrets(tracking) if tracking else str(home.database)
    folder = home.study(id)
    known = folder.experiment.read_text() if folder.experiment.exists() else default_experiment(id.partition("@")[0])
    return f"MLflow: {store}, experiment {experiment_name(experiment) or known}"


def has_secrets(uri: str) -> bool:
    """Whether an address names a user, or a secret in its query."""
    parts = urlsplit(uri)
    return "@" in parts.netloc or bool({*SECRETS} & {name.lower() for name in parse_qs(parts.query)})


def has_options(uri: str) -> bool:
    """Whether the URI of a storage has parts that may hold a secret: a query, a chain, a user (Azure: a container)."""
    parts = urlsplit(uri)
    user, at, _ = parts.netloc.rpartition("@")
    named = bool(at) and (":" in user or not parts.scheme.startswith("abfs"))
    return "::" in uri or bool(parts.query) or named


def without_secrets(text: str) -> str:
    """A text in which the password of every address is `***`."""
    text = re.sub(r"(://[^/\s:@]*):[^\s]*@", r"\1:***@", text)
    return re.sub(rf"([?&](?:{'|'.join(SECRETS)})=)[^&\s'\"]*", r"\1***", text, flags=re.IGNORECASE)
