"""Writes a study's three views (tables with charts) to its MLflow experiment, and the experiment's description.

MLflow's plain runs page shows one closed row and no numbers. A shared view is a tag of the experiment: MLflow lists it
under "Views", and the page opens it if its address names it. It holds the rows, columns, order, groups and charts.
MLflow makes a chart of its own for each metric that no chart names. A chart that is marked as deleted switches it off.
The tag's form is internal to MLflow's pages; a browser test checks that it still works.

Editions of a study share an experiment, and so do homes on one server. Its description is made from the tags of all
their views. A description that locus did not write stays as it is.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from search_spaces.space import Integer, Real
from search_spaces.study import Edition, Study
from service.tracking.rows import STUDY, TRAIN_S, cut
from service.tracking.store import HOME, NOTE, WRITTEN, Store
from trainables.recipe.outcome import at_image_size, of_ema
from trainables.spec import digest

PREFIX = "mlflow.sharedViewState."
TRAINING = "workflowType=machine_learning"
"""The part of an address that asks MLflow's pages for the side bar of trainings."""
NAMES = {"trials": "trials, best first", "runs": "runs by trial", "flat": "runs, flat"}
"""The names of the views in MLflow's menu, in its order."""
SECTION = "locus"
MOST_PATHS, MOST_RUNS = 8, 500
"""The most paths that get a chart each, as an experiment's tag holds 20,000 letters; the most runs in a chart."""
SEED_METRICS = ("train/loss", "train/images_per_s", "time/epoch_s", TRAIN_S, "memory/peak_gib")
WIDTHS = {"role": 115, "locus.score": 185, "locus.test": 185, "locus.outcome": 115, "locus.reason": 330}
"""The widths of the columns whose values are wider than their heads. Units: pixels."""


@dataclass(frozen=True)
class Links:
    """The addresses of a study's pages: three views, and `parent`, the page of the study's own run with its report.

    `trials` shows the trials, the best first; `runs` the runs grouped by trial; `flat` the runs without groups.
    """

    trials: str
    runs: str
    flat: str
    parent: str


def links(store: Store, server: str) -> Links:
    """Returns a study's addresses at an MLflow server. `store` is what `look_up` returned for the study."""
    page = f"{server.rstrip('/')}/#/experiments/{store.experiment}/runs?{TRAINING}"
    addresses = {level: f"{page}&viewStateShareKey={quote(name(store.home, store.study, level))}" for level in NAMES}
    parent = f"{page.partition('?')[0]}/{store.shown[STUDY].id}?{TRAINING}" if STUDY in store.shown else page
    return Links(**addresses, parent=parent)


def name(home: str, id: str, level: str) -> str:
    """Returns the name of a view, in letters that a tag may have."""
    return f"{home}.{id.replace('@', '.').replace('~', '.')}.{level}"


def describe(store: Store, edition: Edition, began: float) -> None:
    """Writes a study's views and the experiment's description. `began` is when it began, in seconds since 1970."""
    metrics: dict[str, set[str]] = {}
    for (level, _, _), shown in store.shown.items():
        metrics.setdefault(level, set()).update(shown.latest)
    _set_tags(store, dict(views(store.home, edition.id, edition.study, began, metrics)))


def leave(store: Store) -> None:
    """Removes a study's views from its experiment, and its part of the description."""
    _set_tags(store, dict.fromkeys(f"{PREFIX}{name(store.home, store.study, level)}" for level in NAMES))


