"""A study's part of its experiment: three named views with charts and addresses, and its description.

MLflow's plain runs page shows one closed row and no numbers. A shared view is a tag of the experiment: MLflow lists it
under "Views", and the page opens it where its address names it. It says which rows, columns, order, groups and charts.
MLflow makes a chart of its own for each metric that no chart names. A chart that is marked as deleted switches it off.
The tag's form is internal to MLflow's pages; a browser test holds it.

Editions of a study share an experiment, and so do homes on one server. Its description is made of what the tags of the
views say of their studies. A description that locus did not write stays as it is.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from search_spaces.space import Integer, Real
from search_spaces.study import Ablation, Edition, Search, Study
from service.tracking.row_contents import TRAIN_S, experiment_note
from service.tracking.rows import STUDY
from service.tracking.store import HOME, NOTE, WRITTEN, Store, fingerprint, letters
from trainables.recipe.outcome import at_image_size, of_ema

SECTION = "locus"
MOST_PATHS = 8
"""The greatest number of paths with a chart each: an experiment's tag holds 20,000 letters."""
MOST_RUNS = 500
"""How many runs a chart draws at most."""

SEED_METRICS = ("train/loss", "train/images_per_s", "time/epoch_s", TRAIN_S, "memory/peak_gib")

Chart = dict[str, Any]


def trial_charts(study: Study, shown: Iterable[str]) -> dict[str, Any]:
    """Returns means, each path against the score, the paths together, and what an answer costs.

    `shown`: the metrics that MLflow has of trials.
    """
    score, test = f"{study.score.metric}_mean", f"{study.score.test}_mean"
    charts = [_bar(score), _bar(test)]
    if isinstance(study.plan, Search):
        paths = list(study.plan.space.domains)[:MOST_PATHS]
        charts.append({"type": "PARALLEL", "selectedParams": paths, "selectedMetrics": [score], "showAllRuns": True})
        charts += [_scatter(_param(path), score) for path in paths]
        charts += [_contour(pair[0], pair[1], score) for pair in [_numbers(study.plan)[:2]] if len(pair) == 2]
    charts += [_scatter(_metric(TRAIN_S), score), _scatter(_param("parameters"), score)]
    return _page("mean over seeds", charts, {*mean_metrics(study), *shown})


def run_charts(study: Study, shown: Iterable[str]) -> dict[str, Any]:
    """Returns curves over the epochs; if runs are grouped, the mean with a band. `shown`: MLflow's metrics of runs."""
    charts = [_line(study.score.metric), _line("train/loss"), _bar(study.score.test), _bar(TRAIN_S)]
    return _page("curves", charts, {*SEED_METRICS, *_scores(study), *shown})


def mean_metrics(study: Study) -> list[str]:
    """Returns the metrics of a trial: every score's mean, standard deviation and number of seeds, and the time."""
    return [f"{name}_{end}" for name in _scores(study) for end in ("mean", "std", "n")] + [TRAIN_S]


def _scores(study: Study) -> list[str]:
    names = [study.score.metric, study.score.test]
    names += [of_ema(name) for name in names]
    return names + [at_image_size(study.score.test, side) for side in study.base.test_sizes]


def _numbers(plan: Search) -> list[str]:
    """Returns the paths of a search that every point has and whose values are numbers."""
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


PREFIX = "mlflow.sharedViewState."
TRAINING = "workflowType=machine_learning"
"""Asks MLflow's pages for the side bar of trainings."""
NAMES = {"trials": "trials, best first", "runs": "runs by trial", "flat": "runs, flat"}
"""What MLflow's menu calls the views, in its order."""
MEAN = 160
"""The width of a column in which MLflow writes means with all their digits. Units: pixels."""
WIDTHS = {"role": 115, "locus.score": 185, "locus.test": 185, "locus.outcome": 115, "locus.reason": 330}
"""The widths of columns that are wider than their heads. Units: pixels."""
LETTER, NARROW, WIDE = 8, 95, 230
"""The width of a letter of a head, and of the narrowest and the widest column. Units: pixels."""


@dataclass(frozen=True)
class Links:
    """Addresses of a study: its trials, best first; its runs by trial; its runs, flat; the parent with the report."""

    trials: str
    runs: str
    flat: str
    parent: str


def links(store: Store, server: str) -> Links:
    """Returns the addresses at an MLflow server, of a store that was looked up and holds the study."""
    page = f"{server.rstrip('/')}/#{runs_page(store.experiment)}"
    addresses = {level: f"{page}&viewStateShareKey={quote(name(store.home, store.study, level))}" for level in NAMES}
    parent = f"{page.partition('?')[0]}/{store.shown[STUDY].id}?{TRAINING}" if STUDY in store.shown else page
    return Links(**addresses, parent=parent)


def runs_page(experiment: str) -> str:
    """Returns the route of the runs page of an experiment, within MLflow's pages."""
    return f"/experiments/{experiment}/runs?{TRAINING}"


def name(home: str, id: str, level: str) -> str:
    """Returns the name of a view, in letters that a tag may have."""
    return f"{home}.{letters(id)}.{level}"


def views(home: str, id: str, study: Study, created: float, metrics: Mapping[str, set[str]]) -> dict[str, str]:
    """Returns the experiment's tags that hold the views.

    `home`: its id. `created`: when the study began, for MLflow's menu shows the newest view first. Units: seconds since
    1970.
    `metrics`: the metrics that MLflow has, by level.
    """
    trial, run = metrics.get("trial", set()), metrics.get("run", set())
    states = {"trials": _trials(id, study, trial), "runs": _runs(id, study, run), "flat": _flat(id, study, run)}
    tags: dict[str, str] = {}
    for behind, (level, state) in enumerate(states.items()):
        when = round(created * 1000) - behind
        view = {
            "name": f"{id}: {NAMES[level]}",
            "createdAt": when,
            "updatedAt": when,
            "state": _packed(_of_home(home, state)),
        }
        # for the experiment's description; MLflow reads over these
        view |= {"home": home, "study": id, "question": study.question}
        tags[f"{PREFIX}{name(home, id, level)}"] = json.dumps(view)
    return tags


