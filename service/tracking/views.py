"""The ways in: two shared views of a study's experiment, and their addresses.

MLflow's plain runs page shows one closed row and no numbers. A shared view is an experiment tag that the page reads
when its address names it: which rows, columns, order and groups. The tag's form is internal to MLflow's pages; a
browser test holds it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from search_spaces.study import Ablation, Study
from service.tracking.rows import STUDY
from service.tracking.store import Store
from trainables.recipe.outcome import at_image_size

PREFIX = "mlflow.sharedViewState."
TRAINING = "workflowType=machine_learning"
"""Asks MLflow's pages for the side bar of trainings."""
SECTION = "locus"
WIDTHS = {"params.`role": 110, "params.": 130, "_mean`": 155, "_std`": 125, "_n`": 105, "outcome`": 110, "reason`": 300}
"""The widths of columns, by a part of their names. Units: pixels."""


@dataclass(frozen=True)
class Links:
    """Addresses of a study: its trials, best first; its runs grouped by `trial`; the parent with the report."""

    trials: str
    runs: str
    parent: str


def links(store: Store, server: str) -> Links:
    """The addresses at an MLflow server, of a store that was looked up and holds the study."""
    page = f"{server.rstrip('/')}/#/experiments/{store.experiment}/runs"
    return Links(
        f"{page}?{TRAINING}&viewStateShareKey={quote(name(store.study, 'trials'))}",
        f"{page}?{TRAINING}&viewStateShareKey={quote(name(store.study, 'runs'))}",
        f"{page}/{store.shown[STUDY].id}?{TRAINING}",
    )


def name(id: str, level: str) -> str:
    """The name of a view, in letters that a tag may have."""
    return f"{id.replace('@', '.').replace('~', '.')}.{level}"


def views(id: str, study: Study) -> dict[str, str]:
    """The experiment's tags that hold both views, and MLflow's word for experiments that train."""
    return {
        "mlflow.experimentKind": "custom_model_development",
        f"{PREFIX}{name(id, 'trials')}": json.dumps(_trials(id, study)),
        f"{PREFIX}{name(id, 'runs')}": json.dumps(_runs(id, study)),
    }


def _trials(id: str, study: Study) -> dict[str, Any]:
    score, test = study.score.metric, study.score.test
    metrics = [f"{score}_mean", f"{score}_std", f"{score}_n", f"{test}_mean"]
    metrics += [f"{at_image_size(test, side)}_mean" for side in study.base.test_sizes]
    columns = [
        _column("params", "role"),
        *_varied(study),
        *(_column("metrics", metric) for metric in metrics),
        *_ends(),
    ]
    charts = [_chart(0, "LINE", f"{score}_mean"), _chart(1, "BAR", f"{test}_mean")]
    section = {"uuid": SECTION, "name": "mean over seeds", "display": True, "isReordered": False}
    view = _view(id, "trial", columns, _column("tags", "locus.rank"), ascending=True)
    unsmoothed = {"xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": ""}
    return view | {"compareRunCharts": charts, "compareRunSections": [section], "globalLineChartConfig": unsmoothed}


def _runs(id: str, study: Study) -> dict[str, Any]:
    metrics = [study.score.metric, study.score.test, "train/loss", "time/epoch_s"]
    columns = [
        _column("params", "seed"),
        *_varied(study),
        *(_column("metrics", metric) for metric in metrics),
        *_ends(),
    ]
    by_trial = {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": "trial"}]}
    return _view(id, "run", columns, _column("metrics", study.score.metric)) | {"groupBy": by_trial}


def _varied(study: Study) -> list[str]:
    paths = study.paths()
    kinds = ["encoding.kind"] if isinstance(study.plan, Ablation) and "encoding.kind" not in paths else []
    return [_column("params", path) for path in [*kinds, *paths]]


def _ends() -> list[str]:
    return [_column("tags", "locus.outcome"), _column("tags", "locus.reason")]


def _column(kind: str, key: str) -> str:
    return f"{kind}.`{key}`"


def _chart(number: int, kind: str, metric: str) -> dict[str, Any]:
    """A chart with a line or a bar a trial."""
    return {
        "type": kind,
        "uuid": f"{SECTION}-{number}",
        "metricSectionId": SECTION,
        "metricKey": metric,
        "selectedMetricKeys": [metric],
        "xAxisKey": "step",
        "lineSmoothness": 0,
        "runsCountToCompare": 20,
        "isGenerated": False,
        "deleted": False,
    }


def _view(id: str, level: str, columns: list[str], order: str, *, ascending: bool = False) -> dict[str, Any]:
    return {
        "searchFilter": f"tags.`locus.study` = '{id}' AND tags.`locus.level` = '{level}'",
        "orderByKey": order,
        "orderByAsc": ascending,
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {
            column: width for column in columns for end, width in reversed(WIDTHS.items()) if end in column
        },
    }
