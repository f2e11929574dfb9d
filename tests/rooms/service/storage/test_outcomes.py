"""Answers: written once and whole, known by key and code, with their weights."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest

from service.consistency import rerun
from service.storage.facts import Ended
from service.storage.home import Home
from service.storage.outcomes import Answered, Outcomes, averaged
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import conduct, write_weights
from tests.rooms.trainables.data.own_data import reading_arms
from trainables.recipe import Recipe, Run
from trainables.recipe.outcome import Completed, Diverged, Measurement
from trainables.recipe.revisions import Code, code_of
from trainables.spec import LocusError
from trainables.training.checkpoint import EMA_WEIGHTS, WEIGHTS

RUN = Run(Recipe().put({"encoding.kind": "fourier"}), 3)
CURVE = tuple(Measurement(epoch=epoch, values={"val/accuracy": epoch / 7}) for epoch in (1, 2))


def answered(code: Code | None = None, outcome=None, **values) -> Answered:
    code, outcome = code or code_of(RUN.recipe), outcome or Completed(curve=CURVE)
    return Answered(run=RUN, code=code, outcome=outcome, environment={"threads": 1}, **values)


@pytest.fixture
def outcomes(tmp_path: Path) -> Outcomes:
    return Outcomes(Home(tmp_path))


def weights(folder: Path) -> Path:
    path = folder / "weights.pt"
    write_weights(path, "weights")
    return path


def without(answer: Answered) -> Answered:
    """An answer as it was before its weights were added."""
    assert answer.weights
    return answer.model_copy(update={"weights": {}})


def held(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        return archive.read("archive/data.pkl").decode()


def test_an_answer_is_written_once_and_its_weights_may_be_added(outcomes, tmp_path: Path) -> None:
    one = answered(ended=12.5)
    outcomes.put(one, None)
    assert outcomes.get(RUN.key, one.name) == one
    assert outcomes.get(RUN.key, one.name, whole=True) is None
    assert outcomes.get(RUN.key, "0" * 12) is None
    outcomes.put(answered(ended=13.0), weights(tmp_path))
    assert without(outcomes.get(RUN.key, one.name, whole=True)) == one
    assert outcomes.path(RUN.key, one.name) == tmp_path / "outcomes" / RUN.key / f"{one.code.digest}.json"
    assert held(outcomes.weights(RUN.key, one.name)) == 50 * "weights"
    assert not (tmp_path / "weights.pt").exists(), "moved, not copied"
    assert [path.name[0] for path in (tmp_path / "outcomes" / RUN.key).iterdir()].count(".") == 0
    diverged = answered(Code(revisions={"a.py": "1"}), Diverged(epoch=3, curve=CURVE))
    outcomes.put(diverged, None)
    assert outcomes.get(RUN.key, diverged.name, whole=True) == diverged


def test_an_answer_to_a_run_at_hand_is_the_one_that_is_read_whole(outcomes) -> None:
    one = answered(ended=12.5)
    outcomes.put(one, None)
    curve = {measured.epoch: measured.values for measured in CURVE}
    found = outcomes.of_run(RUN, one.name, curve)
    assert found == outcomes.get(RUN.key, one.name) == one
    assert type(found) is Answered
    assert outcomes.of_run(RUN, "none", curve) is None
    assert outcomes.of_run(RUN, one.name, curve | {2: {"val/accuracy": 0.123}}) is None, "other numbers"
    path = outcomes.path(RUN.key, one.name)
    path.write_text(path.read_text()[:-9])
    assert outcomes.of_run(RUN, one.name, curve) is None, "it was cut"


def test_averaged_weights_lie_beside_the_weights(outcomes, tmp_path: Path) -> None:
    assert averaged(Path(WEIGHTS)).name == EMA_WEIGHTS
    one = answered()
    write_weights(tmp_path / EMA_WEIGHTS, "averaged")
    outcomes.put(one, weights(tmp_path))
    kept = outcomes.weights(RUN.key, one.name)
    assert (held(kept), held(averaged(kept))) == (50 * "weights", 50 * "averaged")
    assert [*map(without, outcomes.of(RUN.key))] == [one]
    assert [*outcomes.of(RUN.key)[0].weights] == [".pt", "_ema.pt"]


def test_answers_of_several_codes_stand_side_by_side_the_one_that_ended_last_at_the_end(outcomes) -> None:
    answers = [answered(Code(revisions={"a.py": f"{number}"}), ended=number) for number in (1.0, 2.0, 3.0)]
    for copied, one in enumerate(reversed(answers)):
        outcomes.put(one, None)
        os.utime(outcomes.path(RUN.key, one.name), (copied, copied))
    assert outcomes.of(RUN.key) == outcomes.find(RUN.key[:5]) == answers
    assert answers[1].code.changed(answers[0].code) == ["a.py"]


def test_a_beginning_must_name_one_run(outcomes) -> None:
    with pytest.raises(LocusError, match=r"none of the 0 runs of .* has a key that begins with 'abc'"):
        outcomes.find("abc")
    outcomes.put(answered(), None)
    other = answered().model_copy(update={"run": Run(RUN.recipe, 4)})
    outcomes.put(other, None)
    with pytest.raises(LocusError, match="2 runs have a key that begins with "):
        outcomes.find("")
    with pytest.raises(LocusError, match="none of the 2 runs"):
        outcomes.find("*")


def test_only_answers_are_kept() -> None:
    plain = answered().plain() | {"outcome": {"kind": "stopped", "epoch": 2, "cutoff": 0.5}}
    with pytest.raises(LocusError, match=r"outcome\.kind must be one of completed, diverged, got 'stopped'"):
        Answered.read(json.loads(json.dumps(plain)))


def test_an_answer_keeps_the_key_of_the_images_that_it_is_of(tmp_path: Path) -> None:
    """Files of a user's own class are others later: the answer is found, and another study that plans it counts it."""
    home, file = Home(tmp_path / "home"), tmp_path / "images"
    edition = reading_arms(file)
    conduct(home, edition)
    run = edition.arms()[0].run(0)
    file.write_text("2")
    (answer,) = Outcomes(home).of(run.key)
    assert answer.run.key == run.key
    assert Outcomes(home).usable(run.key, answer.name, whole=True) == answer
    again = conduct(home, edition.study.at(name="again"))
    assert again is not None
    assert not again.trained, "planned before the change"
    with pytest.raises(LocusError, match=r"^Read\.fingerprint in read\.py must be '6b86b273', as when the study was"):
        rerun(home, run.key)