def _of_home(home: str, state: dict[str, Any]) -> dict[str, Any]:
    """Returns a view without the runs of other homes."""
    return state | {"searchFilter": f"tags.`{HOME}` = '{home}' AND {state['searchFilter']}"}


def _packed(state: dict[str, Any]) -> str:
    return f"deflate;{base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()}"


def _trials(id: str, study: Study, metrics: set[str]) -> dict[str, Any]:
    test = study.score.test
    means = [f"{study.score.metric}_mean", *(f"{at_image_size(test, side)}_mean" for side in study.base.test_sizes)]
    columns = [
        _column("params", "role"),
        _column("tags", "locus.score"),
        _column("tags", "locus.test"),
        _column("tags", "locus.best"),
        _column("tags", "locus.outcome"),
        *_varied(study),
        *(_column("metrics", metric) for metric in [*means, TRAIN_S]),
        _column("tags", "locus.reason"),
    ]
    view = _view(id, "trial", columns, _column("tags", "locus.rank"), ascending=True)
    return view | trial_charts(study, metrics)


def _runs(id: str, study: Study, metrics: set[str]) -> dict[str, Any]:
    """Returns a view without the column `seed`: MLflow would show a group's mean of the seeds."""
    by_trial = {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": "trial"}]}
    view = _view(id, "run", _run_columns(study), _column("metrics", study.score.metric))
    return view | run_charts(study, metrics) | {"groupBy": by_trial}


def _flat(id: str, study: Study, metrics: set[str]) -> dict[str, Any]:
    """Returns a view in the order of the score: in the order of time, MLflow folds runs into their trials."""
    columns = [_column("params", "seed"), *_run_columns(study)]
    return _view(id, "run", columns, _column("metrics", study.score.metric)) | run_charts(study, metrics)


def _run_columns(study: Study) -> list[str]:
    return [
        *(_column("metrics", metric) for metric in (study.score.metric, study.score.test, TRAIN_S)),
        _column("tags", "locus.outcome"),
        *_varied(study),
        _column("tags", "locus.reason"),
    ]


def _varied(study: Study) -> list[str]:
    paths = study.paths()
    kinds = ["encoding.kind"] if isinstance(study.plan, Ablation) and "encoding.kind" not in paths else []
    return [_column("params", path) for path in [*kinds, *paths]]


def _column(kind: str, key: str) -> str:
    return f"{kind}.`{key}`"


def _width(column: str) -> int:
    key = column.partition("`")[2].removesuffix("`")
    least = MEAN if column.startswith("metrics.") and not key.endswith("_mean") else NARROW
    return WIDTHS.get(key, min(max(LETTER * len(key) + 45, least), WIDE))


def _view(id: str, level: str, columns: list[str], order: str, *, ascending: bool = False) -> dict[str, Any]:
    return {
        "searchFilter": f"tags.`locus.study` = '{id}' AND tags.`locus.level` = '{level}'",
        "orderByKey": order,
        "orderByAsc": ascending,
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": {column: _width(column) for column in columns},
    }


def describe(store: Store, edition: Edition, began: float) -> None:
    """Brings the experiment's tags up to date. `began`: when the study began, in seconds since 1970."""
    tags = views(store.home, edition.id, edition.study, began, store.metrics())
    there = store.experiment_tags()
    store.describe({**tags, **_description(there, _note_experiment(there | tags, store.experiment))})


def leave(store: Store) -> None:
    """Removes a study's views from its experiment, and its part of the description."""
    mine = {f"{PREFIX}{name(store.home, store.study, level)}" for level in NAMES}
    there = store.experiment_tags()
    left = {tag: value for tag, value in there.items() if tag not in mine}
    store.describe({**dict.fromkeys(mine), **_description(there, _note_experiment(left, store.experiment))})


def _description(there: dict[str, str], note: str | None) -> dict[str, str | None]:
    """Returns the tags of a new description; none if a person wrote the one that is there.

    The fingerprints of both come first, so that a crash before the second call makes none of it a person's.
    """
    known = there.get(WRITTEN, "").split()
    old, new = fingerprint(there.get(NOTE, "")), fingerprint(note or "")
    if old not in known or (old == new and known == [new]):
        return {}
    return {WRITTEN: new if old == new else f"{old} {new}", NOTE: note}


def _note_experiment(tags: dict[str, str], place: str) -> str | None:
    """Returns the description of an experiment; None if no study is left."""
    studies = sorted(_studies(tags, runs_page(place)), key=lambda study: -study[0])
    homes = Counter(study for _, _, study, _, _ in studies)
    named = [
        (f"{study} (home {home})" if homes[study] > 1 else study, question, link)
        for _, home, study, question, link in studies
    ]
    return experiment_note(named) if named else None


def _studies(tags: dict[str, str], page: str) -> Iterator[tuple[int, str, str, str, str]]:
    """Yields when each study began, its home, id, question and link to its trials. A user's own view says no study."""
    for tag, value in tags.items():
        if tag.startswith(PREFIX) and tag.endswith(".trials"):
            view = json.loads(value)
            if {"study", "home"} <= view.keys():
                link = f"#{page}&viewStateShareKey={tag.removeprefix(PREFIX)}"
                yield view["createdAt"], view["home"], view["study"], view["question"], link
