"""Several homes on one MLflow, copied homes, and what a person made there: nobody's is taken for another's."""

from __future__ import annotations

import errno
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from mlflow.entities import ViewType
from mlflow.tracking import MlflowClient

import service
from service.removal import forgettable
from service.storage.editions import save_edition
from service.storage.home import Home, place_in_words
from service.storage.journal import Journal
from service.tracking.store import NOTE, WRITTEN, MlflowError, look_up
from service.tracking.sync import check
from service.tracking.views import PREFIX, leave
from tests.rooms.service.execution.studies import arms
from tests.rooms.service.tracking.facts import Facts, runs, search, show, tags_of, told, unpacked
from tests.rooms.toy import conduct
from tests.waiting import until

THEIRS = "My own sweeps of churn models. Do not add runs here."


def foreign(client: MlflowClient, name: str) -> str:
    """An experiment with a run and a note, as a person makes them; its id."""
    folder = Path(client.tracking_uri.removeprefix("sqlite:///")).parent  # else its files would lie where tests are run
    tags = {NOTE: THEIRS, "team": "churn", "mlflow.experimentKind": "genai"}
    id = client.create_experiment(name, (folder / "theirs").as_uri(), tags=tags)
    run = client.create_run(id, run_name="mine").info.run_id
    client.log_param(run, "depth", "7")
    for step, value in ((1, 0.75), (2, 0.875)):
        client.log_metric(run, "auc", value, timestamp=5, step=step)
    client.set_tag(run, "locus.study", "reach@base")
    client.set_terminated(run, end_time=7)
    return id


def seen(client: MlflowClient, id: str) -> tuple[dict, dict]:
    """An experiment's tags and its runs, without what locus added."""
    tags = {name: text for name, text in client.get_experiment(id).tags.items()}
    tags = {name: text for name, text in tags.items() if "locus" not in name and "sharedView" not in name}
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
    other = foreign(client, "sweeps")
    before, before_other = seen(client, id), seen(client, other)
    if how == "environment":
        monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "churn")
    for _ in range(2):
        show(home, small, experiment="churn" if how == "option" else None)
        assert seen(client, id) == before
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    store = look_up(home, small.edition)
    assert store.experiment == id, "it is found where it was put, whatever is chosen now"
    assert len(store.shown) == 9
    store.delete(home.artifacts)
    leave(store)
    assert seen(client, id) == before
    assert {*client.get_experiment(id).tags} == {NOTE, "team", "mlflow.experimentKind"}, "nothing of locus is left"
    assert (seen(client, other), len(client.search_runs([other]))) == (before_other, 1)
    client.delete_experiment(other)
    assert "'sweeps' must be one that is not in its trash" in told(home, small, None, "sweeps").close("FINISHED")
    assert client.get_experiment(other).lifecycle_stage == "deleted"


def test_a_note_is_of_a_person_once_she_wrote_it_and_by_no_crash(home: Home, small: Facts, monkeypatch) -> None:
    real = MlflowClient.set_experiment_tag

    def dies(self, id: str, name: str, value: str) -> None:
        if name == NOTE:
            raise OSError("the network is away")
        real(self, id, name, value)

    with monkeypatch.context() as patch:  # between the two calls
        patch.setattr(MlflowClient, "set_experiment_tag", dies)
        patch.setattr("service.tracking.sync.CLOSE_S", 0.0)
        with pytest.raises(AssertionError):
            show(home, small)
    for _ in range(2):
        show(home, small)
    assert tags_of(home)[NOTE].startswith("Trials, best first: [reach@base]")
    assert len(tags_of(home)[WRITTEN].split()) == 1
    client = MlflowClient(home.tracking)
    client.set_experiment_tag(client.get_experiment_by_name("locus/reach").experiment_id, NOTE, THEIRS)
    show(home, small)
    assert tags_of(home)[NOTE] == THEIRS


