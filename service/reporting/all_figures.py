"""Which figures a report has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

from service.reporting.figures.cost import cost
from service.reporting.figures.critical_difference import critical_difference
from service.reporting.figures.curves import learning_curves
from service.reporting.figures.data_sizes import data_sizes
from service.reporting.figures.dots import dots
from service.reporting.figures.forest import forest
from service.reporting.figures.image_sizes import size_curves
from service.reporting.figures.performance_profiles import performance_profiles
from service.reporting.figures.plot import Drawn, drawn
from service.reporting.figures.search.contour import contour
from service.reporting.figures.search.landscape import landscape
from service.reporting.figures.search.optimization_history import optimization_history
from service.reporting.figures.style import STYLE

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

KINDS = (
    critical_difference,
    performance_profiles,
    landscape,
    contour,
    optimization_history,
    data_sizes,
    dots,
    forest,
    size_curves,
    cost,
    learning_curves,
)
"""Every kind of figure, the most important first."""


def figures(result: StudyResult) -> list[Drawn]:
    """Every figure that the numbers allow. Cost: about 0.3 s each."""
    with mpl.rc_context(STYLE):
        return [drawn(plot) for kind in KINDS if (plot := kind(result)) is not None]