def _set_tags(store: Store, tags: dict[str, str | None]) -> None:
    """Sets the tags of views, deletes those whose text is None, and describes the experiment by its studies.

    A description that a person wrote stays. The digests of the old and the new one are set first: after a crash between
    the two calls, neither is taken for a person's.
    """
    before = dict(store.client.get_experiment(store.experiment).tags)
    studies = []
    for tag, text in (before | tags).items():
        if text is not None and tag.startswith(PREFIX) and tag.endswith(".trials"):
            view = json.loads(text)
            if {"study", "home"} <= view.keys():  # a user's own view says no study
                page = f"#/experiments/{store.experiment}/runs?{TRAINING}"
                studies.append((view, f"{page}&viewStateShareKey={tag.removeprefix(PREFIX)}"))
    studies.sort(key=lambda study: -study[0]["createdAt"])
    homes = Counter(view["study"] for view, _ in studies)
    addresses, questions = [], []
    for view, address in studies:
        id = f"{view['study']} (home {view['home']})" if homes[view["study"]] > 1 else view["study"]
        addresses.append(f"[{id}]({address})")
        questions.append(f"- {id}: {view['question']}")
    head = f"Trials, best first: {', '.join(addresses)}. The menu Views lists all views."
    note = cut("\n".join([head, "", *questions])) if studies else None

    digests, old, new = before.get(WRITTEN, "").split(), digest(before.get(NOTE, "")), digest(note or "")
    changes = {**tags}
    if old in digests:
        changes |= {WRITTEN: new if old == new else f"{old} {new}", NOTE: note}
    for tag, value in changes.items():
        if value is None and tag in before:
            store.client.delete_experiment_tag(store.experiment, tag)
        elif value is not None and before.get(tag) != value:
            store.client.set_experiment_tag(store.experiment, tag, value)


def views(home: str, id: str, study: Study, created: float, metrics: Mapping[str, set[str]]) -> dict[str, str]:
    """Returns the experiment's tags that hold the views: their names and texts.

    `home` is the home's id, `id` the edition's. `created` is the time when the study began, in seconds since 1970; by
    it, MLflow's menu shows the newest view first. `metrics` holds the names of MLflow's metrics by level.
    """
    paths, score, test = study.paths(), study.score.metric, study.score.test
    if study.plan.arms and "encoding.kind" not in paths:
        paths = ["encoding.kind", *paths]
    varied = [f"params.`{path}`" for path in paths]
    means = [f"{score}_mean", *(f"{at_image_size(test, side)}_mean" for side in study.base.test_sizes), TRAIN_S]
    of_trials = [
        "params.`role`",
        "tags.`locus.score`",
        "tags.`locus.test`",
        "tags.`locus.best`",
        "tags.`locus.outcome`",
    ]
    of_trials += [*varied, *(f"metrics.`{metric}`" for metric in means), "tags.`locus.reason`"]
    of_runs = [f"metrics.`{metric}`" for metric in (score, test, TRAIN_S)]
    of_runs += ["tags.`locus.outcome`", *varied, "tags.`locus.reason`"]
    by_trial = {"aggregateFunction": "average", "groupByKeys": [{"mode": "param", "groupByData": "trial"}]}
    trials = _table("trial", of_trials, "tags.`locus.rank`") | _trial_charts(study, metrics.get("trial", set()))
    # curves over the epochs; if runs are grouped, the mean with a band
    unsmoothed = {"xAxisKey": "step", "lineSmoothness": 0, "useGlobalXaxisKey": True, "useGlobalLineSmoothing": True}
    charts = [_bar(metric) | {"type": "LINE"} | unsmoothed for metric in (score, "train/loss")]
    charts += [_bar(test), _bar(TRAIN_S)]
    curves = _page("curves", charts, {*SEED_METRICS, *_scores(study), *metrics.get("run", ())})
    states = {
        "trials": trials | {"orderByAsc": True},
        # without the column `seed`: MLflow would show a group's mean of the seeds
        "runs": _table("run", of_runs, f"metrics.`{score}`") | curves | {"groupBy": by_trial},
        # in the order of the score: in the order of time, MLflow folds runs into their trials
        "flat": _table("run", ["params.`seed`", *of_runs], f"metrics.`{score}`") | curves,
    }
    tags: dict[str, str] = {}
    for behind, (level, state) in enumerate(states.items()):
        state["searchFilter"] = f"tags.`{HOME}` = '{home}' AND tags.`locus.study` = '{id}' AND {state['searchFilter']}"
        when = round(created * 1000) - behind
        packed = base64.b64encode(zlib.compress(json.dumps(state).encode(), 9)).decode()
        view = {"name": f"{id}: {NAMES[level]}", "createdAt": when, "updatedAt": when, "state": f"deflate;{packed}"}
        # for the experiment's description; MLflow reads over these
        view |= {"home": home, "study": id, "question": study.question}
        tags[f"{PREFIX}{name(home, id, level)}"] = json.dumps(view)
    return tags


