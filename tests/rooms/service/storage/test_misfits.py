"""Whole facts that are none of the study, as one of a stranger or a file that a person edited: lines like damaged ones.

`status` and `verify` have a row with the line, and `--repair` cuts there (`test_forms.py` tries the other verbs).
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import service
from search_spaces.study import Ablation, Tuning
from service.execution.signals import Control
from service.storage.editions import save_edition
from service.storage.facts import Confirms, Counts, Ended, Measured, Planned, Tuned, line_of
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import JournalError, read
from service.terminal.live import events
from tests.rooms.service.execution.studies import arms, search
from tests.rooms.toy import conduct
from trainables.spec import LocusError, SpecError

KNOWN = {"run": 16 * "1", "code": 12 * "a"}
ENDED = Ended(**KNOWN, outcome="completed", epoch=1)


def planned(role: str = "trial", number: int = 0, name: str = "none", values: dict | None = None, tunes: str = ""):
    return Planned(role=role, number=number, name=name, values=values or {}, tunes=tunes)


MISFITS = [  # a study, a fact, what is changed in its line, and a part of the sentence
    (arms, planned(name="sim"), {}, "the study has no arm 'sim' at place 0"),
    (arms, planned(number=2), {}, "the study has no arm 'none' at place 2"),
    (arms, planned(name="no\u2028ne"), {}, "the study has no arm 'no\\u2028ne' at place 0"),
    (arms, planned(), {}, "the trial 0 is there already"),
    (arms, planned("rival"), {}, "the study has no rival"),
    (arms, planned("tuning", tunes="far"), {}, "the study tunes no arm 'far'"),
    (arms, Tuned(arm="far", number=None), {}, "the study tunes no arm 'far'"),
    (arms, planned("parent"), {}, "a parent must have the key"),
    (search, planned(number=77, values={"encoding.gama": 1.0}), {}, "make no trial"),
    (search, planned(number=77, values={"": [{}], "encoding": 3}), {}, "make no trial"),
    (search, Confirms(numbers=(99,)), {}, "no trial has the number 99"),
    (search, Confirms(numbers=(), rivals=(0,)), {}, "has the number 0"),
    (arms, Measured(**KNOWN, epoch=1, values={}), {"epoch": -3}, "is no fact"),
    (arms, Counts(seeds=1), {"seeds": 0}, "is no fact"),
    (arms, Counts(seeds=1), {"seeds": 1_000_000}, "is no fact"),
    (search, Counts(seeds=1, trials=9), {"trials": 1_000_000}, "is no fact"),
    (arms, ENDED, {"fact": "adopted"}, "is no fact"),
    (arms, ENDED, {"time": 1e300}, "is no fact"),
    (arms, ENDED, {"by": 999_999_999}, "is no fact"),
]


@pytest.fixture(scope="module")
def homes(tmp_path_factory) -> dict[str, Path]:
    """A home for each of two studies that have ended, beside a second study."""
    roots = {}
    for make in (arms, search):
        roots[make.__name__] = tmp_path_factory.mktemp(make.__name__)
        conduct(Home(roots[make.__name__]), make())
        conduct(Home(roots[make.__name__]), arms(name="others"))
    return roots


@pytest.fixture
def sound(homes, home) -> Home:
    """A copy of the home of `arms`, to be spoiled."""
    shutil.copytree(homes["arms"], home.root, dirs_exist_ok=True)
    return home


@pytest.mark.parametrize("row", range(len(MISFITS)))
def test_a_fact_that_is_none_of_the_study_is_a_line_that_cannot_be_read(homes, home, row: int) -> None:
    make, fact, changes, why = MISFITS[row]
    edition = make()
    shutil.copytree(homes[make.__name__], home.root, dirs_exist_ok=True)
    journal = home.study(edition.id).journal
    whole = journal.read_bytes()
    journal.write_bytes(whole + line_of(fact.plain() | {"by": read(journal)[0][-1].by} | changes))
    line = len(whole.splitlines()) + 1
    with pytest.raises(JournalError, match=rf"journal\.jsonl, line {line}[,:]") as told:
        History.open(home, edition)
    assert why in str(told.value)
    rows = {one.id: one.trouble for one in service.status(home=str(home.root))}
    assert why in rows.pop(edition.id)
    assert [*rows.values()] == [""]
    (check,) = service.verify(edition.id, home=str(home.root))
    assert not check.ok
    assert why in check.detail
    said = service.repair(edition.id, home=str(home.root))
    assert said[0].startswith(f"the journal is cut at line {line}, which is no fact of {edition.id}")
    assert not conduct(home, edition).trained


def test_a_line_nested_too_deeply_is_no_fact(sound) -> None:
    id, folder = arms().id, sound.study(arms().id)
    whole, definition = folder.journal.read_bytes(), folder.study.read_bytes()
    for deep in (b"[" * 100_000 + b"]" * 100_000, b'{"fact":' * 100_000 + b"1" + b"}" * 100_000):
        folder.journal.write_bytes(whole + deep + b"\n")
        with pytest.raises(JournalError, match=f"line {len(whole.splitlines()) + 1}, is no fact"):
            History.open(sound, arms())
        folder.journal.write_bytes(whole)
        folder.study.write_bytes(deep)
        with pytest.raises(LocusError, match=r"study\.json is damaged"):
            service.result(id, home=str(sound.root))
        folder.study.write_bytes(definition)


def test_runs_of_other_values_than_the_study_has_are_said(sound) -> None:
    """As after an edit of the images: their keys are others, and none of the journal's facts is about them."""
    edition = arms()
    other = arms(values={name: {**values, "data.train_size": 400} for name, values in edition.study.plan.arms.items()})
    save_edition(other, sound)
    lines = [*events(sound, edition.id)]
    strange = sum(isinstance(fact, Measured | Ended) for fact in read(sound.study(edition.id).journal)[0])
    assert sum(line.endswith("a run of other data or values than the study has now") for line in lines) == strange > 6
    assert all(check.ok for check in service.verify(edition.id, home=str(sound.root)) if check.name == "journal")


