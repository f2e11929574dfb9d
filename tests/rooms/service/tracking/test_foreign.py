"""An experiment of another person stays as it is, whichever way a study comes to be shown in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

from service.storage.home import Home, place_in_words
from service.tracking.store import NOTE, WRITTEN, MlflowError, look_up
from service.tracking.sync import check
from service.tracking.views import leave
from tests.rooms.service.tracking.facts import Facts, search, show, told

THEIRS = "My own sweeps of churn models. Do not add runs here."


def foreign(client: MlflowClient, name: str) -> str:
    """An experiment with a run and a note, as a person makes them; its id."""
    folder = Path(client.tracking_uri.removeprefix("sqlite:///")).parent  # else its files would lie where tests are run
    tags = {NOTE: THEIRS, "team": "churn", "mlflow.experimentKind": "genai"}
    id = client.create_experiment(name, (folder / "theirs").as_uri(), tags=tags)
    run = client.create_run(id, run_name="mine")
    client.log_param(run.info.run_id, "depth", "7")
    client.log_metric(run.info.run_id, "auc", 0.75, timestamp=5, step=1)
    client.log_metric(run.info.run_id, "auc", 0.875, timestamp=6, step=2)
    client.set_tag(run.info.run_id, "locus.study", "reach@base")
    client.set_terminated(run.info.run_id, end_time=7)
    return id


def seen(client: MlflowClient, id: str) -> tuple[dict, dict]:
    """An experiment's tags and its runs, without what locus added."""
    experiment = client.get_experiment(id)
    tags = {name: text for name, text in experiment.tags.items() if "locus" not in name and "sharedView" not in name}
    found = {}
    for run in client.search_runs([id], "", ViewType.ALL):
        if "locus.home" not in run.data.tags:
            curves = {name: client.get_metric_history(run.info.run_id, name) for name in run.data.metrics}
            found[run.info.run_id] = str(run.to_dictionary()), str(curves)
    return tags, found


@pytest.mark.parametrize("how", ["default", "option", "environment"])
def test_runs_tags_and_note_of_another_person_stay(home: Home, small: Facts, monkeypatch, how: str) -> None:
    client = MlflowClient(home.tracking)
    id = foreign(client, "locus/reach" if how == "default" else "churn")
    before = seen(client, id)
    if how == "environment":
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "churn")
    for _ in range(2):
        show(home, small, experiment="churn" if how == "option" else None)
        assert seen(client, id) == before
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    found = look_up(home, small.edition)
    assert found.experiment == id, "it is found where it was put, whatever is chosen now"
    assert len(found.shown) == 9
    found.delete(home.artifacts)
    leave(found)
    assert seen(client, id) == before
    assert {*client.get_experiment(id).tags} == {NOTE, "team", "mlflow.experimentKind"}, "nothing of locus is left"


def test_an_experiment_called_sweeps_is_not_touched_by_a_sweep(home: Home, small: Facts) -> None:
    client = MlflowClient(home.tracking)
    ids = {name: foreign(client, name) for name in ("sweeps", "thesis")}
    before = {name: client.get_experiment(id).tags for name, id in ids.items()}
    show(home, small)
    assert {name: client.get_experiment(id).tags for name, id in ids.items()} == before
    assert [len(client.search_runs([id])) for id in ids.values()] == [1, 1]


def test_a_note_that_a_person_wrote_later_stays_too(home: Home, small: Facts) -> None:
    show(home, small)
    client = MlflowClient(home.tracking)
    id = client.get_experiment_by_name("locus/reach").experiment_id
    assert client.get_experiment(id).tags[NOTE].startswith("Trials, best first: [reach@base]")
    client.set_experiment_tag(id, NOTE, THEIRS)
    show(home, small)
    assert client.get_experiment(id).tags[NOTE] == THEIRS


def test_a_crash_between_the_two_calls_makes_no_note_a_person_s(home: Home, small: Facts, monkeypatch) -> None:
    real = MlflowClient.set_experiment_tag

    def dies(self, id: str, name: str, value: str) -> None:
        if name == NOTE:
            raise OSError("the network is away")
        real(self, id, name, value)

    monkeypatch.setattr(MlflowClient, "set_experiment_tag", dies)
    monkeypatch.setattr("service.tracking.sync.CLOSE_S", 0.0)
    with pytest.raises(AssertionError):
        show(home, small)
    monkeypatch.setattr(MlflowClient, "set_experiment_tag", real)
    show(home, small)
    show(home, small)
    tags = MlflowClient(home.tracking).get_experiment_by_name("locus/reach").tags
    assert tags[NOTE].startswith("Trials, best first")
    assert len(tags[WRITTEN].split()) == 1


def test_a_study_that_is_put_elsewhere_is_there_once(home: Home, small: Facts) -> None:
    show(home, small)
    client = MlflowClient(home.tracking)
    first = client.get_experiment_by_name("locus/reach").experiment_id
    show(home, small, experiment="mine")
    show(home, small)
    found = look_up(home, small.edition)
    assert client.get_experiment(found.experiment).name == "mine"
    assert (len(found.shown), found.others, client.search_runs([first])) == (9, [], [])
    assert not any("reach" in tag for tag in client.get_experiment(first).tags)


def test_another_person_s_experiment_in_the_trash_stays_there(home: Home, small: Facts) -> None:
    client = MlflowClient(home.tracking)
    id = foreign(client, "churn")
    client.delete_experiment(id)
    assert "'churn' must be one that is not in its trash" in told(home, small, None, "churn").close("FINISHED")
    assert client.get_experiment(id).lifecycle_stage == "deleted"


def test_a_plan_says_which_store_and_which_experiment(home: Home, monkeypatch, small) -> None:
    id = search().id
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    assert place_in_words(home, id) == f"MLflow: {home.database}, experiment locus/reach"
    server = "postgresql://me:word@host/db"
    assert place_in_words(home, id, server, "x") == "MLflow: postgresql://me:***@host/db, experiment x"
    home.study(id).root.mkdir(parents=True)
    show(home, small, experiment="mine")
    assert place_in_words(home, id).endswith("experiment mine")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    assert place_in_words(home, id).endswith("experiment theirs")
    with pytest.raises(MlflowError, match="must begin with"):
        check(home, "nothing:x")
