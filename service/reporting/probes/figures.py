"""Every figure of what the encodings know, in the order of a report."""

from __future__ import annotations

from typing import TYPE_CHECKING

import matplotlib as mpl

from service.reporting.figures.plot import Drawn, drawn
from service.reporting.figures.style import STYLE
from service.reporting.probes.attention import attention_distances, attention_weights, heat_maps
from service.reporting.probes.channels import by_block, projected, shapes
from service.reporting.probes.logit_terms import term_maps, terms_by_block
from service.reporting.probes.similarity import similarity_maps

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

KINDS = (
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


def probe_figures(result: StudyResult) -> list[Drawn]:
    """Every figure for which the probes are kept."""
    with mpl.rc_context(STYLE):
        return [drawn(plot) for kind in KINDS if (plot := kind(result)) is not None]
