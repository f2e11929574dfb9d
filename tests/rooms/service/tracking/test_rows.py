"""What MLflow shows of a study at each of its levels."""

from __future__ import annotations

import json
import sys

import pytest
from mlflow.tracking import MlflowClient

from search_spaces import library
from search_spaces.study import Ablation, Study, Trial
from service.analysis.best import find_best, ranked
from service.storage.facts import Confirms, Counts, Ended, FailedWith, Measured, Planned
from service.storage.history import History
from service.storage.home import Home
from service.tracking import sync
from service.tracking.rows import LONGEST, Conclusion, rows, run_row, title, trial_content, trial_row
from tests.rooms.service.tracking.facts import BASE, Facts, points, runs, search, show, told
from tests.waiting import until
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.cost import estimate_cost
from trainables.recipe.revisions import code_of

MOST_CALLS, MOST_FILES = 150, 6
"""The most calls of Python functions, and files that they lie in, for the two rows that an epoch changes."""
DIVERGED = "diverged after epoch 1; counts as chance"


def test_the_levels_of_a_search(home, small, tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("<p>all is well")
    show(home, small, report=tmp_path / "report")
    shown = runs(home)
    expected = {  # outcome, reason, mean, number of seeds, the last epoch
        "#00 gamma=2.5": ("completed", "", 0.8125, 2, None),
        "#01 gamma=31": ("stopped", "stopped at epoch 1 (cut-off 0.6250)", 0.5, 1, None),
        "#02 gamma=1.5": ("completed", DIVERGED, 0.75, 2, None),
        "#00 seed 0": ("completed", "", None, None, 0.75),
        "#00 seed 1": ("completed", "", None, None, 0.875),
        "#01 seed 0": ("stopped", "stopped at epoch 1 (cut-off 0.6250)", None, None, 0.5),
        "#02 seed 0": ("completed", "", None, None, 1.0),
        "#02 seed 1": ("diverged", DIVERGED, None, None, 0.5),
    }
    found = {}
    for name, run in shown.items():
        tags, metrics = run.data.tags, run.data.metrics
        numbers = [metrics.get(f"val/accuracy{end}") for end in ("_mean", "_n", "")]
        found[name] = (tags["locus.outcome"], tags.get("locus.reason", ""), *numbers)
        parent = f"{name[:3]} gamma={[2.5, 31, 1.5][int(name[1:3])]}" if "seed" in name else "reach@base"
        assert name == parent or tags["mlflow.parentRunId"] == shown[parent].info.run_id
        assert (run.info.status, tags["locus.study"]) == ("FINISHED", "reach@base")
    study = shown["reach@base"]
    assert found.pop("reach@base")[0] == "completed"
    assert found == expected

    params = {
        "trial": "#00 gamma=2.5", "role": "point", "encoding.kind": "fourier", "data.task": "direction",
        "encoding.gamma": "2.5", "budget": "base", "data.kind": "red_green", "model.kind": "vit", "test_sizes": "48",
        "optimizer.lr": str(BASE.optimizer.lr), "optimizer.epochs": "3",
        "optimizer.batch_size": str(BASE.optimizer.batch_size),
    }  # fmt: skip
    params |= dict.fromkeys(
        ("parameters", "parameters.learnt"), str(estimate_cost(Recipe(encoding=Fourier())).parameters)
    )
    trial, run = shown["#00 gamma=2.5"], shown["#00 seed 1"]
    assert (study.data.params, trial.data.params) == ({"budget": "base"}, params)
    assert run.data.params == params | {"seed": "1"}
    assert {
        "locus.level": "run",
        "locus.number": "0",
        "locus.code": code_of(BASE).digest,
    }.items() <= run.data.tags.items()
    tags = {"locus.seeds": "2", "locus.family": "thesis", "locus.trials": "4", "locus.best": "#00 gamma=2.5"}
    assert tags.items() <= study.data.tags.items()
    # one of four trials is still to come, and the confirmation
    progress = {"progress/runs": 5, "progress/trials": 3, "progress/asked": 5 + 2 + 4 * 2}
    assert (progress | {"best/val/accuracy_mean": 0.8125}).items() <= study.data.metrics.items()
    assert points(home, trial, "val/accuracy_std") == [(2, pytest.approx(0.125 / 2**0.5, abs=1e-6))]
    assert "test/accuracy_mean" not in trial.data.metrics, "the test set is not looked at for a search's points"

    facts = [fact for fact in small.facts if isinstance(fact, Measured) and fact.run == run.data.tags["locus.key"]]
    curve = MlflowClient(home.tracking).get_metric_history(run.info.run_id, "val/accuracy")
    assert [(point.step, point.value, point.timestamp) for point in curve] == [
        (fact.epoch, fact.values["val/accuracy"], round(fact.time * 1000)) for fact in facts
    ]
    assert points(home, run, "test/accuracy") == [(3, 0.75)]
    assert points(home, run, "test/accuracy_at_48") == [(3, 0.625)]

    client, id = MlflowClient(home.tracking), study.info.run_id
    assert [one.dataset.name for one in study.inputs.dataset_inputs] == ["red_green/direction"]
    assert [file.path for file in client.list_artifacts(id, "report")] == ["report/index.html"]
    recipes = json.loads((home.artifacts / id / "artifacts" / "recipes.json").read_text())
    assert recipes.keys() == {"0", "1", "2"}
    assert Recipe.read(recipes["1"]) == BASE.put({"encoding.gamma": 31.0})


def confirmed(count: int = 2) -> Facts:
    """Two points of two seeds; the second is higher, and `count` of both confirmations are complete."""
    facts = Facts(search())
    low, high = (facts.plan(number, encoding__gamma=gamma) for number, gamma in enumerate((2.5, 31.0)))
    for trial, final in ((low, 0.75), (high, 1.0)):
        for seed in range(2):
            facts.complete(trial, seed, final)
    facts.add(Confirms(numbers=(1, 0)))
    again = [facts.plan(n, "confirmation", encoding__gamma=gamma) for n, gamma in ((1, 31.0), (0, 2.5))]
    for trial, final in list(zip(again, (0.8125, 0.875), strict=True))[:count]:
        for seed in trial.seeds(2):
            facts.complete(trial, seed, final)
    return facts


def test_confirmed_answers_are_told_from_points_and_come_first(home: Home) -> None:
    show(home, confirmed(count=1), "SCHEDULED")
    study = runs(home)["reach@base"].data
    assert (study.tags["locus.best"], "best/test/accuracy_mean" in study.metrics) == ("#01 gamma=31", False)
    conclusion = Conclusion("#0 comes out best.", ("NOT JUDGED at smoke: “best” reaches at least 0.99.",))
    assert told(home, confirmed()).close("FINISHED", None, conclusion) is None
    shown = runs(home)
    trials = {name: run for name, run in shown.items() if run.data.tags["locus.level"] == "trial"}
    by_rank = sorted(trials, key=lambda name: trials[name].data.tags["locus.rank"])
    assert [(name, trials[name].data.params["role"]) for name in by_rank] == [
        ("c1 gamma=31", "confirmation"), ("c0 gamma=2.5", "confirmation"),
        ("#01 gamma=31", "point"), ("#00 gamma=2.5", "point"),
    ]  # fmt: skip
    assert [name for name, run in trials.items() if run.data.tags.get("locus.best")] == ["c1 gamma=31"]
    assert [trials[name].data.metrics.get("test/accuracy_mean") for name in by_rank] == [0.6875, 0.75, None, None]
    assert shown["c0 seed 1001"].data.tags["mlflow.parentRunId"] == shown["c0 gamma=2.5"].info.run_id
    study = MlflowClient(home.tracking).get_run(shown["reach@base"].info.run_id).data
    # two of four points are still to come, and at most four to confirm, with two seeds each
    numbers = {"progress/runs": 8, "progress/asked": 8 + 2 * 2 + 4 * 2}
    numbers |= {"best/test/accuracy_mean": 0.6875, "best/val/accuracy_mean": 0.8125}
    assert numbers.items() <= study.metrics.items()
    assert (study.tags["locus.best"], study.tags["locus.headline"]) == ("c1 gamma=31", "#0 comes out best.")
    assert study.tags["locus.claims"] == "NOT JUDGED at smoke: “best” reaches at least 0.99."
    note = study.tags["mlflow.note.content"]
    assert "**How far?**\n\n#0 comes out best.\n\n- NOT JUDGED at smoke" in note
    lines = [line for line in note.splitlines() if line.startswith("| ")]
    assert lines[0] == "| trial | role | validation accuracy | test accuracy | training |  |"
    assert lines[1] == "| c1 gamma=31 | confirmation | 0.8125 ± 0.0000 (n 2) | 0.6875 ± 0.0000 (n 2) |  | best |"
    assert lines[3] == "| #01 gamma=31 | point | 1.0000 ± 0.0000 (n 2) |  |  | completed |"
    assert len(lines) == 5


def test_the_order_of_trials_is_that_of_the_analysis_also_below_zero() -> None:
    facts = confirmed()
    for number, final in enumerate((0.984375, -0.5, 0.5, -120.0, 0.9921875), start=2):
        trial = facts.plan(number, encoding__gamma=number + 0.5)
        for seed in range(2):
            facts.complete(trial, seed, final)
    facts.start(facts.plan(9, encoding__gamma=9.0), 0)
    history = History(facts.edition, facts.facts)
    ranks = {row.id[1]: row.tags["locus.rank"] for row in rows(history, "RUNNING") if row.id[0] == "trial"}
    assert sorted(ranks, key=ranks.__getitem__) == [trial.label for trial in ranked(history)]


def test_the_mark_of_the_best_moves_while_the_study_runs(home: Home, monkeypatch) -> None:
    monkeypatch.setattr(sync, "PAUSE_S", 0.0)
    facts, sent = Facts(search()), 0
    mlflow = told(home, facts, first=0)

    def best() -> list[str]:
        trials = [run for run in runs(home).values() if run.data.tags["locus.level"] == "trial"]
        return [run.info.run_name for run in trials if run.data.tags.get("locus.best")]

    for number, (gamma, final) in enumerate(((2.5, 0.75), (31.0, 1.0))):
        trial = facts.plan(number, encoding__gamma=gamma)
        for seed in range(2):
            facts.complete(trial, seed, final)
        for fact in facts.facts[sent:]:
            mlflow.add(fact)
        sent, name = len(facts.facts), title(facts.edition, trial)
        until(lambda name=name: best() == [name])
    assert mlflow.close("SCHEDULED") is None


def test_a_diverged_seeds_average_counts_as_chance_too(home):
    facts = Facts(search(base=BASE.put({"optimizer.ema_decay": 0.9})))
    facts.add(Counts(seeds=1, trials=1))
    run = facts.start(facts.plan(0, encoding__gamma=2.5), 0)
    facts.add(Measured(**run, epoch=1, values={"val/accuracy": 0.75, "val/accuracy_ema": 0.625}))
    facts.add(Ended(**run, outcome="diverged", epoch=2))
    show(home, facts)
    for metric in ("val/accuracy", "val/accuracy_ema"):
        assert points(home, runs(home)["#00 gamma=2.5"], f"{metric}_mean") == [(1, 0.5)]


def test_a_failed_run_says_why_until_it_succeeds(home):
    facts = Facts(search(seeds=1))
    trial = facts.plan(0, encoding__gamma=4.0)
    facts.add(FailedWith(**facts.start(trial, 0), reason="disk full"))
    show(home, facts, "SCHEDULED")
    run = runs(home)["#00 seed 0"]
    assert (run.info.status, run.data.tags["locus.reason"]) == ("FAILED", "disk full")
    assert runs(home)["#00 gamma=4"].data.tags["locus.reason"] == "disk full"
    facts.complete(trial, 0, 0.75)
    show(home, facts)
    again = runs(home)["#00 seed 0"]
    assert (again.info.run_id, again.info.status) == (run.info.run_id, "FINISHED")
    assert again.data.tags["locus.reason"] == ""


def test_arms_share_a_parent_and_an_answer_that_was_found_is_a_row(home):
    start = {"init": FromTrial(values={"encoding.kind": "none", "optimizer.epochs": 7})}
    edition = Study(
        name="arms", question="Which?", base=BASE, plan=Ablation({"plain": {}, "warm": start}, "plain"), seeds=2
    ).at()
    facts, arms = Facts(edition), edition.arms()
    for arm in arms:
        facts.add(Planned(role="trial", number=arm.number, name=arm.name, values=arm.plain()["values"]))
    (parent,) = Run(recipe=arms[1].recipe, seed=0).needs()
    facts.add(Planned(role="parent", number=1, name="none on direction", values={"key": parent.key}))
    for trial in (Trial(role="parent", number=1, name="none", values={}, recipe=parent.recipe), arms[1]):
        for seed in range(2):
            facts.complete(trial, seed, 0.75)
    reused = {"run": Run(recipe=arms[0].recipe, seed=0).key, "code": code_of(arms[0].recipe).digest}
    facts.measure(reused, 0.5, 0.625, 0.75)
    facts.add(Ended(**reused, outcome="completed", epoch=3, reused=True))
    show(home, facts)
    shown = runs(home)
    names = {"arms@base", "plain", "plain seed 0", "warm", "warm seed 0", "warm seed 1"}
    assert shown.keys() == names | {"p1 none on direction", "p1 seed 0", "p1 seed 1"}
    warm, first = shown["warm"].data.params, shown["p1 none on direction"]
    assert (warm["trial"], warm["init.kind"]) == ("warm", "from_trial")
    assert warm["init.values"] == "encoding.kind = none, optimizer.epochs = 7", "as it was written"
    assert first.data.params["encoding.kind"] == "none"
    assert points(home, first, "val/accuracy_n") == [(2, 2)]
    found = shown["plain seed 0"]
    assert (found.data.tags["locus.reused"], found.data.tags["locus.key"]) == ("true", reused["run"])
    assert points(home, found, "val/accuracy") == [(1, 0.5), (2, 0.625), (3, 0.75)]


def test_a_trial_has_the_parameters_that_its_recipe_sets_and_few_others():
    def params_of(values: dict) -> dict[str, str]:
        study = Study(name="arms", question="Which?", base=BASE, plan=Ablation({"a": {}, "b": values}, "a"), seeds=2)
        edition = study.at(set={"optimizer.weight_decay": 0.25}, name="mine")
        return trial_content(edition, edition.arms()[1]).params

    params = params_of({"encoding.kind": "peg", "encoding.places": [0, 1], "model.depth": 3})
    composed = params_of({"encoding": {"kind": "composed", "parts": [{"kind": "learnable"}, {"kind": "peg"}]}})
    always = {"trial", "role", "budget", "data.task", "parameters", "parameters.learnt", "encoding.kind"}
    assert params["budget"] == "base~mine"
    assert {path: text for path, text in params.items() if path not in always} == {
        "data.kind": "red_green", "model.kind": "vit", "model.depth": "3", "encoding.places": "0, 1",
        "optimizer.lr": str(BASE.optimizer.lr), "optimizer.epochs": "3", "optimizer.weight_decay": "0.25",
        "optimizer.batch_size": str(BASE.optimizer.batch_size), "test_sizes": "48",
    }  # fmt: skip
    assert composed["encoding.kind"] == "learnable+peg"
    assert (composed["encoding.parts.0.kind"], composed["encoding.parts.1.kind"]) == ("learnable", "peg")


def test_no_study_shows_many_parameters_long_ones_or_folders():
    for study in library.names():
        edition = library.find(study).at()
        plan = edition.study.plan
        for trial in edition.arms() if isinstance(plan, Ablation) else [edition.trial(0, dict(plan.first[0]))]:
            params = trial_content(edition, trial).params
            assert len(params) < 40, study
            assert max(map(len, params.values())) <= LONGEST + len(" ..."), study
            assert not [path for path in params if path.endswith(("source", "folder"))], study


def test_training_time_is_what_an_answer_costs_apart_from_when_it_was_scheduled(home) -> None:
    facts = Facts(search(seeds=3), epoch_s=8.0)
    trial = facts.plan(0, encoding__gamma=2.5)
    for seed, (epoch_s, final) in enumerate(((8.0, 0.97), (4.0, 0.98), (2.0, 0.98))):
        facts.epoch_s = epoch_s
        facts.complete(trial, seed, final)
        for _ in range(1000):
            next(facts.clock)  # the next seed waits for a worker
    show(home, facts)
    shown = runs(home)
    assert points(home, shown["#00 seed 0"], "time/train_s") == [(1, 8.0), (2, 16.0), (3, 24.0)]
    assert points(home, shown["#00 seed 1"], "time/train_s") == [(1, 4.0), (2, 8.0), (3, 12.0)]
    assert points(home, shown["#00 gamma=2.5"], "time/train_s") == [(3, 42.0)]
    metrics = {"val/accuracy_mean": 0.976667, "val/accuracy_std": 0.0057735}  # means have six digits
    assert metrics.items() <= shown["#00 gamma=2.5"].data.metrics.items()
    note = MlflowClient(home.tracking).get_run(shown["reach@base"].info.run_id).data.tags["mlflow.note.content"]
    assert "| #00 gamma=2.5 | point | 0.9767 ± 0.0058 (n 3) |  | 42 s | best |" in note


def test_the_two_rows_of_an_epoch_say_again_only_what_is_new() -> None:
    facts = Facts(search(), epoch_s=8.0)
    facts.complete(facts.plan(0, encoding__gamma=2.5), 0, 0.75)
    facts.measure(facts.start(facts.plan(1, encoding__gamma=3.0), 0), 0.5, 0.625)
    history = History(facts.edition, facts.facts)
    content, best = trial_content(facts.edition, history.trials[-1]), find_best(history)
    run, calls = history.runs(content.trial)[0], []

    def two_rows():
        return trial_row(history, content, best), run_row(history, content, run)

    first = two_rows()
    sys.setprofile(lambda frame, event, _: calls.append(frame.f_code.co_filename) if event == "call" else None)
    again = trial_row(history, content, best), run_row(history, content, run)
    sys.setprofile(None)
    files = {file for file in calls if file != "<string>"}  # what dataclasses generate lies in none
    print(f"{len(calls)} calls in {len(files)} files")
    assert first == again == two_rows()
    assert 50 < len(calls) <= MOST_CALLS
    assert len(files) <= MOST_FILES
