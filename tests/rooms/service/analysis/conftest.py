"""Two studies, each written once for all tests that only read it."""

import pytest

from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ablated, searched


@pytest.fixture(scope="session")
def two_studies(tmp_path_factory) -> Home:
    """The home that has both."""
    home = Home(tmp_path_factory.mktemp("two"))
    searched(home.root)
    ablated(home.root)
    return home


@pytest.fixture(scope="session")
def search(two_studies) -> Result:
    return Result.open(two_studies, "reach@base")


@pytest.fixture(scope="session")
def ablation(two_studies) -> Result:
    return Result.open(two_studies, "encodings@base")