def _table(level: str, columns: list[str], order: str) -> dict[str, Any]:
    """Returns the part of a view that chooses the rows of a level, their columns and their order."""
    widths = {}
    for column in columns:
        key = column.partition("`")[2].removesuffix("`")
        # a letter of a head takes 8 pixels; the means of a group of runs are written with all their digits
        least = 160 if column.startswith("metrics.") and not key.endswith("_mean") else 95
        widths[column] = WIDTHS.get(key, min(max(8 * len(key) + 45, least), 230))
    return {
        "searchFilter": f"tags.`locus.level` = '{level}'",
        "orderByKey": order,
        "orderByAsc": False,
        "selectedColumns": columns,
        "columnOrder": columns,
        "columnWidths": widths,
    }


def _trial_charts(study: Study, metrics: set[str]) -> dict[str, Any]:
    """Returns the charts of trials: mean scores, the score by each path, all paths together, the score by costs."""
    score = f"{study.score.metric}_mean"
    mean = {"key": score, "type": "METRIC"}

    def against_score(kind: str, key: str) -> dict[str, Any]:
        return {"type": "SCATTER", "xaxis": {"key": key, "type": kind}, "yaxis": mean, "runsCountToCompare": MOST_RUNS}

    charts = [_bar(score), _bar(f"{study.score.test}_mean")]
    if study.plan.space is not None:
        domains = study.plan.space.domains
        paths = [*domains][:MOST_PATHS]
        charts.append({"type": "PARALLEL", "selectedParams": paths, "selectedMetrics": [score], "showAllRuns": True})
        charts += [against_score("PARAM", path) for path in paths]
        numbers = [path for path, domain in domains.items() if isinstance(domain, Real | Integer)]
        if len(numbers) > 1:  # paths that every point has
            xaxis, yaxis = ({"key": path, "type": "PARAM"} for path in numbers[:2])
            contour = {"xaxis": xaxis, "yaxis": yaxis, "zaxis": mean}
            charts.append({"type": "CONTOUR", **contour, "runsCountToCompare": MOST_RUNS})
    charts += [against_score("METRIC", TRAIN_S), against_score("PARAM", "parameters")]
    means = {f"{metric}_{end}" for metric in _scores(study) for end in ("mean", "std", "n")}
    return _page("mean over seeds", charts, {*means, TRAIN_S, *metrics})


def _scores(study: Study) -> list[str]:
    metrics = [study.score.metric, study.score.test]
    metrics += [of_ema(metric) for metric in metrics]
    return metrics + [at_image_size(study.score.test, side) for side in study.base.test_sizes]


def _bar(metric: str) -> dict[str, Any]:
    return {"type": "BAR", "metricKey": metric, "selectedMetricKeys": [metric], "runsCountToCompare": MOST_RUNS}


def _page(title: str, charts: list[dict[str, Any]], metrics: set[str]) -> dict[str, Any]:
    """Returns the part of a view that holds these charts, and switches off MLflow's own charts of other metrics."""
    off = [
        {"type": "LINE", "metricKey": metric, "isGenerated": True, "deleted": True}
        for metric in sorted(metrics - {chart.get("metricKey") for chart in charts})
    ]
    numbered = [
        {"uuid": f"{SECTION}-{number}", "metricSectionId": SECTION, "isGenerated": False, "deleted": False, **chart}
        for number, chart in enumerate([*charts, *off])
    ]
    section = {"uuid": SECTION, "name": title, "display": True, "isReordered": False, "deleted": False}
    return {
        "compareRunCharts": numbered,
        "compareRunSections": [section],
        "globalLineChartConfig": {"xAxisKey": "step", "lineSmoothness": 0, "selectedXAxisMetricKey": ""},
        "runsHiddenMode": "SHOW_ALL",
        "useGroupedValuesInCharts": True,
    }
