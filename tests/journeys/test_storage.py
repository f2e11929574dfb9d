"""A study with `--storage`: the machine of its driver dies with its disk, and another one goes on from the copies."""

import shutil

import pytest

from search_spaces.study import Edition
from service.storage import editions
from service.storage.facts import Ended, Started
from service.storage.home import Home
from service.storage.journal import read
from service.storage.outcomes import Outcomes
from service.storage.remote import fetch
from trainables.remote_files import RemoteFolder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ID = "waves@long"


def curves(home: Home) -> dict:
    facts, _ = read(home.study(ID).journal)
    ended = {(fact.run, fact.code) for fact in facts if isinstance(fact, Ended)}
    found = {run: Outcomes(home).get(run, code, whole=True) for run, code in ended}
    assert all(found.values()), "an answer without its weights"
    return {
        run: [
            {name: value for name, value in said.values.items() if "/accuracy" in name or "/loss" in name}
            for said in one.outcome.curve
        ]
        for run, one in found.items()
    }


def test_a_machine_dies_with_its_disk_and_another_one_goes_on(terminals, s3, s3_server, tmp_path):
    run = ("run", "./study.py", "--budget", "long", "--storage", s3, "-v")
    first, second, calm = (terminals(name, **s3_server.env) for name in ("first", "second", "calm"))
    calm.do(*run[:4])

    begun = first.begin(*run)
    outcomes = RemoteFolder(s3).inside("outcomes")
    begun.wait_until(lambda: [name for name in outcomes.names() if name.endswith(".json")], "no answer came there")
    begun.kill()
    begun.end()
    first.clear()
    assert not list(Home(first.home).root.glob("studies/*/work/*/*/*/checkpoint.pt")), "workers write to the storage"
    shutil.rmtree(first.home)

    on = second.do(*run)
    assert f"of {ID} from {s3}" in on.out
    assert curves(Home(second.home)) == curves(Home(calm.home))
    attempts = [fact.attempt for fact in read(Home(second.home).study(ID).journal)[0] if isinstance(fact, Started)]
    assert len(attempts) < 3 + 3, "the answer at the storage was trained again"
    second.do("verify", ID)

    elsewhere = Home(tmp_path / "elsewhere")
    fetch(s3, elsewhere, "waves")
    assert isinstance(editions.stored(elsewhere, ID), Edition)
    assert curves(elsewhere) == curves(Home(calm.home))
    left = RemoteFolder(s3).inside(f"studies/{ID}").names("work")
    assert not left


def test_a_storage_that_is_not_there_is_one_line_before_anything_is_written(terminals, s3_server):
    laptop = terminals("laptop", **s3_server.env)
    for uri, words in (
        ("s3://no-such-bucket/x", "s3://no-such-bucket/x cannot be used"),
        ("relative/place", "storage must be a URI such as s3://bucket/locus, or an absolute path"),
        ("s3://key:word@bucket/x", "storage must be a URI without options and credentials"),
    ):
        said = laptop.type("run", "./study.py", "--storage", uri)
        assert said.code == 2
        assert words in " ".join(said.err.split()), said.err
        assert "word" not in said.err
        assert not Home(laptop.home).ids()
