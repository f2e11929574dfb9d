"""The same MLflow runs however often the facts are passed on, and whatever goes wrong on the way."""

from __future__ import annotations

import threading
import time
from getpass import getuser
from itertools import count
from types import SimpleNamespace

import pytest
from filelock import FileLock
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

from search_spaces.study import Study
from service.storage.facts import Counts, FailedWith
from service.storage.home import Home
from service.tracking import store, sync
from service.tracking.store import MlflowError, look_up
from service.tracking.sync import MlflowSync, check
from tests.rooms.service.tracking.facts import Facts, everything, finished, points, runs, search, show, told
from tests.waiting import until
from trainables.recipe import Run, revisions
from trainables.recipe.revisions import code_of


def test_told_twice_nothing_is_sent_again_and_what_a_person_adds_stays(home, small, monkeypatch):
    monkeypatch.setenv("LOCUS_COMMIT", "1a2b3c4")
    show(home, small)
    client = MlflowClient(home.tracking)
    for run in runs(home).values():
        client.log_metric(run.info.run_id, "mine/score", 0.5, step=1)
        client.log_param(run.info.run_id, "mine", "7")
        client.set_tag(run.info.run_id, "mine", "looked at")
        client.log_text(run.info.run_id, "a text", "mine.txt")
        origin = {"mlflow.source.name": "locus", "mlflow.source.git.commit": "1a2b3c4", "mlflow.user": getuser()}
        assert origin.items() <= run.data.tags.items()
    before = everything(home)
    show(home, small)
    assert everything(home) == before
    assert len(runs(home, ViewType.ALL)) == len(before) == 9
    files = [file.path for id in before for file in client.list_artifacts(id)]
    assert sorted(files) == ["mine.txt"] * 9 + ["recipes.json"]
    calls = []
    verbs = ("create_run", "log_batch", "set_tag", "delete_run", "log_text", "log_inputs", "update_run")
    for verb in (*verbs, "set_terminated", "set_experiment_tag", "delete_experiment_tag"):
        monkeypatch.setattr(MlflowClient, verb, lambda *args, verb=verb, **kwargs: calls.append(verb))
    monkeypatch.setattr(store, "insert_runs", lambda *args: calls.append("insert"))
    show(home, small)
    assert calls == ["update_run", "log_inputs", "set_terminated"], "the study ran again, and ended"


def test_a_study_ends_after_its_files_were_sent_also_where_they_cannot_be(home, small, tmp_path, monkeypatch):
    seen = []

    def status(*args):
        seen.append(runs(home)["reach@base"].info.status)
        raise OSError("no space")

    monkeypatch.setattr(store.Store, "send_files", status)
    monkeypatch.setattr(sync, "CLOSE_S", 0.0)
    assert "no space" in told(home, small).close("FINISHED", tmp_path)
    assert {*seen} == {"RUNNING"}, "a driver that is killed there leaves files behind, and no damage"
    assert runs(home)["#00 seed 0"].info.status == "FINISHED"


@pytest.mark.parametrize("cut", [3, 9, 19])
def test_cut_anywhere_and_told_again_it_ends_the_same(home, small, cut):
    whole = small.facts
    small.facts = whole[:cut]
    show(home, small, "SCHEDULED")
    ids = {name: run.info.run_id for name, run in runs(home).items()}
    assert not [run for run in runs(home).values() if run.info.status == "RUNNING"]
    small.facts = whole
    show(home, small)
    after = runs(home)
    assert {name: after[name].info.run_id for name in ids} == ids
    assert points(home, after["#00 gamma=2.5"], "val/accuracy_n") == [(2, 2)]
    assert [step for step, _ in points(home, after["#00 seed 0"], "train/loss")] == [1, 2, 3]
    assert {run.info.status for run in after.values()} == {"FINISHED"}


