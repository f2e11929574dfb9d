"""Each check of `verify` holds on a sound study, and names what is damaged; `repair` sets it aside.

The next run makes it again, with the same numbers.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import service
from search_spaces.study import Edition
from service.consistency import repair, verify
from service.storage.facts import Ended, Opened
from service.storage.history import History
from service.storage.home import WRITTEN, Home, content_digest
from service.storage.journal import JournalError, read
from service.storage.leases import HeldError
from service.storage.outcomes import Answered, Outcomes
from tests.rooms import toy
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import conduct, driving
from trainables.recipe import Run, revisions
from trainables.recipe.outcome import Measurement
from trainables.spec import LocusError
from trainables.whole_files import sealed


@pytest.fixture(scope="module")
def driven(tmp_path_factory) -> Callable[[Edition, Path], Home]:
    """Copies the home of a study that has ended."""
    roots: dict[str, Path] = {}

    def copied(edition: Edition, to: Path) -> Home:
        if edition.id not in roots:
            roots[edition.id] = tmp_path_factory.mktemp("driven")
            conduct(Home(roots[edition.id]), edition)
        shutil.copytree(roots[edition.id], to, dirs_exist_ok=True)
        return Home(to)

    return copied


@pytest.fixture
def sound(driven, tmp_path) -> Home:
    return driven(arms(), tmp_path)


def wrong(home: Home, edition: Edition | None = None) -> dict[str, str]:
    return {check.name: check.detail for check in verify(home, edition or arms()) if not check.ok}


@pytest.mark.parametrize("study", [arms, search])
def test_a_sound_study_passes_every_check_also_where_older_code_trained_it(
    driven, tmp_path, monkeypatch, study
) -> None:
    edition = study()
    home = driven(edition, tmp_path)
    names = ["journal", "outcomes", "keys", "curves", "weights", "probes", "work folders", "report"]
    checks = verify(home, edition)
    assert [(check.name, check.ok) for check in checks] == [(name, True) for name in names]
    assert all(check.detail for check in checks)
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    assert wrong(home, edition) == {}
    assert verify(home, edition)[0].detail.endswith(" answers of other code than today's")


def edited(before: str, after: str) -> Callable[[Outcomes, Ended], None]:
    """Changes bytes of an answer, and leaves its digest."""

    def edit(outcomes: Outcomes, fact: Ended) -> None:
        text = outcomes.path(fact.run, fact.code).read_text()
        assert before in text
        outcomes.path(fact.run, fact.code).write_text(text.replace(before, after, 1))

    return edit


def other_run(outcomes: Outcomes, fact: Ended) -> None:
    """Changes an answer with its digest, as no crash can do."""
    path = outcomes.path(fact.run, fact.code)
    answer = json.loads(path.read_text())
    del answer["digest"]
    answer["run"]["seed"] = 99
    path.write_bytes(sealed(Answered.read(answer).plain()))


def weights_of_another_seed(outcomes: Outcomes, fact: Ended) -> None:
    paths = [path for path in outcomes.folder.glob("*/*.pt") if path.parent.name != fact.run]
    shutil.copy(paths[0], outcomes.weights(fact.run, fact.code))


def one_bit_of_weights(outcomes: Outcomes, fact: Ended) -> None:
    path = outcomes.weights(fact.run, fact.code)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)


def cut_weights(outcomes: Outcomes, fact: Ended) -> None:
    path = outcomes.weights(fact.run, fact.code)
    path.write_bytes(path.read_bytes()[:-30])


DAMAGES: dict[str, tuple[str, Callable[[Outcomes, Ended], object], str]] = {
    "another run": ("keys", other_run, "holds"),
    "one digit": ("outcomes", edited('"val/accuracy": 0.', '"val/accuracy": 1.'), "is damaged"),
    "another environment": ("outcomes", edited('"toy": 1', '"toy": 2'), "is damaged"),
    "another field": ("outcomes", edited('"recipe"', '"recipd"'), "is damaged"),
    "no answer": ("outcomes", lambda outcomes, fact: outcomes.path(fact.run, fact.code).unlink(), "has no file"),
    "cut weights": ("weights", cut_weights, "has damaged weights"),
    "one bit of weights": ("weights", one_bit_of_weights, "has damaged weights"),
    "weights of another seed": ("weights", weights_of_another_seed, "has damaged weights"),
    "no weights": ("weights", lambda outcomes, fact: outcomes.weights(fact.run, fact.code).unlink(), "has no weights"),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_answer_is_named_and_made_again(sound, name) -> None:
    check, spoil, words = DAMAGES[name]
    outcomes, fact = Outcomes(sound), facts(sound, arms(), Ended)[1]
    before = outcomes.get(fact.run, fact.code)
    spoil(outcomes, fact)
    sentence = wrong(sound)[check]
    assert wrong(sound).keys() == {check}
    assert sentence.startswith(f"{fact.run} by {fact.code} {words}")
    said = repair(sound, arms())
    assert sentence in said[0]
    assert said[-1] == f"1 run to train again: locus run arms@base --home {sound.root}"
    assert repair(sound, arms()) == [], "it is asked for again already"
    assert [run.key for run in conduct(sound, arms()).order] == [fact.run]
    assert outcomes.get(fact.run, fact.code, whole=True).repeats(before)
    assert wrong(sound) == {}
    assert repair(sound, arms()) == []


def test_an_answer_that_another_study_trained_again_stays(home: Home, monkeypatch) -> None:
    """The other study needs the weights, and its machine rounds otherwise. Its answers and weights are sound."""
    one, two = (arms(keep=keep).model_copy(update={"mark": f"~{len(keep)}"}) for keep in ((), ("weights",)))
    measure = toy.measure

    def elsewhere(run: Run, epoch: int) -> Measurement:
        values = measure(run, epoch).values
        return Measurement(epoch=epoch, values={name: value + 1e-6 for name, value in values.items()})

    conduct(home, one)
    monkeypatch.setattr(toy, "measure", elsewhere)
    conduct(home, two)
    paths = [path for path in home.outcomes.rglob("*") if path.suffix != ".damaged" and path.is_file()]
    files = {path: path.read_bytes() for path in paths}
    assert wrong(home, one).keys() == {"curves"}
    said = repair(home, one)
    ends = f"differs from the journal: another study trained it again; locus run {one.id} --home {home.root} takes its"
    assert [f"{ends} numbers" in sentence for sentence in said] == 6 * [True]
    assert {path: path.read_bytes() for path in files} == files
    assert wrong(home, two) == {}
    assert conduct(home, one).order == []
    assert wrong(home, one) == {}


def test_a_damaged_probe_is_set_aside(sound) -> None:
    fact = facts(sound, arms(), Ended)[0]
    path = Outcomes(sound).probe(fact.run, fact.code, "similarity")
    path.write_bytes(b"no archive")
    assert wrong(sound).keys() == {"probes"}
    (said,) = repair(sound, arms())
    assert said.startswith(f"the probe similarity of {fact.run} by {fact.code} is damaged: ")
    assert not path.exists()
    assert path.with_name(f"{path.name}.damaged").read_bytes() == b"no archive"
    assert conduct(sound, arms()).order == [], "nothing is trained for a probe"


def test_work_left_of_a_run_that_ended_is_found(sound) -> None:
    fact, folder = facts(sound, arms(), Ended)[0], sound.study(arms().id)
    folder.work("0123", fact.code, 1).mkdir(parents=True)
    assert wrong(sound) == {}
    folder.work(fact.run, fact.code, 1).mkdir(parents=True)
    assert wrong(sound) == {"work folders": f"{fact.run}/{fact.code}/1 is of a run that ended"}


def test_a_changed_report_is_found_but_for_one_that_is_being_written(sound) -> None:
    folder, names = sound.study(arms().id).report, ("report.html", "results.csv")
    folder.mkdir()
    for name in (*names, "mine.txt"):
        (folder / name).write_text(name)
    listed = {name: content_digest(name) for name in names}
    (folder / WRITTEN).write_text(json.dumps(listed))
    (folder / "mine.txt").write_text("a user's own")
    assert wrong(sound) == {}
    (folder / "report.html").write_text("another is best")
    (folder / "results.csv").unlink()
    again = f"is not as it was written (locus report {arms().id} --home {sound.root})"
    assert wrong(sound) == {"report": "; ".join(f"{name} {again}" for name in names)}
    (folder / WRITTEN).write_text(json.dumps(listed | {WRITTEN: ""}))
    assert wrong(sound) == {}, "its writer was killed"
    (folder / WRITTEN).write_text("[]")
    assert wrong(sound).keys() == {"report"}


@pytest.mark.parametrize("study", [arms, search])
@pytest.mark.parametrize(
    ("line", "share"), [(b"garbage\n", 0.0), (b"\n", 0.5), (b'{"fact":"guessed"}\n', 0.9), (b'{"fact":"gue', 1.0)]
)
def test_a_journal_is_cut_where_it_cannot_be_read(driven, tmp_path, study, line: bytes, share: float) -> None:
    edition = study()
    home = driven(edition, tmp_path)
    journal, folder = home.study(edition.id).journal, str(home.root)
    answers = {fact.run for fact in facts(home, edition, Ended)}
    lines = journal.read_bytes().splitlines(keepends=True)
    at = int(share * len(lines))
    damaged = b"".join([*lines[:at], line, *lines[at:]])
    journal.write_bytes(damaged)
    if share == 1.0:
        assert "a torn last line is left out" in verify(home, edition)[0].detail
        assert wrong(home, edition) == {}
        return
    how = rf"line {at + 1}, is no fact: .* \(locus verify {edition.id} --repair cuts the journal there\)"
    with pytest.raises(JournalError, match=how):
        read(journal)
    assert wrong(home, edition).keys() == {"journal"}
    assert [one.id for one in service.status(home=folder)] == [edition.id], "a row that says why, no error"
    said = service.repair(edition.id, home=folder)
    why = f"the journal is cut at line {at + 1}, which is no fact of {edition.id}"
    assert said[0] == f"{why}; answers that are there are used again"
    assert journal.with_name("journal.jsonl.damaged").read_bytes() == damaged
    assert journal.read_bytes().startswith(b"".join(lines[:at]))
    opened, counts = read(journal)[0][at:]
    assert isinstance(opened, Opened), "by the one that repairs, and no later line"
    assert (counts.seeds, counts.looks) == (edition.study.seeds, 1), "answers were cut, and no more seeds"
    again = conduct(home, edition)
    if study is arms:  # the points of a search may come out as others
        assert again.order == []
        assert {fact.run for fact in facts(home, edition, Ended)} == answers


def test_lost_weights_of_older_code_cost_no_scores(sound, monkeypatch) -> None:
    """They were deleted to make room, and nothing needs them."""
    edition = arms()
    old = {(fact.run, fact.code) for fact in facts(sound, edition, Ended)}
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    conduct(sound, edition)
    for number, (key, code) in enumerate(sorted(old)):
        weights = Outcomes(sound).weights(key, code)
        weights.unlink() if number % 2 else weights.write_bytes(b"other bytes")
    said = repair(sound, edition)
    assert len(said) == 3, said
    assert all(line.endswith("and its scores stay, which are by other code than today's") for line in said)
    assert repair(sound, edition) == []
    history = History.open(sound, edition)
    assert all(history.states[run].answered for run in old)


def test_a_study_that_runs_or_has_no_journal_is_refused(sound) -> None:
    with driving(sound, arms()), pytest.raises(HeldError, match=r"^arms@base is being run by another driver"):
        repair(sound, arms())
    sound.study(arms().id).journal.unlink()
    for act in (repair, verify):
        with pytest.raises(LocusError, match=r"^arms@base was never run here$"):
            act(sound, arms())