def test_a_study_that_is_put_elsewhere_is_there_once_and_a_plan_says_where(home: Home, small: Facts, monkeypatch):
    id = search().id
    monkeypatch.delenv("MLFLOW_EXPERIMENT_NAME", raising=False)
    assert place_in_words(home, id) == f"MLflow: {home.database}, experiment locus/reach"
    server = "postgresql://me:word@host/db"
    assert place_in_words(home, id, server, "x") == "MLflow: postgresql://me:***@host/db, experiment x"
    with pytest.raises(MlflowError, match="must begin with"):
        check(home, "nothing:x")
    show(home, small)
    client = MlflowClient(home.tracking)
    first = client.get_experiment_by_name("locus/reach").experiment_id
    show(home, small, experiment="mine")
    show(home, small)
    store = look_up(home, small.edition)
    assert client.get_experiment(store.experiment).name == "mine"
    assert (len(store.shown), store.others, client.search_runs([first])) == (9, [], [])
    assert not any("reach" in tag for tag in client.get_experiment(first).tags)
    assert place_in_words(home, id).endswith("experiment mine")
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "theirs")
    assert place_in_words(home, id).endswith("experiment theirs")


def scored(score: float) -> Facts:
    facts = Facts(search())
    facts.complete(facts.plan(0, encoding__gamma=2.5), 0, score)
    return facts


def stored(home: Home, server: str) -> dict:
    """What MLflow has of each row of a home's study."""
    store = look_up(home, search(), server)
    stage = MlflowClient(server).get_run
    return {row: (vars(run), stage(run.id).info.lifecycle_stage) for row, run in store.shown.items()}


@pytest.mark.parametrize("copied", [False, True])
def test_two_homes_with_the_same_study_keep_their_own_runs_and_views(home, tmp_path_factory, copied):
    bob, server = Home(tmp_path_factory.mktemp("bob")), home.tracking
    show(home, scored(0.9), tracking=server)
    if copied:  # a home that was copied is a home of its own
        shutil.copy(home.root / "id", bob.root / "id")
    assert look_up(bob, search(), server) is None
    before = stored(home, server)
    show(bob, scored(0.6), tracking=server)
    assert stored(home, server) == before
    theirs = stored(bob, server)
    ids = [{run["id"] for run, _ in rows.values()} for rows in (before, theirs)]
    assert not ids[0] & ids[1]
    assert theirs["run", "0", 0][0]["latest"]["val/accuracy"] == 0.6
    show(home, scored(0.9), tracking=server)
    assert {run["id"] for run, _ in stored(home, server).values()} == ids[0]
    assert stored(bob, server) == theirs

    client, tags = MlflowClient(server), tags_of(home)
    for each in (home, bob):
        views = [unpacked(text) for tag, text in tags.items() if tag.startswith(f"{PREFIX}{each.id}.")]
        assert len(views) == 3
        assert f"reach@base (home {each.id})" in tags[NOTE]
        for view in views:
            assert {r.data.tags["locus.home"] for r in client.search_runs(["1"], view["searchFilter"])} == {each.id}

    facts, folder = scored(0.9), home.study(search().id)
    save_edition(facts.edition, home)
    with Journal(folder.journal, folder.lock) as journal:
        journal.write(facts.facts[0])
    forgettable(home, search().id, server).remove()
    assert look_up(home, search(), server) is None
    assert stored(bob, server) == theirs
    assert "- reach@base: How far?" in tags_of(home)[NOTE]


@pytest.mark.parametrize("number", [None, errno.EPERM, errno.ENOTSUP])
def test_a_home_keeps_its_name_and_two_that_ask_at_once_get_the_same(tmp_path, monkeypatch, number):
    """Also on a disk without hard links, such as exFAT."""
    home = Home(tmp_path)
    assert home.id is None
    with monkeypatch.context() as patch, ThreadPoolExecutor(8) as pool:
        if number:
            patch.setattr(os, "link", lambda *_: (_ for _ in ()).throw(OSError(number, os.strerror(number))))
        names = {*pool.map(lambda _: home.named(), range(8))}
    assert names == {home.id}
    assert len(home.id) == 12
    assert {path.name for path in tmp_path.iterdir()} <= {"id", "id.lock"}
    other = Home(tmp_path / "other")
    other.root.mkdir()
    assert other.named() != home.id


