"""Whether an address is that of an MLflow server: one real call, whose answer says more than a page that is there."""

from __future__ import annotations

from json import JSONDecodeError

from mlflow.exceptions import MlflowException
from mlflow.tracking._tracking_service.utils import get_default_host_creds
from mlflow.utils.rest_utils import http_request
from requests import RequestException, Response

ANSWER_S = 5
"""How long a server may take to answer."""
SEARCH = "/api/2.0/mlflow/experiments/search"
WORDS = 120
"""How much of a server's own words is repeated. Units: letters."""


def trouble(tracking: str) -> str:
    """What is wrong with a server, in words that follow its address; empty where it answers as MLflow does."""
    try:
        answer = http_request(
            get_default_host_creds(tracking), SEARCH, "GET", max_retries=0, timeout=ANSWER_S, raise_on_status=False,
            params={"max_results": 1},
        )  # fmt: skip
    except (MlflowException, RequestException):
        return f"does not answer ({ANSWER_S} s)"
    if answer.status_code == 401:
        return "asks who you are (error 401); set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD"
    if not answer.ok:
        return f"answers with the error {answer.status_code}{_words(answer)}"
    return "" if _is_object(answer) else "answers with a page, which is no MLflow (a login?)"


def _is_object(answer: Response) -> bool:
    try:
        return isinstance(answer.json(), dict)
    except (JSONDecodeError, RequestException):
        return False


def _words(answer: Response) -> str:
    """A server's own words about an error; a page has none."""
    text = answer.text.strip()
    plain = text.isprintable() and not text.startswith(("<", "{"))
    return f" ({text[:WORDS]})" if plain and text else ""
