"""Which figures a report has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import matplotlib as mpl

from service.reporting.figures.cost import cost
from service.reporting.figures.curves import data_sizes, learning_curves, size_curves
from service.reporting.figures.landscape import contour, landscape
from service.reporting.figures.league import critical_difference, performance_profiles
from service.reporting.figures.optimization_history import optimization_history
from service.reporting.figures.plot import Drawn, Plot, drawn
from service.reporting.figures.probes import (
    attention_distances,
    attention_weights,
    by_block,
    heat_maps,
    projected,
    shapes,
    similarity_maps,
    term_maps,
    terms_by_block,
)
from service.reporting.figures.rows import dots, forest
from service.reporting.figures.style import STYLE

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

FIGURES = (
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
"""Every kind of figure of a study's results, the most important first."""
PROBE_FIGURES = (
    similarity_maps,
    attention_distances,
    attention_weights,
    heat_maps,
    terms_by_block,
    term_maps,
    shapes,
    projected,
    by_block,
)
"""Every kind of figure of what the encodings know, in the order of a report."""


def figures(result: StudyResult, kinds: Sequence[Callable[[StudyResult], Plot | None]]) -> list[Drawn]:
    """Draws those kinds of figures for which a result has the numbers. Cost: about 0.3 s each."""
    with mpl.rc_context(STYLE):
        return [drawn(plot) for kind in kinds if (plot := kind(result)) is not None]
