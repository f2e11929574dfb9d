"""Figures are drawn in the style of a page."""

import matplotlib as mpl
import pytest

from service.reporting.figures.plot import STYLE


@pytest.fixture(autouse=True)
def _style():
    with mpl.rc_context(STYLE):
        yield
