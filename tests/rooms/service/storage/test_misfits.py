"""Whole facts that are none of the study, as one of a stranger or a file that a person edited: lines like damaged ones.

Each verb answers with a sentence that has the line, `status` of all studies with a row, and `--repair` cuts there.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

import service
from search_spaces.study import Ablation, Edition, Tuning
from service.cli import app
from service.execution.signals import Control
from service.planning.run_options import RunOptions
from service.storage.editions import save_edition
from service.storage.facts import Confirms, Counts, Ended, Measured, Planned, Tuned, line_of
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import JournalError, read
from service.terminal.live import events
from tests.rooms.service.execution.studies import arms, search
from tests.rooms.toy import conduct
from trainables.spec import LocusError, SpecError

KEY, CODE = 16 * "1", 12 * "a"
KNOWN = {"run": KEY, "code": CODE}
ENDED = Ended(**KNOWN, outcome="completed", epoch=1)
ARM = {"role": "trial", "number": 0, "name": "none", "values": {}}
MISFITS: dict[str, tuple[Callable[[], Edition], Callable[[], dict], str]] = {
    "an arm of another study": (
        arms, lambda: Planned(**ARM | {"name": "sim"}).plain(), "the study has no arm 'sim' at place 0",
    ),
    "an arm at another place": (
        arms, lambda: Planned(**ARM | {"number": 2}).plain(), "the study has no arm 'none' at place 2",
    ),
    "an arm twice": (arms, lambda: Planned(**ARM).plain(), "the trial 0 is there already"),
    "a random point of an ablation": (
        arms, lambda: Planned(**ARM | {"role": "rival"}).plain(), "the study has no rival",
    ),
    "a trial of a tuning that is none": (
        arms, lambda: Planned(**ARM | {"role": "tuning"}, tunes="far").plain(), "the study tunes no arm 'far'",
    ),
    "a choice of no tuning": (arms, lambda: Tuned(arm="far", number=None).plain(), "the study tunes no arm 'far'"),
    "a parent without a key": (arms, lambda: Planned(**ARM | {"role": "parent"}).plain(), "a parent must have the key"),
    "a point of no recipe": (
        search, lambda: Planned(**ARM | {"number": 77, "values": {"encoding.gama": 1.0}}).plain(), "make no trial",
    ),
    "values of another form": (
        search, lambda: Planned(**ARM | {"number": 77, "values": {"": [{}], "encoding": 3}}).plain(), "make no trial",
    ),
    "a confirmation of no trial": (search, lambda: Confirms(numbers=(99,)).plain(), "no trial has the number 99"),
    "a random point confirmed": (search, lambda: Confirms(numbers=(), rivals=(0,)).plain(), "has the number 0"),
    "a name of two lines": (
        arms, lambda: Planned(**ARM | {"name": "no\u2028ne"}).plain(), "the study has no arm 'no\\u2028ne' at place 0",
    ),
    "a negative epoch": (arms, lambda: Measured(**KNOWN, epoch=1, values={}).plain() | {"epoch": -3}, "is no fact"),
    "no seeds": (arms, lambda: Counts(seeds=1).plain() | {"seeds": 0}, "is no fact"),
    "less than no seeds": (arms, lambda: Counts(seeds=1).plain() | {"seeds": -1}, "is no fact"),
    "a million seeds": (arms, lambda: Counts(seeds=1).plain() | {"seeds": 1_000_000}, "is no fact"),
    "a million trials": (search, lambda: Counts(seeds=1, trials=9).plain() | {"trials": 1_000_000}, "is no fact"),
    "an answer of older code that was adopted": (
        arms, lambda: {"fact": "adopted", **KNOWN, "instead_of": CODE, "time": 0.0}, "is no fact",
    ),
    "a time beyond all calendars": (arms, lambda: ENDED.plain() | {"time": 1e300}, "is no fact"),
    "a driver that never began": (arms, lambda: ENDED.plain() | {"by": 999_999_999}, "is no fact"),
}  # fmt: skip


@pytest.fixture(scope="module")
def sound(tmp_path_factory) -> dict[str, Path]:
    """A home for each of two studies that have ended, beside a second study."""
    found = {}
    for make in (arms, search):
        found[make.__name__] = tmp_path_factory.mktemp(make.__name__)
        conduct(Home(found[make.__name__]), make())
        conduct(Home(found[make.__name__]), arms(name="others"))
    return found


def refused_everywhere(home: Home, id: str, why: str) -> None:
    """By each verb in one sentence; by `status` of all studies and `verify` in a row."""
    folder, run = ("--home", str(home.root)), CliRunner()
    verbs = (("status", id), ("report", id), ("export", id, "--csv"), ("logs", id), ("plan", id), ("run", id))
    for verb in verbs:
        told = run.invoke(app, [*verb, *folder])
        assert isinstance(told.exception, LocusError), (verb, told.exception)
        assert why in str(told.exception), verb
        assert "--repair cuts the journal there" in str(told.exception), verb
    rows = {one.id: one.trouble for one in service.status(home=str(home.root))}
    assert why in rows.pop(id)
    assert [*rows.values()] == [""]
    (check,) = service.verify(id, home=str(home.root))
    assert not check.ok
    assert why in check.detail


@pytest.mark.parametrize("name", MISFITS)
def test_a_fact_that_is_none_of_the_study_is_a_line_that_cannot_be_read(sound, home, tmp_path, name) -> None:
    make, spoil, why = MISFITS[name]
    edition = make()
    shutil.copytree(sound[make.__name__], tmp_path, dirs_exist_ok=True)
    journal = home.study(edition.id).journal
    whole = journal.read_bytes()
    by = read(journal)[0][-1].by
    journal.write_bytes(whole + line_of({"by": by} | spoil() | ({} if "never" in name else {"by": by})))
    line = len(whole.splitlines()) + 1
    with pytest.raises(JournalError, match=rf"journal\.jsonl, line {line}[,:]") as told:
        History.open(home, edition)
    assert why in str(told.value)
    if name in ("an arm of another study", "a million seeds", "a parent without a key"):  # the same way for all
        refused_everywhere(home, edition.id, why)
    said = service.repair(edition.id, home=str(tmp_path))
    assert said[0].startswith(f"the journal is cut at line {line}, which is no fact of {edition.id}")
    assert not conduct(home, edition).trained


def test_a_line_nested_too_deeply_is_no_fact(sound, home, tmp_path) -> None:
    shutil.copytree(sound["arms"], tmp_path, dirs_exist_ok=True)
    id = arms().id
    journal, study = home.study(id).journal, home.study(id).study
    for deep in (b"[" * 100_000 + b"]" * 100_000, b'{"fact":' * 100_000 + b"1" + b"}" * 100_000):
        whole = journal.read_bytes()
        journal.write_bytes(whole + deep + b"\n")
        refused_everywhere(home, id, f"line {len(whole.splitlines()) + 1}, is no fact")
        journal.write_bytes(whole)
        before = study.read_bytes()
        study.write_bytes(deep)
        with pytest.raises(LocusError, match=r"study\.json is damaged"):
            service.result(id, home=str(tmp_path))
        study.write_bytes(before)


def test_a_study_whose_file_lost_an_arm_is_refused_and_starts_again(sound, home, tmp_path) -> None:
    """The definition was emptied, and the user has taken an arm out of the file of the study since."""
    shutil.copytree(sound["arms"], tmp_path, dirs_exist_ok=True)
    edition = arms()
    fewer = arms(values=dict([*edition.study.plan.arms.items()][:2]))
    assert fewer.id == edition.id
    home.study(edition.id).study.write_bytes(b"")
    gone = [*edition.study.plan.arms][2]
    with pytest.raises(LocusError, match=rf"journal\.jsonl, line \d+: .* the study has no arm '{gone}' at place 2"):
        service.api.plan(fewer, RunOptions(home=str(tmp_path)))
    save_edition(fewer, home)
    refused_everywhere(home, edition.id, f"the study has no arm {gone!r} at place 2")
    assert service.repair(edition.id, home=str(tmp_path))
    assert not conduct(home, fewer).trained


def test_runs_of_other_values_than_the_study_has_are_said(sound, home, tmp_path) -> None:
    """As after an edit of the images: their keys are others, and none of the journal's facts is about them."""
    shutil.copytree(sound["arms"], tmp_path, dirs_exist_ok=True)
    edition = arms()
    other = arms(values={name: {**values, "data.train_size": 400} for name, values in edition.study.plan.arms.items()})
    save_edition(other, home)
    lines = [*events(home, edition.id)]
    strange = sum(isinstance(fact, Measured | Ended) for fact in read(home.study(edition.id).journal)[0])
    assert sum(line.endswith("a run of other data or values than the study has now") for line in lines) == strange > 6
    assert all(check.ok for check in service.verify(edition.id, home=str(tmp_path)) if check.name == "journal")


