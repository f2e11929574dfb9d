"""What rooms of `service` share."""

import pytest


@pytest.fixture
def words_only(monkeypatch) -> None:
    """Pages without figures, for tests of their words: the drawing takes four fifths of a page's time."""
    monkeypatch.setattr("service.reporting.page.figures", lambda *given: [])
