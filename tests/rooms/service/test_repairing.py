"""What verify finds damaged is set aside by `repair`, and the next run makes it again, with the same numbers."""

import json
import shutil
from collections.abc import Callable
from itertools import product
from pathlib import Path

import pytest

import service
from search_spaces.study import Edition
from service.consistency import answers_of, repair, wrong_answers
from service.storage.facts import Ended, Opened
from service.storage.history import History
from service.storage.home import Home
from service.storage.journal import JournalError, read
from service.storage.leases import HeldError
from service.storage.outcomes import Answered, Outcomes
from tests.rooms import toy
from tests.rooms.service.execution.studies import arms, facts, search
from tests.rooms.toy import conduct, driving
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigest, CodeDigests
from trainables.recipe.outcome import Measurement
from trainables.spec import LocusError
from trainables.whole_files import sealed


@pytest.fixture(scope="module")
def driven(tmp_path_factory) -> Callable[[Edition, Path], Home]:
    """Copies the home of a study that has ended."""
    known: dict[str, Path] = {}

    def copied(edition: Edition, to: Path) -> Home:
        if edition.id not in known:
            known[edition.id] = tmp_path_factory.mktemp("driven")
            conduct(Home(known[edition.id]), edition)
        shutil.copytree(known[edition.id], to, dirs_exist_ok=True)
        return Home(to)

    return copied


def changed(outcomes: Outcomes, fact: Ended, change: Callable[[dict], object]) -> None:
    """An answer that was changed with its digest, as no crash can do."""
    path = outcomes.path(fact.run, fact.code)
    answer = json.loads(path.read_text())
    del answer["digest"]
    change(answer)
    path.write_bytes(sealed(Answered.read(answer).plain()))


def other_run(outcomes: Outcomes, fact: Ended) -> None:
    changed(outcomes, fact, lambda answer: answer["run"].update(seed=99))


def one_digit(outcomes: Outcomes, fact: Ended) -> None:
    path = outcomes.path(fact.run, fact.code)
    before = path.read_text()
    path.write_text(before.replace('"val/accuracy": 0.', '"val/accuracy": 1.', 1))
    assert path.read_text() != before


def other_environment(outcomes: Outcomes, fact: Ended) -> None:
    path = outcomes.path(fact.run, fact.code)
    path.write_text(path.read_text().replace('"toy": 1', '"toy": 2'))


def other_field(outcomes: Outcomes, fact: Ended) -> None:
    """JSON still, but not of any locus."""
    path = outcomes.path(fact.run, fact.code)
    path.write_text(path.read_text().replace('"recipe"', '"recipd"'))


def weights_of_another_seed(outcomes: Outcomes, fact: Ended) -> None:
    paths = [path for path in outcomes.folder.glob("*/*.pt") if path.parent.name != fact.run]
    shutil.copy(paths[0], outcomes.weights(fact.run, fact.code))


def no_answer(outcomes: Outcomes, fact: Ended) -> None:
    outcomes.path(fact.run, fact.code).unlink()


def cut_weights(outcomes: Outcomes, fact: Ended) -> None:
    path = outcomes.weights(fact.run, fact.code)
    path.write_bytes(path.read_bytes()[:-30])


