"""Room: a study goes on from its storage where the home is lost, with the answers of an undisturbed one."""

import shutil

import pytest

from service.storage.editions import latest
from service.storage.facts import Ended
from service.storage.home import Home
from service.storage.journal import read
from service.storage.outcomes import Outcomes
from service.storage.remote import Copies, OtherJournalError, fetch
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.service.storage.sending import command
from tests.rooms.toy import conduct
from trainables.recipe import FromTrial
from trainables.remote_files import RemoteFolder

STUDIES = {
    "arms": arms,
    "search": search,
    "parents": lambda: arms(
        {"plain": {}, "child": {"init": FromTrial(values={"encoding.gamma": 1.0}, part="backbone").plain()}}
    ),
}


def answers(home: Home, edition) -> dict:
    ended = {(fact.run, fact.code) for fact in facts(home, edition, Ended)}
    return {run: Outcomes(home).get(run, code, whole=True) for run, code in ended}


def scores(home: Home, edition) -> dict:
    found = answers(home, edition)
    return {run: [said.values["val/accuracy"] for said in answered.outcome.curve] for run, answered in found.items()}


SLOW = pytest.mark.slow
PLACES = [
    *[("file", name) for name in STUDIES],
    ("s3", "arms"),
    *[pytest.param("s3", name, marks=SLOW) for name in STUDIES if name != "arms"],
]
"""Every kind of study at a folder; at a server of S3 the smallest one, the others in `make slow`."""


@pytest.mark.parametrize(("place", "name"), PLACES)
def test_a_home_that_dies_again_and_again_ends_with_the_same_answers(tmp_path, request, name, place):
    uri = request.getfixturevalue("s3") if place == "s3" else f"file://{tmp_path}/there"
    edition, calm = STUDIES[name](), Home(tmp_path / "calm")
    conduct(calm, edition, 1)
    for life in range(40):
        home = Home(tmp_path / f"home-{life}")
        fetch(uri, home, edition.id)
        done = command(home, edition, uri, life, cut=5 + life)
        if done is not None:
            break
        shutil.rmtree(home.root)
    assert done is not None
    assert all(answers(home, edition).values()), "an answer without its weights"
    again = Home(tmp_path / "again")
    assert fetch(uri, again, edition.study.name).startswith("fetched ")
    assert scores(again, edition) == scores(home, edition)
    if name != "search":  # facts of the last seconds are lost, so a search may propose other points
        assert scores(home, edition) == scores(calm, edition)
    assert not [name for name in Copies(uri, home, edition.id).study.names() if name.startswith("work/")]
    assert fetch(uri, again, edition.id) == ""


def test_a_home_that_is_ahead_or_behind_goes_on_and_another_journal_is_refused(tmp_path):
    uri, edition = f"file://{tmp_path}/there", arms()
    home, other = Home(tmp_path / "home"), Home(tmp_path / "other")
    assert command(home, edition, uri, cut=9) is None
    journal = home.study(edition.id).journal
    behind = journal.read_bytes()
    fetch(uri, other, edition.id)
    fetch(uri, home, edition.id)
    assert journal.read_bytes() == behind, "a home that is ahead keeps its journal"
    assert command(home, edition, uri) is not None
    ahead = journal.read_bytes()
    journal.write_bytes(behind)
    fetch(uri, home, edition.id)
    assert journal.read_bytes() == ahead
    assert journal.with_name("journal.jsonl.damaged").read_bytes() == behind
    conduct(other, edition)
    with pytest.raises(OtherJournalError, match=r"another journal at file://.* than in .*: each was continued"):
        fetch(uri, other, edition.id)


def test_reused_answers_and_parents_are_sent_too(tmp_path):
    uri, edition = f"file://{tmp_path}/there", STUDIES["parents"]()
    home = Home(tmp_path / "home")
    conduct(home, edition)
    shutil.rmtree(home.study(edition.id).root)
    assert not command(home, edition, uri).order, "all is reused"
    other = Home(tmp_path / "other")
    fetch(uri, other, edition.id)
    assert all(answers(other, edition).values())
    assert read(other.study(edition.id).journal) == read(home.study(edition.id).journal)


def test_weights_that_the_storage_has_lost_are_sent_again(tmp_path):
    uri, edition, home = f"file://{tmp_path}/there", arms(), Home(tmp_path / "home")
    command(home, edition, uri)
    weights = sorted((tmp_path / "there" / "outcomes").glob("*/*.pt"))
    whole = {path: path.read_bytes() for path in weights}
    lost, damaged = weights[:2]
    lost.unlink()
    damaged.unlink()
    name = damaged.name.partition(".")[0]
    here = home.outcomes / damaged.parent.name / f"{name}.pt"
    here.write_bytes(whole[damaged][:-1])
    assert not command(home, edition, uri).order
    assert lost.read_bytes() == whole[lost]
    assert not damaged.exists(), "what is damaged here is not sent"
    assert damaged.with_name(f"{name}.json").exists()


def test_a_study_alone_is_fetched_or_all_editions_in_the_order_in_which_they_ran(tmp_path):
    uri, home, found = f"file://{tmp_path}/there", Home(tmp_path / "home"), Home(tmp_path / "found")
    last, first = (arms(seeds=1).model_copy(update={"mark": f"~{mark}"}) for mark in "ab")
    for edition in (arms(name="other"), first, last):
        command(home, edition, uri)
    assert RemoteFolder(uri).inside("studies").folders() == sorted(home.ids())
    fetch(uri, found, "other")
    assert found.ids() == [arms(name="other").id]
    assert fetch(uri, found, "unknown") == ""
    fetch(uri, found, "arms")
    assert latest(found, "arms") == latest(home, "arms") == last.id


def test_weights_that_an_earlier_locus_sent_by_the_name_of_their_answer_come_home(tmp_path):
    uri, edition, home = f"file://{tmp_path}/there", arms(), Home(tmp_path / "home")
    command(home, edition, uri)
    for file in (tmp_path / "there" / "outcomes").glob("*/*.pt"):
        file.rename(file.with_name(f"{file.name.partition('.')[0]}.pt"))
    found = Home(tmp_path / "found")
    fetch(uri, found, edition.id)
    assert all(Outcomes(found).has_sound_weights(run, answer.name) for run, answer in answers(found, edition).items())
