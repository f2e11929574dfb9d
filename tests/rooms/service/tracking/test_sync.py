"""The shop window: the same MLflow runs however often it is told, and what each level shows."""

from __future__ import annotations

import shutil
import statistics
import threading
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study, Trial
from service.storage.home import Home
from service.storage.journal import Confirms, Counts, Ended, FailedWith, Measured, Planned, Started, StoppedAt
from service.tracking import sync as mirror
from service.tracking.sync import Mirror, MirrorError
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.cost import weigh
from trainables.recipe.outcome import at_image_size

EPOCHS = 3
BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": EPOCHS, "test_sizes": [48]})


@dataclass
class Facts:
    """A journal in memory, written in the order in which a driver would."""

    edition: Edition
    facts: list = field(default_factory=list)
    clock: count = field(default_factory=lambda: count(1_700_000_000))
    code: str = "c0de"

    def add(self, fact) -> None:
        self.facts.append(fact.model_copy(update={"time": next(self.clock) + 0.25}))

    def plan(self, number: int, role: str = "trial", **values) -> Trial:
        values = {path.replace("__", "."): value for path, value in values.items()}
        trial = self.edition.trial(number, values)
        self.add(Planned(role=role, number=number, name=trial.name, values=values))
        return Trial(**{**dict(trial), "role": role})

    def start(self, trial: Trial, seed: int, attempt: int = 1) -> dict:
        known = {"run": Run(recipe=trial.recipe, seed=seed).key, "code": self.code}
        self.add(Started(**known, attempt=attempt, seed=seed, label=trial.label))
        return known

    def measure(self, known: dict, *values: float) -> None:
        for epoch, value in enumerate(values, start=1):
            said = {"train/loss": 1 - value, "val/accuracy": value}
            tests = {"test/accuracy": value - 0.125, at_image_size("test/accuracy", 48): value - 0.25}
            said |= tests if epoch == EPOCHS else {}
            self.add(Measured(**known, epoch=epoch, values=said))

    def complete(self, trial: Trial, seed: int, final: float) -> None:
        known = self.start(trial, seed)
        self.measure(known, 0.25, 0.5, final)
        self.add(Ended(**known, outcome="completed", epoch=EPOCHS))


def search(seeds: int = 2) -> Edition:
    plan = Search(space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}), trials=4, stop=Halving())
    return Study(name="reach", question="How far?", base=BASE, plan=plan, seeds=seeds, family="thesis").at()


