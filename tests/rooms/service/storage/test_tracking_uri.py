"""Addresses of MLflow: credentials are refused where MLflow needs none in them, and hidden where it does."""

import pytest

from service.analysis.study_result import StudyResult
from service.storage.home import Home, has_options, has_secrets, tracking_uri, without_secrets
from service.tracking.store import MlflowError
from service.tracking.sync import check
from tests.rooms.by_hand import ablated
from trainables.spec import SpecError

SECRET = "s3cret"


@pytest.mark.parametrize(
    "uri", [f"https://bob:{SECRET}@mlflow", f"https://{SECRET}@mlflow:443/x", f"http://mlflow/?password={SECRET}"]
)
def test_a_server_with_credentials_is_refused_and_they_are_not_repeated(uri, monkeypatch):
    with pytest.raises(SpecError, match=r"must hold no credentials.*MLFLOW_TRACKING_PASSWORD") as info:
        tracking_uri(uri)
    assert SECRET not in str(info.value)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
    with pytest.raises(SpecError, match="no credentials"):
        tracking_uri()


def test_other_addresses_stay_as_they_are() -> None:
    for uri in ["https://mlflow:5000/x", "sqlite:///runs/a@b/mlflow.db", "http://127.0.0.1:5000/?a=b"]:
        assert tracking_uri(uri) == uri
        assert not has_secrets(uri)
        assert without_secrets(uri) == uri


def test_the_password_of_a_database_is_hidden() -> None:
    for text, shown in [
        (f"postgresql://bob:{SECRET}@host/db", "postgresql://bob:***@host/db"),
        (f"postgresql+psycopg2://bob:{SECRET}@h:5432/db?x=1", "postgresql+psycopg2://bob:***@h:5432/db?x=1"),
        (f"mysql://bob:{SECRET}/@host", "mysql://bob:***@host"),
        (f"no postgresql://h/db?user=bob&password={SECRET} now", "no postgresql://h/db?user=bob&password=*** now"),
        (f"postgresql://bob:p@{SECRET}@host/db", "postgresql://bob:***@host/db"),
    ]:
        assert without_secrets(text) == shown


def test_neither_an_error_nor_a_result_shows_it(tmp_path):
    with pytest.raises(MlflowError, match="got 'postgre://bob:") as info:
        check(Home(tmp_path), f"postgre://bob:{SECRET}@host/db")
    assert SECRET not in str(info.value)
    result = StudyResult.open(Home(tmp_path), ablated(tmp_path), f"postgresql://bob:{SECRET}@host/db")
    assert result.mlflow_url == "postgresql://bob:***@host/db"


def test_a_storage_has_no_part_that_may_hold_a_secret() -> None:
    for uri, has in [
        ("s3://bucket/locus", False),
        ("abfs://container@account.dfs.core.windows.net/locus", False),
        ("abfs://user:word@account/locus", True),
        ("s3://key:word@bucket/locus", True),
        ("s3://key@bucket/locus", True),
        ("simplecache::s3://key:word@bucket/locus", True),
        ("s3://bucket/locus?aws_secret_access_key=word", True),
    ]:
        assert has_options(uri) is has
