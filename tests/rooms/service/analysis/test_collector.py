"""Python's collector looks rarely while a result is read, and as before afterwards."""

import gc

import pytest

from service.analysis.collector import NEW_OBJECTS, collecting_rarely


@pytest.fixture(autouse=True)
def restored():
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


@pytest.mark.parametrize(("before", "inside"), [(700, NEW_OBJECTS), (2 * NEW_OBJECTS, 2 * NEW_OBJECTS), (0, 0)])
def test_it_looks_rarely_and_then_as_before(before, inside) -> None:
    """Who has turned the collector off, or lets it look more rarely still, keeps that."""
    gc.set_threshold(before, 11, 12)
    with collecting_rarely():
        assert gc.get_threshold()[0] == inside
    assert gc.get_threshold() == (before, 11, 12)
