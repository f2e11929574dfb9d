"""Code that changes between two commands."""

import pytest

from trainables.encodings import Fourier


@pytest.fixture
def other_code(monkeypatch):
    """Gives Fourier features another revision from here on."""
    return lambda: monkeypatch.setattr(Fourier, "REVISION", Fourier.REVISION + 1)