def test_a_run_that_is_trained_again_shows_the_numbers_of_the_later_training(home, small):
    small.epoch_s = 1.0
    trial = small.plan(3, encoding__gamma=9.0)
    small.complete(trial, 0, 0.75)
    show(home, small)
    run = {"run": Run(recipe=trial.recipe, seed=0).key, "code": code_of(trial.recipe).digest}
    small.add(FailedWith(**run, reason="its answer is lost", counts=False))
    small.epoch_s = 3.0
    small.complete(trial, 0, 0.75)
    show(home, small)
    again = runs(home)["#03 seed 0"]
    assert points(home, again, "time/epoch_s") == [(1, 3.0), (2, 3.0), (3, 3.0)]
    assert again.data.tags["locus.trained_again"] == "1"
    before = everything(home)
    show(home, small)
    assert everything(home) == before


def test_an_interrupted_study_leaves_nothing_running_and_a_second_call_runs_again(home, small, monkeypatch):
    monkeypatch.setattr(sync, "PAUSE_S", 0.0)
    small.measure(small.start(small.plan(3, encoding__gamma=9.0), 0), 0.625)
    first = told(home, small)
    until(lambda: "#03 seed 0" in runs(home))  # it was shown long before the study is stopped
    assert first.close("SCHEDULED") is None
    shown = runs(home)
    states = {name: run.info.status for name, run in shown.items() if run.info.status != "FINISHED"}
    assert states == dict.fromkeys(["reach@base", "#03 gamma=9", "#03 seed 0"], "SCHEDULED")
    assert shown["#03 seed 0"].data.tags["locus.outcome"] == "stopped, continues"
    assert "val/accuracy_mean" not in shown["#03 gamma=9"].data.metrics
    again = told(home, small)
    until(lambda: runs(home)["reach@base"].info.status == "RUNNING")
    again.close("FINISHED")
    assert runs(home)["reach@base"].info.status == "FINISHED"


def test_more_seeds_add_a_mean_to_the_trial_and_keep_its_runs(home, small):
    show(home, small)
    before = {name: run.info.run_id for name, run in runs(home).items()}
    grown = Facts(search(seeds=3), small.facts, small.clock)
    grown.add(Counts(seeds=3, trials=4))
    grown.complete(grown.edition.trial(0, {"encoding.gamma": 2.5}), 2, 1.0)
    show(home, grown)
    after = runs(home)
    trial = after["#00 gamma=2.5"]
    assert {name: after[name].info.run_id for name in before} == before
    assert points(home, trial, "val/accuracy_n") == [(2, 2), (3, 3)]
    assert trial.data.metrics["val/accuracy_mean"] == (0.75 + 0.875 + 1.0) / 3
    assert after["#00 seed 2"].data.tags["mlflow.parentRunId"] == trial.info.run_id


def test_other_code_replaces_what_it_trains_again_and_means_of_the_old_one_leave(home, small, monkeypatch):
    show(home, small)
    before, trials = runs(home), [small.edition.trial(n, {"encoding.gamma": g}) for n, g in enumerate((2.5, 31.0, 1.5))]
    monkeypatch.setattr(revisions, "LOOP", 1001)
    small.add(FailedWith(**small.start(trials[0], 1), reason="no memory"))
    small.complete(trials[0], 0, 0.625)
    show(home, small, "SCHEDULED")
    after = runs(home)
    assert after["#00 seed 0"].info.run_id != before["#00 seed 0"].info.run_id
    assert points(home, after["#00 seed 0"], "val/accuracy")[-1] == (3, 0.625)
    assert after["#01 seed 0"].info.run_id == before["#01 seed 0"].info.run_id
    assert "val/accuracy_mean" not in after["#00 gamma=2.5"].data.metrics
    for revision, final, best in ((1002, 0.5, None), (1003, 1.0, 1.0)):
        monkeypatch.setattr(revisions, "LOOP", revision)
        for trial in trials:
            for seed in range(2):
                small.complete(trial, seed, final)
        show(home, small)
        study = runs(home)["reach@base"].data
        assert (study.tags["locus.best"] == "") == (best is None), "no trial is above chance"
    assert study.metrics["best/val/accuracy_mean"] == 1.0