def test_what_a_person_deleted_is_made_again_and_holds_nothing_up(home):
    facts = scored(0.75)
    facts.complete(facts.plan(1, encoding__gamma=9.0), 0, 0.5)
    half = len(facts.facts) // 2
    shown = told(home, facts, first=half)
    until(lambda: "#00 seed 0" in runs(home))
    client = MlflowClient(home.tracking)
    for run in runs(home).values():
        client.delete_run(run.info.run_id)
    for fact in facts.facts[half:]:
        shown.add(fact)
    assert shown.close("FINISHED") is None
    found = runs(home)
    assert {"reach@base", "#01 gamma=9", "#01 seed 0"} <= found.keys()
    assert found["#01 gamma=9"].data.tags["mlflow.parentRunId"] == found["reach@base"].info.run_id
    client.delete_experiment(client.get_experiment_by_name("locus/reach").experiment_id)
    show(home, facts)
    assert client.get_experiment_by_name("locus/reach").lifecycle_stage == "active"
    found = runs(home)
    assert {"reach@base", "#00 gamma=2.5", "#00 seed 0", "#01 gamma=9", "#01 seed 0"} == found.keys()
    for trial in ("#00 gamma=2.5", "#01 gamma=9"):
        assert found[trial].data.tags["mlflow.parentRunId"] == found["reach@base"].info.run_id


def files(root: Path) -> dict[str, bytes]:
    """Every file below a folder, with what it holds."""
    return {str(path.relative_to(root)): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


@pytest.mark.parametrize("moved", [False, True])
def test_a_database_that_came_along_is_written_anew(home: Home, small: Facts, tmp_path_factory, moved: bool) -> None:
    """A home that was moved or copied is a home of its own: nothing is written where it comes from."""
    folder = tmp_path_factory.mktemp("copies")
    (folder / "r").mkdir()
    show(home, small)
    copy = Home(folder / "copy")
    shutil.copytree(home.root, copy.root)
    before = files(home.root)
    if moved:
        shutil.rmtree(home.root)
    for text in ("the second", "the third"):
        (folder / "r" / "report.html").write_text(text)
        show(copy, small, report=folder / "r")
        assert len(runs(copy)) == len(look_up(copy, small.edition).shown) == 9
        study = runs(copy)["reach@base"].info.run_id
        assert (copy.artifacts / study / "artifacts" / "report" / "report.html").read_text() == text
    look_up(copy, small.edition).delete(copy.artifacts)
    assert (files(home.root) if home.root.exists() else {}) == ({} if moved else before)


def test_a_database_that_both_reach_by_a_link_is_refused(home: Home, small: Facts, tmp_path_factory) -> None:
    folder = tmp_path_factory.mktemp("copies")
    show(home, small)
    home.database.rename(folder / "mlflow.db")
    home.database.symlink_to(folder / "mlflow.db")
    copy = Home(folder / "copy")
    shutil.copytree(home.root, copy.root, symlinks=True)
    before = files(home.root), (folder / "mlflow.db").read_bytes()
    warning = told(copy, small).close("FINISHED")
    assert f"must keep its files in {copy.artifacts}, got {home.artifacts.as_uri()}" in warning
    assert (files(home.root), (folder / "mlflow.db").read_bytes()) == before


def test_a_moved_home_goes_on_also_with_any_letters_in_its_path(tmp_path: Path) -> None:
    old, moved, edition = Home(tmp_path / "old"), Home(tmp_path / "homes" / "a?b=1&c%20d#e%f"), arms()
    conduct(old, edition)
    table = service.result(edition.id, home=str(old.root)).table().to_csv()
    moved.root.parent.mkdir()
    old.root.rename(moved.root)
    assert conduct(moved, edition).trained == {}
    assert service.result(edition.id, home=str(moved.root)).table().to_csv() == table
    assert all(check.ok for check in service.verify(edition.id, home=str(moved.root)))
    facts = scored(0.5)
    for _ in range(2):
        show(moved, facts)
        assert len(runs(moved)) == 3
    assert moved.database.is_file()
    assert [path.name for path in tmp_path.iterdir()] == ["homes"]
    assert [path.name for path in moved.root.parent.iterdir()] == [moved.root.name], "nothing is made beside it"
