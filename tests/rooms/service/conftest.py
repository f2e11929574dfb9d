"""What rooms of `service` share."""

from pathlib import Path

import pytest

from service.storage.home import Home


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """An empty home."""
    return Home(tmp_path)


@pytest.fixture
def words_only(monkeypatch) -> None:
    """Pages without figures, for tests of their words: the drawing takes four fifths of a page's time."""
    monkeypatch.setattr("service.reporting.page.figures", lambda *given: [])