def one_bit_of_weights(outcomes: Outcomes, fact: Ended) -> None:
    path = outcomes.weights(fact.run, fact.code)
    whole = bytearray(path.read_bytes())
    whole[len(whole) // 3] ^= 1
    path.write_bytes(whole)


def no_weights(outcomes: Outcomes, fact: Ended) -> None:
    outcomes.weights(fact.run, fact.code).unlink()


@pytest.mark.parametrize(
    "spoil",
    [
        other_run, one_digit, other_environment, other_field, no_answer, cut_weights, one_bit_of_weights,
        weights_of_another_seed, no_weights,
    ],
)  # fmt: skip
def test_a_damaged_answer_is_made_again(driven, tmp_path, spoil) -> None:
    edition, home = arms(), driven(arms(), tmp_path)
    outcomes = Outcomes(home)
    fact = facts(home, edition, Ended)[1]
    before = outcomes.get(fact.run, fact.code)
    spoil(outcomes, fact)
    wrong = [*wrong_answers(outcomes, History.open(home, edition), facts(home, edition, Ended))]
    assert {one.fact.run for one in wrong} == {fact.run}
    said = repair(home, edition)
    assert said[-1] == f"1 run to train again: locus run arms@base --home {home.root}"
    assert wrong[0].sentence in said[0]
    assert repair(home, edition) == [], "it is asked for again already"
    assert [run.key for run in conduct(home, edition).order] == [fact.run]
    assert outcomes.get(fact.run, fact.code, whole=True).repeats(before)
    assert not [*wrong_answers(outcomes, History.open(home, edition), facts(home, edition, Ended))]
    assert repair(home, edition) == []


def test_an_answer_that_another_study_trained_again_stays(home: Home, monkeypatch) -> None:
    """The other study needs the weights, and its machine rounds otherwise. Its answers and weights are sound."""
    one, two = (arms(keep=keep).model_copy(update={"mark": f"~{len(keep)}"}) for keep in ((), ("weights",)))
    outcomes, measure = Outcomes(home), toy.measure

    def elsewhere(run: Run, epoch: int) -> Measurement:
        values = measure(run, epoch).values
        return Measurement(epoch=epoch, values={name: value + 1e-6 for name, value in values.items()})

    def wrong(edition: Edition) -> list[str]:
        history = History.open(home, edition)
        ended = answers_of(read(home.study(edition.id).journal)[0], history)
        return [answer.sentence for answer in wrong_answers(outcomes, history, ended)]

    conduct(home, one)
    monkeypatch.setattr(toy, "measure", elsewhere)
    conduct(home, two)
    files = {
        path: path.read_bytes() for path in home.outcomes.rglob("*") if path.suffix != ".damaged" and path.is_file()
    }
    differ = wrong(one)
    assert len(differ) == 6
    assert all(sentence.endswith("differs from the journal: another study trained it again") for sentence in differ)
    assert repair(home, one) == [
        f"{sentence}; locus run {one.id} --home {home.root} takes its numbers" for sentence in differ
    ]
    assert {path: path.read_bytes() for path in files} == files
    assert wrong(two) == []
    assert conduct(home, one).order == []
    assert wrong(one) == []


def test_a_damaged_probe_is_set_aside(home: Home) -> None:
    edition, outcomes = arms(), Outcomes(home)
    conduct(home, edition)
    fact = facts(home, edition, Ended)[0]
    path = outcomes.probe(fact.run, fact.code, "similarity")
    path.write_bytes(b"no archive")
    (said,) = repair(home, edition)
    assert said.startswith(f"the probe similarity of {fact.run} by {fact.code} is damaged: ")
    assert not path.exists()
    assert path.with_name(f"{path.name}.damaged").read_bytes() == b"no archive"
    assert conduct(home, edition).order == [], "nothing is trained for a probe"


@pytest.mark.parametrize("study", [arms, search])
def test_a_journal_is_cut_where_it_cannot_be_read(driven, tmp_path, study) -> None:
    lines, shares = (b"garbage\n", b"\n", b'{"fact":"guessed"}\n'), (0.0, 0.5, 0.9)
    for number, (line, share) in enumerate(product(lines, shares)):
        edition = study()
        home = driven(edition, tmp_path / str(number))
        is_cut_and_goes_on(home, edition, line, share, same=study is arms)


def is_cut_and_goes_on(home: Home, edition: Edition, line: bytes, share: float, *, same: bool) -> None:
    journal, folder = home.study(edition.id).journal, str(home.root)
    answers = {fact.run for fact in facts(home, edition, Ended)}
    lines = journal.read_bytes().splitlines(keepends=True)
    at = int(share * len(lines))
    damaged = b"".join([*lines[:at], line, *lines[at:]])
    journal.write_bytes(damaged)
    how = rf"line {at + 1}, is no fact: .* \(locus verify {edition.id} --repair cuts the journal there\)"
    with pytest.raises(JournalError, match=how):
        read(journal)
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
    kept = {fact.run for fact in facts(home, edition, Ended)}
    if same:  # the points of a search may come out as others
        assert again.order == []
        assert kept == answers


def test_lost_weights_of_older_code_cost_no_scores(home: Home, monkeypatch) -> None:
    """They were deleted to make room, and nothing needs them."""
    edition = arms()
    conduct(home, edition)
    old = {(fact.run, fact.code) for fact in facts(home, edition, Ended)}
    today = CodeDigests.__call__
    edited = lambda codes, recipe: CodeDigest(files=today(codes, recipe).files | {"trainables/x.py": "edited"})  # noqa: E731
    monkeypatch.setattr(CodeDigests, "__call__", edited)
    conduct(home, edition)
    for number, (key, code) in enumerate(sorted(old)):
        weights = Outcomes(home).weights(key, code)
        weights.unlink() if number % 2 else weights.write_bytes(b"other bytes")
    said = repair(home, edition)
    assert len(said) == 3, said
    assert all(line.endswith("and its scores stay, which are by other code than today's") for line in said)
    assert repair(home, edition) == []
    history = History.open(home, edition)
    assert all(history.states[place].answered for place in old)


def test_a_study_that_runs_is_not_repaired(home: Home) -> None:
    with driving(home, arms()), pytest.raises(HeldError, match=r"^arms@base is being run by another driver"):
        repair(home, arms())


def test_a_study_without_a_journal_is_said(home: Home) -> None:
    conduct(home, arms())
    home.study(arms().id).journal.unlink()
    with pytest.raises(LocusError, match=r"^arms@base was never run here$"):
        repair(home, arms())
