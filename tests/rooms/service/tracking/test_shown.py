"""What MLflow shows at each level of a study."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from search_spaces.study import Ablation, Study, Trial
from service.storage.facts import Confirms, Counts, Ended, FailedWith, Measured, Planned
from tests.rooms.service.tracking.facts import BASE, Facts, points, runs, search, show
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.cost import estimate_cost


def test_the_three_levels_show_what_the_table_promises(home, small):
    show(home, small)
    shown = runs(home)
    assert set(shown) == {
        "reach@base", "#00 gamma=2.5", "#01 gamma=31", "#02 gamma=1.5",
        "#00 seed 0", "#00 seed 1", "#01 seed 0", "#02 seed 0", "#02 seed 1",
    }  # fmt: skip
    study, trial, run = shown["reach@base"], shown["#00 gamma=2.5"], shown["#00 seed 1"]
    known = {
        "trial": "#00 gamma=2.5",
        "role": "point",
        "encoding.kind": "fourier",
        "data.task": "direction",
        "encoding.gamma": "2.5",
        "budget": "base",
        "data.kind": "red_green",
        "model.kind": "vit",
        "optimizer.lr": str(BASE.optimizer.lr),
        "optimizer.epochs": "3",
        "optimizer.batch_size": str(BASE.optimizer.batch_size),
        "test_sizes": "48",
    }
    known |= {"parameters": str(estimate_cost(Recipe(encoding=Fourier())).parameters)}
    known |= {"parameters.learnt": known["parameters"]}
    assert study.data.params == {"budget": "base"}
    assert trial.data.params == known
    assert run.data.params == known | {"seed": "1"}
    assert trial.data.tags["mlflow.parentRunId"] == study.info.run_id
    assert run.data.tags["mlflow.parentRunId"] == trial.info.run_id
    assert {r.info.status for r in shown.values()} == {"FINISHED"}
    assert study.data.tags["locus.seeds"] == "2"
    assert study.data.tags["locus.family"] == "thesis"
    assert study.data.tags["locus.trials"] == "4"
    assert study.data.tags["locus.best"] == "#00 gamma=2.5"
    assert study.data.metrics["best/val/accuracy_mean"] == statistics.fmean([0.75, 0.875])
    assert (study.data.metrics["progress/runs"], study.data.metrics["progress/trials"]) == (5, 3)
    assert study.data.metrics["progress/asked"] == 5 + 2 + 4 * 2, (
        "one of four trials is still to come, and the confirmation"
    )
    for name, tag in {
        "level": "run",
        "number": "0",
        "outcome": "completed",
        "code": "c0dec0dec0de",
        "study": "reach@base",
    }.items():
        assert run.data.tags[f"locus.{name}"] == tag
    assert [one.dataset.name for one in study.inputs.dataset_inputs] == ["red_green/direction"]


def test_a_run_has_its_curve_at_the_times_of_its_facts(home, small):
    show(home, small)
    run = runs(home)["#00 seed 1"]
    told = [f for f in small.facts if isinstance(f, Measured) and f.run == run.data.tags["locus.key"]]
    history = MlflowClient(home.tracking).get_metric_history(run.info.run_id, "val/accuracy")
    assert [(p.step, p.value, p.timestamp) for p in history] == [
        (f.epoch, f.values["val/accuracy"], round(f.time * 1000)) for f in told
    ]
    assert points(home, run, "test/accuracy") == [(3, 0.75)]
    assert points(home, run, "test/accuracy_at_48") == [(3, 0.625)]


def test_a_trial_has_the_means_over_its_seeds(home, small):
    show(home, small)
    trial = runs(home)["#00 gamma=2.5"]
    assert points(home, trial, "val/accuracy_mean") == [(2, statistics.fmean([0.75, 0.875]))]
    assert points(home, trial, "val/accuracy_std") == [(2, pytest.approx(statistics.stdev([0.75, 0.875]), abs=1e-6))]
    assert points(home, trial, "val/accuracy_n") == [(2, 2)]
    assert "test/accuracy_mean" not in trial.data.metrics, "the test set is not looked at for a search's points"


def test_a_diverged_seed_counts_as_chance(home, small):
    show(home, small)
    trial = runs(home)["#02 gamma=1.5"]
    assert points(home, trial, "val/accuracy_mean") == [(2, (1.0 + 0.5) / 2)]
    assert runs(home)["#02 seed 1"].data.tags["locus.reason"] == "diverged after epoch 1; counts as chance"


def test_a_diverged_seeds_average_counts_as_chance_too(home):
    facts = Facts(search(base=BASE.put({"optimizer.ema_decay": 0.9})))
    facts.add(Counts(seeds=1, trials=1))
    known = facts.start(facts.plan(0, encoding__gamma=2.5), 0)
    facts.add(Measured(**known, epoch=1, values={"val/accuracy": 0.75, "val/accuracy_ema": 0.625}))
    facts.add(Ended(**known, outcome="diverged", epoch=2))
    show(home, facts)
    trial = runs(home)["#00 gamma=2.5"]
    for metric in ("val/accuracy", "val/accuracy_ema"):
        assert points(home, trial, f"{metric}_mean") == [(1, 0.5)]


def test_a_stopped_trial_says_why(home, small):
    show(home, small)
    trial = runs(home)["#01 gamma=31"]
    assert trial.data.tags["locus.outcome"] == "stopped"
    assert trial.data.tags["locus.reason"] == "stopped at epoch 1 (cut-off 0.6250)"
    assert points(home, trial, "val/accuracy_n") == [(1, 1)]


def test_every_recipe_comes_back_from_the_study_s_artifact(home, small, tmp_path):
    show(home, small)
    run_id = runs(home)["reach@base"].info.run_id
    path = MlflowClient(home.tracking).download_artifacts(run_id, "recipes.json", str(tmp_path))
    recipes = json.loads(Path(path).read_text())
    assert recipes.keys() == {"0", "1", "2"}
    assert Recipe.read(recipes["1"]) == BASE.put({"encoding.gamma": 31.0})
    assert (home.artifacts / run_id / "artifacts" / "recipes.json").exists()


def test_a_failed_run_says_why_until_it_succeeds(home):
    facts = Facts(search(seeds=1))
    trial = facts.plan(0, encoding__gamma=4.0)
    known = facts.start(trial, 0)
    facts.add(FailedWith(**known, reason="disk full"))
    show(home, facts, "SCHEDULED")
    run = runs(home)["#00 seed 0"]
    assert (run.info.status, run.data.tags["locus.reason"]) == ("FAILED", "disk full")
    assert runs(home)["#00 gamma=4"].data.tags["locus.reason"] == "disk full"
    facts.complete(trial, 0, 0.75)
    show(home, facts)
    again = runs(home)["#00 seed 0"]
    assert (again.info.run_id, again.info.status) == (run.info.run_id, "FINISHED")
    assert again.data.tags["locus.reason"] == ""


def test_a_reused_run_a_confirmation_and_a_parent_are_rows_of_their_own(home):
    facts = Facts(search())
    trial = facts.plan(0, encoding__gamma=4.0)
    key = Run(recipe=trial.recipe, seed=0).key
    facts.measure({"run": key, "code": "c0dec0dec0de"}, 0.5, 0.625, 0.75)
    facts.add(Ended(run=key, code="c0dec0dec0de", outcome="completed", epoch=3, reused=True))
    facts.complete(trial, 1, 0.75)
    facts.add(Confirms(numbers=(0,)))
    again = facts.plan(0, "confirmation", encoding__gamma=4.0)
    for seed in again.seeds(2):
        facts.complete(again, seed, 0.75)
    show(home, facts)
    shown = runs(home)
    reused = shown["#00 seed 0"]
    assert (reused.data.tags["locus.reused"], reused.data.tags["locus.key"]) == ("true", key)
    assert points(home, reused, "val/accuracy") == [(1, 0.5), (2, 0.625), (3, 0.75)]
    assert shown["c0 gamma=4"].data.tags["locus.number"] == "c0"
    assert shown["reach@base"].data.tags["locus.best"] == "c0 gamma=4"
    assert shown["c0 seed 1001"].data.tags["mlflow.parentRunId"] == shown["c0 gamma=4"].info.run_id


def test_arms_go_by_their_names_and_share_a_parent(home):
    start = {"init": FromTrial(values={"encoding.kind": "none"})}
    plan = Ablation({"plain": {}, "warm": start}, "plain")
    edition = Study(name="arms", question="Which?", base=BASE, plan=plan, seeds=2).at()
    facts = Facts(edition)
    arms = edition.arms()
    for arm in arms:
        facts.add(Planned(role="trial", number=arm.number, name=arm.name, values=arm.plain()["values"]))
    (parent,) = Run(recipe=arms[1].recipe, seed=0).needs()
    facts.add(Planned(role="parent", number=1, name="none on direction", values={"key": parent.key}))
    first = Trial(role="parent", number=1, name="none", values={}, recipe=parent.recipe)
    for trial in (first, *arms):
        for seed in range(2):
            facts.complete(trial, seed, 0.75)
    show(home, facts)
    shown = runs(home)
    assert {"arms@base", "plain", "warm", "p1 none on direction", "plain seed 1", "warm seed 0", "p1 seed 1"} <= set(
        shown
    )
    assert shown["warm"].data.params["trial"] == "warm"
    assert shown["p1 none on direction"].data.params["encoding.kind"] == "none"
    assert points(home, shown["p1 none on direction"], "val/accuracy_n") == [(2, 2)]


def test_the_report_lies_on_the_parent(home, small, tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("<p>all is well")
    show(home, small, report=tmp_path / "report")
    listed = MlflowClient(home.tracking).list_artifacts(runs(home)["reach@base"].info.run_id, "report")
    assert [file.path for file in listed] == ["report/index.html"]
