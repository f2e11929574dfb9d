"""Studies and their pages, each written once for all tests that only read it."""

from dataclasses import dataclass
from pathlib import Path

import pytest

from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ablated, at_sides, searched
from tests.rooms.service.analysis.test_data_efficiency import studied


@dataclass(frozen=True)
class Reported:
    """A study's result and the path of its page."""

    result: Result
    page: Path


def reported(root: Path, make) -> Reported:
    result = Result.open(Home(root), make(root))
    return Reported(result, result.report())


@pytest.fixture(scope="session")
def reported_search(tmp_path_factory) -> Reported:
    return reported(tmp_path_factory.mktemp("search"), searched)


@pytest.fixture(scope="session")
def reported_ablation(tmp_path_factory) -> Reported:
    return reported(tmp_path_factory.mktemp("ablation"), ablated)


@pytest.fixture(scope="session")
def reported_sides(tmp_path_factory) -> Reported:
    return reported(tmp_path_factory.mktemp("sides"), at_sides)


@pytest.fixture(scope="session")
def reported_sizes(tmp_path_factory) -> Reported:
    """A study of data efficiency."""
    result = studied(tmp_path_factory.mktemp("sizes"))
    return Reported(result, result.report())


@pytest.fixture(scope="session")
def search(reported_search) -> Result:
    return reported_search.result


@pytest.fixture(scope="session")
def ablation(reported_ablation) -> Result:
    return reported_ablation.result
