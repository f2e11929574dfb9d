"""Every check holds on a sound study, and fails when the thing it looks at is broken."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from search_spaces.study import Edition
from service.consistency import Check, verify
from service.storage.editions import stored
from service.storage.facts import Ended
from service.storage.home import WRITTEN, Home, content_digest
from service.storage.journal import read
from service.storage.outcomes import Answered, Outcomes
from tests.rooms.by_hand import keep_weights, searched
from tests.rooms.toy import write_weights
from trainables.recipe.code_digest import CodeDigest, CodeDigests
from trainables.spec import LocusError
from trainables.whole_files import sealed


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> tuple[Path, str]:
    """A search's home, its answers with weights."""
    root = tmp_path_factory.mktemp("sound")
    id = searched(root)
    home = Home(root)
    for fact in read(home.study(id).journal)[0]:
        if isinstance(fact, Ended) and fact.outcome == "completed":
            keep_weights(Outcomes(home), fact.run, fact.code, lambda path, key=fact.run: write_weights(path, key))
    return root, id


def edition_of(home: Home, id: str) -> Edition:
    return stored(home, id)


@pytest.fixture
def copy(sound, tmp_path) -> tuple[Home, str]:
    """The same, to be broken."""
    root, id = sound
    shutil.copytree(root, tmp_path / "home")
    return Home(tmp_path / "home"), id


def wrong(copy: tuple[Home, str]) -> dict[str, str]:
    home, id = copy
    return {check.name: check.detail for check in verify(home, edition_of(home, id)) if not check.ok}


def ended(copy: tuple[Home, str]) -> Ended:
    home, id = copy
    return next(
        fact for fact in read(home.study(id).journal)[0] if isinstance(fact, Ended) and fact.outcome == "completed"
    )


def test_a_sound_study_passes_every_check(copy):
    home, id = copy
    checks = verify(home, edition_of(home, id))
    assert all(check.ok for check in checks), checks
    assert [check.name for check in checks] == [
        "journal", "outcomes", "keys", "curves", "weights", "probes", "work folders", "report",
    ]  # fmt: skip
    assert all(isinstance(check, Check) and check.detail for check in checks)


def test_answers_of_older_code_are_named_and_agree(copy, monkeypatch):
    monkeypatch.setattr(CodeDigests, "__call__", lambda self, recipe: CodeDigest({"loop.py": "edited"}))
    checks = {check.name: check for check in verify(copy[0], edition_of(*copy))}
    assert all(check.ok for check in checks.values()), checks
    assert checks["journal"].detail.endswith(" answers of other code than today's")


def test_a_lost_answer_is_found(copy):
    fact = ended(copy)
    Outcomes(copy[0]).path(fact.run, fact.code).unlink()
    assert wrong(copy) == {"outcomes": f"{fact.run} by {fact.code} has no file"}


def test_an_answer_under_another_key_is_found(copy):
    home, fact = copy[0], ended(copy)
    outcomes = Outcomes(home)
    answer = outcomes.get(fact.run, fact.code)
    other = answer.model_copy(update={"run": answer.run.model_copy(update={"seed": 99})})
    outcomes.path(fact.run, fact.code).write_bytes(sealed(other.plain()))
    assert list(wrong(copy)) == ["keys"]


def test_another_curve_is_found(copy):
    home, fact = copy[0], ended(copy)
    path = Outcomes(home).path(fact.run, fact.code)
    other = json.loads(path.read_text())
    del other["digest"]
    other["outcome"]["curve"][2]["values"]["val/accuracy"] += 1e-9
    path.write_bytes(sealed(Answered.read(other).plain()))
    assert list(wrong(copy)) == ["curves"]


def test_lost_weights_are_found(copy):
    fact = ended(copy)
    Outcomes(copy[0]).weights(fact.run, fact.code).unlink()
    assert list(wrong(copy)) == ["weights"]


def test_work_left_of_a_run_that_ended_is_found(copy):
    home, id = copy
    fact = ended(copy)
    home.study(id).work("0123", fact.code, 1).mkdir(parents=True)
    assert wrong(copy) == {}
    home.study(id).work(fact.run, fact.code, 1).mkdir(parents=True)
    assert wrong(copy) == {"work folders": f"{fact.run}/{fact.code}/1 is of a run that ended"}


def test_a_changed_report_is_found_but_for_one_that_is_being_written(copy):
    home, id = copy
    folder = home.study(id).report
    folder.mkdir()
    for name in ("report.html", "results.csv", "mine.txt"):
        (folder / name).write_text(name)
    listed = {name: content_digest(name) for name in ("report.html", "results.csv")}
    (folder / WRITTEN).write_text(json.dumps(listed))
    assert wrong(copy) == {}
    (folder / "mine.txt").write_text("a user's own")
    assert wrong(copy) == {}
    (folder / "report.html").write_text("another is best")
    (folder / "results.csv").unlink()
    said = [
        f"{name} is not as it was written (locus report {id} --home {home.root})"
        for name in ("report.html", "results.csv")
    ]
    assert wrong(copy) == {"report": "; ".join(said)}
    (folder / WRITTEN).write_text(json.dumps(listed | {WRITTEN: ""}))
    assert wrong(copy) == {}, "its writer was killed"
    (folder / WRITTEN).write_text("[]")
    assert list(wrong(copy)) == ["report"]


def test_a_broken_journal_is_found_and_a_torn_line_is_said(copy):
    home, id = copy
    journal = home.study(id).journal
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"fact": "mea')
    assert "torn" in verify(home, edition_of(home, id))[0].detail
    assert wrong(copy) == {}
    journal.write_bytes(b"nonsense\n" + whole)
    assert list(wrong(copy)) == ["journal"]


def test_a_study_that_was_never_run_is_refused(copy, tmp_path):
    with pytest.raises(LocusError, match="never run"):
        verify(Home(tmp_path / "empty"), edition_of(*copy))