def test_a_choice_of_no_trial_is_none_of_a_tuned_study() -> None:
    space = search().study.plan.space
    study = arms({"near": {"data.task": "absolute"}, "none": {}}).study
    plan = Ablation(study.plan.arms, "none", tune=Tuning(space, trials=2))
    history = History(study.model_copy(update={"plan": plan}).at(), lambda recipe: CODE)
    history.add(Tuned(arm="near", number=None))
    with pytest.raises(JournalError, match="no trial 7 tunes 'near'"):
        history.add(Tuned(arm="near", number=7))


def test_lines_of_a_driver_that_was_replaced_are_counted_aloud(sound, home, tmp_path) -> None:
    shutil.copytree(sound["arms"], tmp_path, dirs_exist_ok=True)
    id = arms().id
    assert not conduct(home, arms()).trained, "a second driver"
    journal = home.study(id).journal
    late = ENDED.plain() | {"by": 1}
    journal.write_bytes(journal.read_bytes() + 2 * line_of(late))
    check = service.verify(id, home=str(tmp_path))[0]
    assert check.detail.endswith("(2 lines of a driver that another one had replaced left out)")


def test_a_journal_with_other_line_breaks_is_not_taken_for_a_torn_one(sound, home, tmp_path) -> None:
    """It would be cut to nothing else: a torn rest is dropped."""
    shutil.copytree(sound["arms"], tmp_path, dirs_exist_ok=True)
    edition = arms()
    journal = home.study(edition.id).journal
    whole = journal.read_bytes().replace(b"\n", b"\r")
    journal.write_bytes(whole)
    assert len(read(journal)[0]) == whole.count(b"\r")
    assert not conduct(home, edition).trained
    assert journal.read_bytes().startswith(whole)


def test_a_parent_that_no_run_needs_today_is_no_damage() -> None:
    """Its key is that of earlier images: the journal is read, and the next parent has a label of its own."""
    history = History(arms(), lambda recipe: 12 * "a")
    history.add(Planned(role="parent", number=1, name="p", values={"key": 16 * "1"}))
    assert (history.trials, history.parents) == ([], 1)


def test_counts_of_a_request_have_bounds() -> None:
    for name in ("seeds", "trials", "max_concurrent"):
        with pytest.raises(SpecError):
            Control(**{name: 0})
    with pytest.raises(SpecError):
        Control(seeds=1_000_000)