def test_a_journal_that_was_cut_and_went_on_otherwise_is_shown_as_it_is(home, small):
    """Where a search goes on with another point, no row keeps the values of the first one, and none is left over."""
    other = Facts(small.edition, [*small.facts], small.clock)
    for number, gamma in ((3, 9.0), (4, 12.0)):
        small.start(small.plan(number, encoding__gamma=gamma), 0)
    show(home, small, "SCHEDULED")
    assert runs(home)["#03 gamma=9"].data.params["encoding.gamma"] == "9"
    other.start(other.plan(3, encoding__gamma=4.0), 0)
    show(home, other, "SCHEDULED")
    shown = runs(home)
    assert len(shown) == 11
    for name in ("#03 gamma=4", "#03 seed 0"):
        assert shown[name].data.params["encoding.gamma"] == "4"


def test_two_studies_at_once_share_a_store(home):
    studies = [Facts(Study(**{**dict(search().study), "name": name}).at()) for name in ("reach", "other")]
    for facts in studies:
        facts.complete(facts.plan(0, encoding__gamma=4.0), 0, 0.75)
    threads = [threading.Thread(target=show, args=(home, facts)) for facts in studies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [len(look_up(home, facts.edition).shown) for facts in studies] == [3, 3]


def test_a_server_that_is_lost_is_refused_before_anything_is_written_and_has_no_links(tmp_path, small):
    home = Home(tmp_path / "home")
    with pytest.raises(MlflowError) as refused:
        check(home, "http://127.0.0.1:1")
    assert str(refused.value) == (
        "MLflow at http://127.0.0.1:1 does not answer (5 s); "
        f"start it, or unset MLFLOW_TRACKING_URI to use {home.root}/mlflow.db"
    )
    assert not home.root.exists()
    with pytest.raises(MlflowError, match="must begin with"):
        check(home, (tmp_path / "mlruns").as_uri())
    shown = MlflowSync(small.edition, home, "http://127.0.0.1:9")
    shown._made.set()  # as after a time at which it was there
    assert shown.links(0) is None


def test_trouble_never_reaches_the_driver(home, small, monkeypatch):
    monkeypatch.setattr(sync, "PAUSE_S", 0.0)
    with FileLock(home.root / "mlflow.lock"):  # MLflow stands still
        shown = told(home, small, f"sqlite:///{home.database}/in-a-file.db")
    for name, seconds in (("SOON_S", 0.2), ("CLOSE_S", 1.0), ("LAST_S", 60.0)):
        monkeypatch.setattr(sync, name, seconds)
    notes = []
    assert "MLflow lacks a part" in shown.close("FINISHED", note=notes.append)
    assert notes[0].startswith("waiting for MLflow (")


@pytest.mark.parametrize("pause_s", [0.0, 60.0])
def test_what_failed_once_is_sent_later(home, small, monkeypatch, pause_s):
    monkeypatch.setattr(sync, "PAUSE_S", pause_s)
    calls = count()

    def shaky(real):
        def call(*args, **kwargs):
            if next(calls) in (0, 3):
                raise OSError("the network is away")
            return real(*args, **kwargs)

        return call

    monkeypatch.setattr(MlflowClient, "log_batch", shaky(MlflowClient.log_batch))
    monkeypatch.setattr(store, "insert_runs", shaky(store.insert_runs))
    shown = told(home, small, first=0)
    for fact in small.facts:
        shown.add(fact)
        until(shown._queue.empty)
    assert shown.close("FINISHED") is None
    shown_twice = everything(home)
    show(home, small)
    assert everything(home) == shown_twice
    assert len(shown_twice) == 9


def test_the_end_waits_as_long_as_rows_are_stored_and_says_how_far_it_is(home: Home, monkeypatch) -> None:
    facts = finished(trials=4, seeds=2)
    shown = MlflowSync(facts.edition, home)
    clock = SimpleNamespace(monotonic=lambda: 50.0 * shown._written, sleep=time.sleep)  # a call takes 50 s
    monkeypatch.setattr(sync, "MOST_ROWS", 2)
    monkeypatch.setattr(sync, "time", clock)
    monkeypatch.setattr(sync, "TICK_S", 0.001)
    shown.open()
    for fact in facts.facts:
        shown.add(fact)
    notes: list[str] = []
    assert shown.close("FINISHED", note=notes.append) is None
    assert clock.monotonic() > 3 * sync.CLOSE_S
    assert len(look_up(home, facts.edition).shown) == 13
    assert any("of 13 rows are there" in line for line in notes), notes
