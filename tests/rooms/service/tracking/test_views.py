"""The tags that give an experiment its named views, its charts and its description."""

from __future__ import annotations

import json

from mlflow.tracking import MlflowClient

from search_spaces import library
from search_spaces.space import Choice, Real, Space
from search_spaces.study import Search, Study
from service.removal import forgettable
from service.storage.editions import save_edition
from service.storage.journal import Journal
from service.tracking.views import PREFIX, name, views
from tests.rooms.service.tracking.facts import BASE, Facts, search, show, tags_of, unpacked

LIMIT = 20_000
"""The letters that MLflow keeps of an experiment's tag."""


def state(tags: dict[str, str], id: str, level: str, home: str = "h0me") -> dict:
    return unpacked(tags[f"{PREFIX}{name(home, id, level)}"])


def test_mlflow_lists_three_views_and_draws_or_switches_off_every_metric_that_it_has(home, small):
    show(home, small)
    tags = tags_of(home)
    menu = [json.loads(text) for tag, text in tags.items() if tag.startswith(PREFIX)]
    menu.sort(key=lambda view: -view["createdAt"])  # as MLflow's menu does
    assert [view["name"] for view in menu] == [
        "reach@base: trials, best first", "reach@base: runs by trial", "reach@base: runs, flat",
    ]  # fmt: skip
    assert menu[0]["createdAt"] == round(small.facts[0].time * 1000)
    client = MlflowClient(home.tracking)
    runs = client.search_runs([client.get_experiment_by_name("locus/reach").experiment_id])
    for level, view in (("trial", "trials"), ("run", "runs"), ("run", "flat")):
        metrics = {metric for run in runs if run.data.tags["locus.level"] == level for metric in run.data.metrics}
        page = state(tags, "reach@base", view, home.id)
        assert metrics <= {chart.get("metricKey") for chart in page["compareRunCharts"]}
        assert page["runsHiddenMode"] == "SHOW_ALL"
    tags = views("h0me", "reach@base", search().study, 1.0, {"run": {"train/mine"}})
    (mine,) = [c for c in state(tags, "reach@base", "flat")["compareRunCharts"] if c.get("metricKey") == "train/mine"]
    assert (mine["deleted"], mine["isGenerated"]) == (True, True)


def test_a_search_of_three_paths_has_the_charts_of_a_sweep():
    space = {
        "encoding.gamma": Real(low=0.1, high=40, log=True),
        "model.pool": Choice(options=("token", "avg")),
        "optimizer.lr": Real(low=1e-4, high=1e-2, log=True),
    }
    study = Study(name="three", question="?", base=BASE, plan=Search(space=Space(space), trials=4), seeds=2)
    charts: dict[str, list[dict]] = {}
    for chart in state(views("h0me", "three@base", study, 1.0, {}), "three@base", "trials")["compareRunCharts"]:
        charts.setdefault(f"{chart['type']} {chart['deleted']}", []).append(chart)
    (parallel,) = charts["PARALLEL False"]
    assert (parallel["selectedParams"], parallel["selectedMetrics"]) == (list(space), ["val/accuracy_mean"])
    across = [chart["xaxis"] for chart in charts["SCATTER False"]]
    assert across[:3] == [{"key": path, "type": "PARAM"} for path in space]
    assert {"key": "time/train_s", "type": "METRIC"} in across
    (contour,) = charts["CONTOUR False"]
    axes = [contour[axis]["key"] for axis in ("xaxis", "yaxis", "zaxis")]
    assert axes == ["encoding.gamma", "optimizer.lr", "val/accuracy_mean"]
    uuids = [chart["uuid"] for kind in charts.values() for chart in kind]
    assert len(set(uuids)) == len(uuids)


def test_columns_are_wide_enough_for_their_heads_and_scores_come_before_paths():
    tags = views("h0me", "reach@base", search().study, 1.0, {})
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
        tags = views("h0me", f"{study}@paper", library.find(study), 1.0, {})
        assert max(map(len, tags.values())) < LIMIT / 2, study


def test_the_description_links_every_study_of_the_experiment_until_it_is_forgotten(home, small):
    other = Facts(Study(**{**dict(search().study), "name": "other", "question": "Which?"}).at())
    other.complete(other.plan(0, encoding__gamma=4.0), 0, 0.75)
    show(home, small, experiment="thesis")
    show(home, other, experiment="thesis")
    first, *lines = tags_of(home, "thesis")["mlflow.note.content"].splitlines()
    page = "#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey="
    for id in ("reach", "other"):
        assert f"[{id}@base]({page}{home.id}.{id}.base.trials)" in first
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
