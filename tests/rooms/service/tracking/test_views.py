"""The tags that give an experiment its named views, its charts and its description."""

from __future__ import annotations

import json

from mlflow.tracking import MlflowClient

from search_spaces import library
from search_spaces.space import Choice, Real, Space
from search_spaces.study import Search, Study
from service.removal import forgettable
from service.storage.editions import save_edition
from service.storage.home import Home
from service.storage.journal import Journal
from service.tracking.views import PREFIX, mean_metrics, name, views
from tests.rooms.service.tracking.facts import BASE, Facts, search, show, unpacked

LIMIT = 20_000
"""The letters that MLflow keeps of an experiment's tag."""


def state(tags: dict[str, str], id: str, level: str, home: str = "h0me") -> dict:
    return unpacked(tags[f"{PREFIX}{name(home, id, level)}"])


def charts(view: dict, kind: str) -> list[dict]:
    return [chart for chart in view["compareRunCharts"] if chart["type"] == kind and not chart["deleted"]]


def tags_of(home: Home, experiment: str = "locus/reach") -> dict[str, str]:
    return dict(MlflowClient(home.tracking).get_experiment_by_name(experiment).tags)


def test_mlflow_lists_three_views_the_trials_first(home, small):
    show(home, small)
    said = [json.loads(value) for tag, value in tags_of(home).items() if tag.startswith(PREFIX)]
    said.sort(key=lambda one: -one["createdAt"])  # as MLflow's menu does
    assert [one["name"] for one in said] == [
        "reach@base: trials, best first", "reach@base: runs by trial", "reach@base: runs, flat",
    ]  # fmt: skip
    assert said[0]["createdAt"] == round(small.facts[0].time * 1000)
    assert all(one["state"].startswith("deflate;") for one in said)


def test_every_metric_that_mlflow_has_is_drawn_by_a_chart_of_ours_or_switched_off(home, small):
    show(home, small)
    tags = tags_of(home)
    found = MlflowClient(home.tracking).search_runs(
        [MlflowClient(home.tracking).get_experiment_by_name("locus/reach").experiment_id]
    )
    for level, view in (("trial", "trials"), ("run", "runs"), ("run", "flat")):
        metrics = {name for run in found if run.data.tags["locus.level"] == level for name in run.data.metrics}
        known = {chart.get("metricKey") for chart in state(tags, "reach@base", view, home.id)["compareRunCharts"]}
        assert metrics <= known
        assert state(tags, "reach@base", view, home.id)["runsHiddenMode"] == "SHOW_ALL"


def test_a_metric_of_one_s_own_is_switched_off_once_it_is_known():
    known = views("h0me", "reach@base", search().study, 1.0, {"run": {"train/mine"}})
    (mine,) = [c for c in state(known, "reach@base", "flat")["compareRunCharts"] if c.get("metricKey") == "train/mine"]
    assert (mine["deleted"], mine["isGenerated"]) == (True, True)


def test_a_search_of_three_paths_has_the_charts_of_a_sweep():
    space = {
        "encoding.gamma": Real(low=0.1, high=40, log=True),
        "model.pool": Choice(options=("token", "avg")),
        "optimizer.lr": Real(low=1e-4, high=1e-2, log=True),
    }
    study = Study(name="three", question="?", base=BASE, plan=Search(space=Space(space), trials=4), seeds=2)
    view = state(views("h0me", "three@base", study, 1.0, {}), "three@base", "trials")
    (parallel,) = charts(view, "PARALLEL")
    assert (parallel["selectedParams"], parallel["selectedMetrics"]) == (list(space), ["val/accuracy_mean"])
    across = [chart["xaxis"] for chart in charts(view, "SCATTER")]
    assert across[:3] == [{"key": path, "type": "PARAM"} for path in space]
    assert {"key": "time/train_s", "type": "METRIC"} in across
    (contour,) = charts(view, "CONTOUR")
    assert [contour[axis]["key"] for axis in ("xaxis", "yaxis", "zaxis")] == [
        "encoding.gamma", "optimizer.lr", "val/accuracy_mean",
    ]  # fmt: skip
    uuids = [chart["uuid"] for chart in view["compareRunCharts"]]
    assert len(set(uuids)) == len(uuids)


def test_columns_are_wide_enough_for_their_heads_and_scores_come_before_paths():
    study = search().study
    tags = views("h0me", "reach@base", study, 1.0, {})
    trials, runs, flat = (state(tags, "reach@base", level) for level in ("trials", "runs", "flat"))
    columns = trials["columnOrder"]
    assert columns.index("tags.`locus.score`") < columns.index("params.`encoding.gamma`")
    assert trials["columnWidths"]["params.`encoding.gamma`"] >= 8 * len("encoding.gamma")
    assert (trials["orderByKey"], trials["orderByAsc"]) == ("tags.`locus.rank`", True)
    assert "params.`seed`" not in runs["columnOrder"], "MLflow would show the mean of the seeds"
    assert "params.`seed`" in flat["columnOrder"]
    assert runs["groupBy"]["groupByKeys"] == [{"mode": "param", "groupByData": "trial"}]
    assert "groupBy" not in flat


def test_the_views_of_every_study_fit_into_tags():
    for study in library.names():
        found = library.find(study)
        tags = views("h0me", f"{study}@paper", found, 1.0, {"trial": set(mean_metrics(found))})
        assert max(map(len, tags.values())) < LIMIT / 2, study


def test_the_description_links_every_study_of_the_experiment_until_it_is_forgotten(home, small):
    other = Facts(Study(**{**dict(search().study), "name": "other", "question": "Which?"}).at())
    other.complete(other.plan(0, encoding__gamma=4.0), 0, 0.75)
    show(home, small, experiment="thesis")
    show(home, other, experiment="thesis")
    note = tags_of(home, "thesis")["mlflow.note.content"]
    first, *lines = note.splitlines()
    for id in ("reach", "other"):
        assert (
            f"[{id}@base](#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey={home.id}.{id}.base.trials)"
            in first
        )
    assert {"- reach@base: How far?", "- other@base: Which?"} <= set(lines)
    folder = home.study("reach@base")
    save_edition(small.edition, home)
    with Journal(folder.journal, folder.lock) as journal:
        journal.write(small.facts[0])
    forgettable(home, "reach@base").remove()
    left = tags_of(home, "thesis")
    assert [tag for tag in left if "reach" in tag] == []
    assert "reach" not in left["mlflow.note.content"]
    assert len([tag for tag in left if tag.startswith(PREFIX)]) == 3