@pytest.fixture(scope="session")
def database(tmp_path_factory) -> Path:
    """An empty MLflow database: its migrations take seconds, a copy none."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    MlflowClient(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def home(tmp_path, database) -> Home:
    shutil.copy(database, tmp_path / "mlflow.db")
    return Home(tmp_path)


def show(home: Home, facts: Facts, ended: str = "FINISHED", report: Path | None = None) -> None:
    shown = Mirror(facts.edition, home, lambda recipe: facts.code)
    shown.check()
    shown.open()
    for fact in facts.facts:
        shown.tell(fact)
    assert shown.close(ended, report) is None


def runs(home: Home, view: int = ViewType.ACTIVE_ONLY) -> dict:
    client = MlflowClient(home.tracking)
    found = client.search_runs([e.experiment_id for e in client.search_experiments()], "", view)
    by_name = {run.info.run_name: run for run in found}
    assert view != ViewType.ACTIVE_ONLY or len(by_name) == len(found), "no doubles"
    return by_name


def points(home: Home, run, metric: str) -> list[tuple[int, float]]:
    return [
        (point.step, point.value) for point in MlflowClient(home.tracking).get_metric_history(run.info.run_id, metric)
    ]


def everything(home: Home) -> dict:
    return {
        run.info.run_id: (
            run.info.status,
            run.data.params,
            run.data.tags,
            {m: points(home, run, m) for m in run.data.metrics},
        )
        for run in runs(home).values()
    }


@pytest.fixture
def small() -> Facts:
    """Three trials: one completed with two seeds, one stopped, one diverged in its second seed."""
    facts = Facts(search())
    facts.add(Counts(seeds=2, trials=4))
    good, stopped, uneven = (facts.plan(number, encoding__gamma=gamma) for number, gamma in enumerate((2.5, 31.0, 1.5)))
    facts.complete(good, 0, 0.75)
    known = facts.start(stopped, 0)
    facts.measure(known, 0.5)
    facts.add(StoppedAt(**known, epoch=1, cutoff=0.625))
    facts.complete(uneven, 0, 1.0)
    known = facts.start(uneven, 1)
    facts.measure(known, 0.5)
    facts.add(Ended(**known, outcome="diverged", epoch=2))
    facts.complete(good, 1, 0.875)
    return facts


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
    }
    known |= {"parameters": str(weigh(Recipe(encoding=Fourier())).parameters)}
    known |= {"parameters.learnt": known["parameters"]}
    assert study.data.params == {"budget": "base"}
    assert trial.data.params == known
    assert run.data.params == known | {"seed": "1"}
    assert trial.data.tags["mlflow.parentRunId"] == study.info.run_id
    assert run.data.tags["mlflow.parentRunId"] == trial.info.run_id
    assert {r.info.status for r in shown.values()} == {"FINISHED"}
    assert study.data.tags["locus.seeds"] == "2"
    assert study.data.tags["locus.trials"] == "4"
    assert study.data.tags["locus.best"] == "#00 gamma=2.5"
    assert study.data.metrics["best/val/accuracy_mean"] == statistics.fmean([0.75, 0.875])
    assert (study.data.metrics["progress/runs"], study.data.metrics["progress/trials"]) == (5, 3)
    for name, tag in {
        "level": "run",
        "number": "0",
        "outcome": "completed",
        "code": "c0de",
        "study": "reach@base",
    }.items():
        assert run.data.tags[f"locus.{name}"] == tag
    assert run.inputs.dataset_inputs[0].dataset.name == "red_green/direction"


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


def test_a_trial_has_its_mean_curve(home, small):
    show(home, small)
    trial = runs(home)["#00 gamma=2.5"]
    assert points(home, trial, "val/accuracy_mean") == [(1, 0.25), (2, 0.5), (3, statistics.fmean([0.75, 0.875]))]
    assert points(home, trial, "val/accuracy_std")[-1] == (3, pytest.approx(statistics.stdev([0.75, 0.875])))
    assert points(home, trial, "val/accuracy_n") == [(1, 2), (2, 2), (3, 2)]
    assert "test/accuracy_mean" not in trial.data.metrics, "the test set is not looked at for a search's points"


def test_a_diverged_seed_counts_as_chance_from_then_on(home, small):
    show(home, small)
    trial = runs(home)["#02 gamma=1.5"]
    assert points(home, trial, "val/accuracy_mean") == [(1, 0.375), (2, 0.5), (3, (1.0 + 0.5) / 2)]
    assert runs(home)["#02 seed 1"].data.tags["locus.reason"] == "diverged after epoch 1; counts as chance"


def test_a_stopped_trial_says_why(home, small):
    show(home, small)
    trial = runs(home)["#01 gamma=31"]
    assert trial.data.tags["locus.outcome"] == "stopped"
    assert trial.data.tags["locus.reason"] == "stopped at epoch 1 (cut-off 0.625)"
    assert points(home, trial, "val/accuracy_n") == [(1, 1)]


def test_the_recipe_comes_back_from_its_artifact(home, small, tmp_path):
    show(home, small)
    run_id = runs(home)["#01 gamma=31"].info.run_id
    path = MlflowClient(home.tracking).download_artifacts(run_id, "recipe.json", str(tmp_path))
    assert Recipe.model_validate_json(Path(path).read_text()) == BASE.put({"encoding.gamma": 31.0})
    assert (home.artifacts / run_id / "artifacts" / "recipe.json").exists()


def test_told_twice_nothing_changes(home, small):
    show(home, small)
    before = everything(home)
    show(home, small)
    assert everything(home) == before
    assert len(runs(home, ViewType.ALL)) == len(before)


def test_what_is_there_is_not_sent_again(home, small, monkeypatch):
    show(home, small)
    calls = []
    for verb in ("create_run", "log_batch", "set_tag", "delete_run", "log_text", "log_inputs", "set_terminated"):
        monkeypatch.setattr(MlflowClient, verb, lambda *args, verb=verb, **kwargs: calls.append(verb))
    show(home, small)
    assert calls == ["set_terminated"], "the study ran again, and ended"
    calls.clear()
    small.add(Counts(seeds=2, trials=4))
    show(home, small)
    assert calls == ["set_terminated"], "a fact that says nothing new to MLflow"


@pytest.mark.parametrize("cut", [3, 7, 9, 14, 19])
def test_cut_anywhere_and_told_again_it_ends_the_same(home, small, cut):
    whole = small.facts
    small.facts = whole[:cut]
    show(home, small, "KILLED")
    ids = {name: run.info.run_id for name, run in runs(home).items()}
    assert not [run for run in runs(home).values() if run.info.status == "RUNNING"]
    small.facts = whole
    show(home, small)
    after = runs(home)
    assert {name: after[name].info.run_id for name in ids} == ids
    assert points(home, after["#00 gamma=2.5"], "val/accuracy_n") == [(1, 2), (2, 2), (3, 2)]
    assert [step for step, _ in points(home, after["#00 seed 0"], "train/loss")] == [1, 2, 3]
    assert {run.info.status for run in after.values()} == {"FINISHED"}


def test_an_interrupted_study_leaves_nothing_running(home, small):
    known = small.start(small.plan(3, encoding__gamma=9.0), 0)
    small.measure(known, 0.625)
    show(home, small, "KILLED")
    shown = runs(home)
    states = {name: run.info.status for name, run in shown.items() if run.info.status != "FINISHED"}
    assert states == dict.fromkeys(["reach@base", "#03 gamma=9", "#03 seed 0"], "KILLED")
    assert shown["#03 seed 0"].data.tags["locus.outcome"] == "interrupted"
    assert "val/accuracy_mean" not in shown["#03 gamma=9"].data.metrics


def test_a_run_shown_long_ago_is_killed_with_its_study(home, small, monkeypatch):
    monkeypatch.setattr(mirror, "PAUSE_S", 0.0)
    small.start(small.plan(3, encoding__gamma=9.0), 0)
    shown = Mirror(small.edition, home, lambda recipe: "c0de")
    shown.open()
    for fact in small.facts:
        shown.tell(fact)
    until = time.monotonic() + 20
    while "#03 seed 0" not in runs(home) and time.monotonic() < until:
        time.sleep(0.05)
    assert shown.close("KILLED") is None
    assert runs(home)["#03 seed 0"].info.status == "KILLED"


def test_a_second_call_runs_again(home, small):
    show(home, small, "KILLED")
    again = Mirror(small.edition, home, lambda recipe: "c0de")
    again.open()
    for fact in small.facts:
        again.tell(fact)
    again._made.wait(10)
    assert runs(home)["reach@base"].info.status == "RUNNING"
    again.close("FINISHED")
    assert runs(home)["reach@base"].info.status == "FINISHED"


def test_more_seeds_replace_the_trial_and_keep_its_runs(home, small):
    show(home, small)
    before = runs(home)
    grown = Facts(search(seeds=3), small.facts, small.clock)
    grown.add(Counts(seeds=3, trials=4))
    grown.complete(grown.edition.trial(0, {"encoding.gamma": 2.5}), 2, 1.0)
    show(home, grown)
    after = runs(home)
    trial = after["#00 gamma=2.5"]
    assert trial.info.run_id != before["#00 gamma=2.5"].info.run_id
    assert points(home, trial, "val/accuracy_n") == [(1, 3), (2, 3), (3, 3)]
    for seed in range(3):
        assert after[f"#00 seed {seed}"].data.tags["mlflow.parentRunId"] == trial.info.run_id
    assert after["#00 seed 0"].info.run_id == before["#00 seed 0"].info.run_id
    assert after["#01 gamma=31"].info.run_id == before["#01 gamma=31"].info.run_id


def test_other_code_replaces_what_it_trains_again(home, small):
    show(home, small)
    before = runs(home)
    newer = Facts(small.edition, small.facts, small.clock, code="newer")
    newer.complete(newer.edition.trial(0, {"encoding.gamma": 2.5}), 0, 0.625)
    show(home, newer)
    after = runs(home)
    assert after["#00 seed 0"].info.run_id != before["#00 seed 0"].info.run_id
    assert points(home, after["#00 seed 0"], "val/accuracy")[-1] == (3, 0.625)
    assert after["#00 seed 1"].info.run_id == before["#00 seed 1"].info.run_id


def test_a_failed_run_says_why_until_it_succeeds(home):
    facts = Facts(search(seeds=1))
    trial = facts.plan(0, encoding__gamma=4.0)
    known = facts.start(trial, 0)
    facts.add(FailedWith(**known, reason="disk full"))
    show(home, facts, "KILLED")
    run = runs(home)["#00 seed 0"]
    assert (run.info.status, run.data.tags["locus.reason"]) == ("FAILED", "disk full")
    assert runs(home)["#00 gamma=4"].data.tags["locus.reason"] == "disk full"
    facts.complete(trial, 0, 0.75)
    show(home, facts)
    again = runs(home)["#00 seed 0"]
    assert (again.info.run_id, again.info.status) == (run.info.run_id, "FINISHED")
    assert "locus.reason" not in again.data.tags


def test_a_reused_run_a_confirmation_and_a_parent_are_rows_of_their_own(home):
    facts = Facts(search())
    trial = facts.plan(0, encoding__gamma=4.0)
    key = Run(recipe=trial.recipe, seed=0).key
    facts.measure({"run": key, "code": "c0de"}, 0.5, 0.625, 0.75)
    facts.add(Ended(run=key, code="c0de", outcome="completed", epoch=3, reused=True))
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
    assert points(home, shown["p1 none on direction"], "val/accuracy_n")[-1] == (3, 2)


def test_the_report_lies_on_the_parent(home, small, tmp_path):
    (tmp_path / "report").mkdir()
    (tmp_path / "report" / "index.html").write_text("<p>all is well")
    show(home, small, report=tmp_path / "report")
    listed = MlflowClient(home.tracking).list_artifacts(runs(home)["reach@base"].info.run_id, "report")
    assert [file.path for file in listed] == ["report/index.html"]


def test_two_studies_at_once_share_a_store(home):
    facts = []
    for name in ("reach", "other"):
        study = Study(**{**dict(search().study), "name": name})
        facts.append(Facts(study.at()))
        facts[-1].complete(facts[-1].plan(0, encoding__gamma=4.0), 0, 0.75)
    threads = [threading.Thread(target=show, args=(home, one)) for one in facts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    client = MlflowClient(home.tracking)
    assert [e.name for e in client.search_experiments()].count("thesis") == 1
    assert len(client.search_runs([client.get_experiment_by_name("thesis").experiment_id])) == 6


def test_a_server_that_does_not_answer_is_refused_before_anything_is_written(tmp_path):
    home = Home(tmp_path / "home")
    with pytest.raises(MirrorError) as refused:
        Mirror(search(), home, lambda recipe: "c0de", "http://127.0.0.1:1").check()
    assert str(refused.value) == (
        "MLflow at http://127.0.0.1:1 does not answer (5 s); "
        f"start it, or unset MLFLOW_TRACKING_URI to use {home.root}/mlflow.db"
    )
    assert not home.root.exists()
    with pytest.raises(MirrorError, match="must begin with"):
        Mirror(search(), home, lambda recipe: "c0de", "file:///tmp/x").check()


def test_trouble_never_reaches_the_driver(home, small, monkeypatch):
    monkeypatch.setattr(mirror, "PAUSE_S", 0.0)
    shown = Mirror(small.edition, home, lambda recipe: "c0de", f"sqlite:///{home.root}/mlflow.db/in-a-file.db")
    shown.open()
    began = time.monotonic()
    for fact in small.facts:
        shown.tell(fact)
    assert time.monotonic() - began < 0.1
    assert "MLflow lacks a part" in shown.close("FINISHED")


@pytest.mark.parametrize("pause_s", [0.0, 60.0])
def test_what_failed_once_is_sent_later(home, small, monkeypatch, pause_s):
    monkeypatch.setattr(mirror, "PAUSE_S", pause_s)
    shown = Mirror(small.edition, home, lambda recipe: "c0de")
    real, calls = MlflowClient.log_batch, count()

    def shaky(self, *args, **kwargs):
        if next(calls) in (0, 3):
            raise OSError("the network is away")
        return real(self, *args, **kwargs)

    monkeypatch.setattr(MlflowClient, "log_batch", shaky)
    shown.open()
    for fact in small.facts:
        shown.tell(fact)
        time.sleep(0.02)
    assert shown.close("FINISHED") is None
    shown_twice = everything(home)
    show(home, small)
    assert everything(home) == shown_twice
    assert len(shown_twice) == 9
