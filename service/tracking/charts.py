"""The charts of a shared view: what MLflow's chart page draws of a study, and nothing beside it.

MLflow makes a chart of its own for each metric that no chart names. A chart that is marked as deleted switches it off.
The form is internal to MLflow's pages; a browser test holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from search_spaces.space import Integer, Real
from search_spaces.study import Search, Study
from service.tracking.mean_curve import TRAIN_S
from trainables.recipe.outcome import at_image_size, of_ema

SECTION = "locus"
MOST_PATHS = 8
"""The greatest number of paths with a chart each: an experiment's tag holds 20,000 letters."""
MOST_RUNS = 500
"""How many runs a chart draws at most."""

SEED_METRICS = ("train/loss", "train/images_per_s", "time/epoch_s", TRAIN_S, "memory/peak_gib")

Chart = dict[str, Any]


def trial_charts(study: Study, shown: Iterable[str]) -> dict[str, Any]:
    """Mean curves, each path against the score, the paths together, and what an answer costs.

    `shown`: the metrics that MLflow has of trials.
    """
    score, test = f"{study.score.metric}_mean", f"{study.score.test}_mean"
    charts = [_line(score), _bar(test)]
    if isinstance(study.plan, Search):
        paths = list(study.plan.space.domains)[:MOST_PATHS]
        charts.append({"type": "PARALLEL", "selectedParams": paths, "selectedMetrics": [score], "showAllRuns": True})
        charts += [_scatter(_param(path), score) for path in paths]
        charts += [_contour(pair[0], pair[1], score) for pair in [_numbers(study.plan)[:2]] if len(pair) == 2]
    charts += [_scatter(_metric(TRAIN_S), score), _scatter(_param("parameters"), score)]
    return _page("mean over seeds", charts, {*mean_metrics(study), *shown})


def run_charts(study: Study, shown: Iterable[str]) -> dict[str, Any]:
    """Curves over the epochs; where runs are grouped, their mean with a band. `shown`: MLflow's metrics of runs."""
    charts = [_line(study.score.metric), _line("train/loss"), _bar(study.score.test), _bar(TRAIN_S)]
    return _page("curves", charts, {*SEED_METRICS, *_scores(study), *shown})


def mean_metrics(study: Study) -> list[str]:
    """The metrics of a trial: every score's mean, standard deviation and number of seeds, and the time."""
    return [f"{name}_{end}" for name in _scores(study) for end in ("mean", "std", "n")] + [TRAIN_S]


def _scores(study: Study) -> list[str]:
    names = [study.score.metric, study.score.test]
    names += [of_ema(name) for name in names]
    return names + [at_image_size(study.score.test, side) for side in study.base.test_sizes]


def _numbers(plan: Search) -> list[str]:
    """The paths of a search that every point has and whose values are numbers."""
    return [path for path, domain in plan.space.domains.items() if isinstance(domain, Real | Integer)]


def _page(name: str, charts: list[Chart], metrics: set[str]) -> dict[str, Any]:
    drawn = {chart.get("metricKey") for chart in charts}
    off = [
        {"type": "LINE", "metricKey": metric, "isGenerated": True, "deleted": True}
        for metric in sorted(metrics)
        if metric not in drawn
    ]
    every = [
        {"uuid": f"{SECTION}-{number}", "metricSectionId": SECTION, "isGenerated": False, "deleted": False, **chart}
        for number, chart in enumerate([*charts, *off])
    ]
    section = {"uuid": SECTION, "name": name, "display": True, "isReordered": False, "deleted": False}
    return {
        "compareRunCharts": every,
        "compareRunSections": [section],
        "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": ""},
        "runsHiddenMode": "SHOW_ALL",
        "useGroupedValuesInCharts": True,
    }


def _param(key: str) -> dict[str, str]:
    return {"key": key, "type": "PARAM"}


def _metric(key: str) -> dict[str, str]:
    return {"key": key, "type": "METRIC"}


def _line(metric: str) -> Chart:
    unsmoothed = {"xAxisKey": "step", "lineSmoothness": 0, "useGlobalXaxisKey": True, "useGlobalLineSmoothing": True}
    return _drawn("LINE", metric) | unsmoothed


def _bar(metric: str) -> Chart:
    return _drawn("BAR", metric)


def _drawn(kind: str, metric: str) -> Chart:
    return {"type": kind, "metricKey": metric, "selectedMetricKeys": [metric], "runsCountToCompare": MOST_RUNS}


def _scatter(across: dict[str, str], metric: str) -> Chart:
    return {"type": "SCATTER", "xaxis": across, "yaxis": _metric(metric), "runsCountToCompare": MOST_RUNS}


def _contour(across: str, up: str, metric: str) -> Chart:
    axes = {"xaxis": _param(across), "yaxis": _param(up), "zaxis": _metric(metric)}
    return {"type": "CONTOUR", **axes, "runsCountToCompare": MOST_RUNS}