def test_a_choice_of_no_trial_is_none_of_a_tuned_study() -> None:
    study = arms({"near": {"data.task": "absolute"}, "none": {}}).study
    plan = Ablation(study.plan.arms, "none", tune=Tuning(search().study.plan.space, trials=2))
    history = History(study.model_copy(update={"plan": plan}).at())
    history.add(Tuned(arm="near", number=None))
    with pytest.raises(JournalError, match="no trial 7 tunes 'near'"):
        history.add(Tuned(arm="near", number=7))


def test_a_parent_that_no_run_needs_today_is_no_damage() -> None:
    """Its key is that of earlier images: the journal is read, and the next parent has a label of its own."""
    history = History(arms())
    history.add(planned("parent", 1, values={"key": 16 * "1"}))
    assert (history.trials, history.parents) == ([], 1)


def test_lines_of_a_driver_that_was_replaced_are_counted_aloud(sound) -> None:
    assert not conduct(sound, arms()).trained, "a second driver"
    journal = sound.study(arms().id).journal
    journal.write_bytes(journal.read_bytes() + 2 * line_of(ENDED.plain() | {"by": 1}))
    check = service.verify(arms().id, home=str(sound.root))[0]
    assert check.detail.endswith("(2 lines of a driver that another one had replaced left out)")


def test_a_journal_with_other_line_breaks_is_not_taken_for_a_torn_one(sound) -> None:
    """It would be cut to nothing else: a torn rest is dropped."""
    journal = sound.study(arms().id).journal
    whole = journal.read_bytes().replace(b"\n", b"\r")
    journal.write_bytes(whole)
    assert len(read(journal)[0]) == whole.count(b"\r")
    assert not conduct(sound, arms()).trained
    assert journal.read_bytes().startswith(whole)


@pytest.mark.parametrize("counts", [{"seeds": 0}, {"trials": 0}, {"max_concurrent": 0}, {"seeds": 1_000_000}])
def test_counts_of_a_request_have_bounds(counts) -> None:
    with pytest.raises(SpecError):
        Control(**counts)