@pytest.mark.parametrize("spoil", [Path.unlink, lambda path: path.write_bytes(path.read_bytes() + b" ")])
def test_what_probes_found_in_a_model_goes_with_its_answer(outcomes, tmp_path: Path, spoil) -> None:
    """A run that is trained again may have other numbers, on another machine."""
    one = answered()
    outcomes.put(one, weights(tmp_path))
    probe = outcomes.probe(RUN.key, one.name, "further_images")
    probe.write_bytes(b"of the first model")
    outcomes.put(one, None)
    assert probe.exists(), "the answer is there"
    spoil(outcomes.path(RUN.key, one.name))
    outcomes.put(one, weights(tmp_path))
    assert not probe.exists()
    assert probe.with_name(f"{probe.name}.damaged").read_bytes() == b"of the first model"


def test_an_answer_that_was_copied_to_another_run_is_none(home: Home) -> None:
    conduct(home, arms(seeds=1))
    outcomes = Outcomes(home)
    one, *_ = facts(home, arms(), Ended)
    (new,) = {run.key for run in arms().arms()[0].runs(2)} - {fact.run for fact in facts(home, arms(), Ended)}
    for end in (".json", ".pt"):
        outcomes.path(new, one.code).parent.mkdir(exist_ok=True)
        shutil.copy(outcomes.path(one.run, one.code).with_suffix(end), outcomes.path(new, one.code).with_suffix(end))
    assert outcomes.get(new, one.code) is None
    assert outcomes.of(new) == []
    assert len(conduct(home, arms(seeds=2)).order) == 3, "the driver trains it, as all other new seeds"
    assert outcomes.get(new, one.code).run.key == new
