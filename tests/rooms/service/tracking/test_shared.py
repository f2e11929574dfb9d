"""Several homes on one MLflow, and a person who deletes there: nobody's runs are taken for another's."""

from __future__ import annotations

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from mlflow.tracking import MlflowClient

from service.removal import forgettable
from service.storage.editions import save_edition
from service.storage.home import Home
from service.storage.journal import Journal
from service.tracking.store import look_up
from service.tracking.sync import MlflowSync
from service.tracking.views import PREFIX
from tests.rooms.service.tracking.facts import Facts, runs, search, told, unpacked
from tests.rooms.service.tracking.test_views import tags_of
from tests.waiting import until

STUDY = "reach@base"


def show(home: Home, facts: Facts, server: str | None = None) -> None:
    assert told(home, facts, server).close("FINISHED") is None


def scored(score: float, code: str = "c0dec0dec0de") -> Facts:
    facts = Facts(search())
    facts.code = code
    facts.complete(facts.plan(0, encoding__gamma=2.5), 0, score)
    return facts


@pytest.fixture
def alice(home) -> Home:
    return home


@pytest.fixture
def bob(tmp_path_factory) -> Home:
    return Home(tmp_path_factory.mktemp("bob"))


def everything(home: Home, server: str) -> dict:
    found = look_up(home, search(), server)
    client = MlflowClient(server)
    return {
        place: (one.id, one.status, one.params, one.tags, one.latest, client.get_run(one.id).info.lifecycle_stage)
        for place, one in found.shown.items()
    }


@pytest.mark.parametrize("code", ["c0dec0dec0de", "00000000abcd"])
def test_two_homes_with_the_same_study_keep_their_own_runs(alice, bob, code):
    show(alice, scored(0.9), alice.tracking)
    before = everything(alice, alice.tracking)
    show(bob, scored(0.6, code), alice.tracking)
    assert everything(alice, alice.tracking) == before
    theirs = everything(bob, alice.tracking)
    assert not {id for id, *_ in theirs.values()} & {id for id, *_ in before.values()}
    assert {place: found[4].get("val/accuracy") for place, found in theirs.items() if place[0] == "run"} == {
        ("run", "0", 0): 0.6
    }
    show(alice, scored(0.9), alice.tracking)
    assert {place: found[0] for place, found in everything(alice, alice.tracking).items()} == {
        place: found[0] for place, found in before.items()
    }
    assert everything(bob, alice.tracking) == theirs


def test_each_home_has_views_of_its_own_runs(alice, bob):
    show(alice, scored(0.9), alice.tracking)
    show(bob, scored(0.6), alice.tracking)
    tags = tags_of(alice)
    for home in (alice, bob):
        mine = [unpacked(value) for tag, value in tags.items() if tag.startswith(f"{PREFIX}{home.id}.")]
        assert len(mine) == 3
        client = MlflowClient(alice.tracking)
        for view in mine:
            found = client.search_runs(["1"], view["searchFilter"])
            assert {run.data.tags["locus.home"] for run in found} == {home.id}
    note = tags["mlflow.note.content"]
    assert f"reach@base (home {alice.id})" in note
    assert f"reach@base (home {bob.id})" in note


def test_forgetting_removes_the_runs_of_one_home(alice, bob):
    show(alice, scored(0.9), alice.tracking)
    show(bob, scored(0.6), alice.tracking)
    before = everything(bob, alice.tracking)
    facts = scored(0.9)
    folder = alice.study(STUDY)
    save_edition(facts.edition, alice)
    with Journal(folder.journal, folder.lock) as journal:
        journal.write(facts.facts[0])
    forgettable(alice, STUDY, alice.tracking).remove()
    assert look_up(alice, search(), alice.tracking) is None
    assert everything(bob, alice.tracking) == before
    note = tags_of(alice)["mlflow.note.content"]
    assert "- reach@base: How far?" in note


def test_a_home_keeps_its_name_and_two_that_ask_at_once_get_the_same(tmp_path):
    home = Home(tmp_path)
    assert home.id is None
    with ThreadPoolExecutor(8) as pool:
        names = {*pool.map(lambda _: home.named(), range(8))}
    assert names == {home.id}
    assert len(home.id) == 12
    assert [path.name for path in tmp_path.iterdir()] == ["id"]
    other = tmp_path / "other"
    other.mkdir()
    assert Home(other).named() != home.id


@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOTSUP])
def test_a_disk_without_hard_links_such_as_exfat_holds_a_home_too(tmp_path, monkeypatch, number):
    def link(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "link", link)
    home = Home(tmp_path)
    with ThreadPoolExecutor(8) as pool:
        names = {*pool.map(lambda _: home.named(), range(8))}
    assert names == {home.id}
    assert {path.name for path in tmp_path.iterdir()} <= {"id", "id.lock"}


def test_a_run_that_a_person_deleted_is_made_again_and_holds_nothing_up(home):
    facts = scored(0.75)
    facts.complete(facts.plan(1, encoding__gamma=9.0), 0, 0.5)
    shown = MlflowSync(facts.edition, home, lambda recipe: facts.code)
    shown.open()
    half = len(facts.facts) // 2
    for fact in facts.facts[:half]:
        shown.add(fact)
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
    show(home, facts)
    found = runs(home)
    assert {"reach@base", "#00 gamma=2.5", "#00 seed 0", "#01 gamma=9", "#01 seed 0"} == found.keys()
    for trial in ("#00 gamma=2.5", "#01 gamma=9"):
        assert found[trial].data.tags["mlflow.parentRunId"] == found["reach@base"].info.run_id


def test_an_experiment_that_a_person_deleted_is_taken_out_of_the_trash(home):
    show(home, scored(0.75))
    client = MlflowClient(home.tracking)
    client.delete_experiment(client.get_experiment_by_name("locus/reach").experiment_id)
    show(home, scored(0.75))
    assert client.get_experiment_by_name("locus/reach").lifecycle_stage == "active"
    assert {"reach@base", "#00 gamma=2.5", "#00 seed 0"} == runs(home).keys()
