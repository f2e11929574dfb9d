"""Room: a home and a storage have trained the same run, each on its own machine, with other numbers and weights."""

import hashlib
import zipfile
from pathlib import Path

import pytest

from service.storage.facts import Ended
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from service.storage.remote import Copies, fetch
from tests.rooms import toy
from tests.rooms.service.execution.studies import BASE, arms, facts
from tests.rooms.service.storage.sending import command
from tests.rooms.toy import Toy, conduct
from trainables.recipe import FromTrial, Run
from trainables.recipe.outcome import Measurement
from trainables.remote_files import RemoteFolder
from trainables.spec import LocusError

PARENT = {"encoding.gamma": 1.0}
CHILD = {"init": FromTrial(values=PARENT, part="backbone").plain()}
OTHER_CHILD = {
    "init": FromTrial(values=PARENT | {"optimizer.lr": BASE.optimizer.lr}, part="backbone").plain(),
    "optimizer.lr": 0.01,
}
"""A child of the same parent."""
ALONE, WITH_CHILD = arms({"plain": {}, "near": PARENT}), arms({"plain": {}, "child": CHILD}, name="children")
KEY = next(run.parents["init"].key for run in WITH_CHILD.arms()[1].runs(1))


@pytest.fixture
def uri(tmp_path: Path) -> str:
    return f"file://{tmp_path}/there"


@pytest.fixture
def home(tmp_path: Path, uri: str, monkeypatch) -> Home:
    """A home without weights or answers, beside a storage to which another machine has sent its own."""
    measure = toy.measure

    def elsewhere(run: Run, epoch: int) -> Measurement:
        values = measure(run, epoch).values
        return Measurement(epoch=epoch, values={name: value + 1e-6 for name, value in values.items()})

    def other_weights(path: Path, key: str) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("archive/data.pkl", f"those of another machine {key}")

    with monkeypatch.context() as another_machine:
        another_machine.setattr(toy, "measure", elsewhere)
        another_machine.setattr(toy, "write_weights", other_weights)
        sent(Home(tmp_path / "cluster"), WITH_CHILD, uri)
    return Home(tmp_path / "laptop")


def sent(home: Home, edition, uri: str) -> tuple[Toy, list[str]]:
    """One command with a storage. Fails where a child starts from other weights than those of its parent's answer."""

    def check_parents(driver) -> None:
        start = driver._start

        def checked(run, trial):
            job = start(run, trial)
            for use, parent in run.parents.items():
                digest = hashlib.sha256(Path(job.parents[use].removeprefix("file://")).read_bytes()).hexdigest()
                answer = Outcomes(home).get(parent.key, driver.history.code(parent))
                assert answer.weights[".pt"] == digest
                assert answer.curve == driver.history.state(parent).values
            return job

        driver._start = checked

    done = command(home, edition, uri, prepare=check_parents)
    return done, done.driver.replaced


def final(home: Home, key: str) -> float:
    return Outcomes(home).of(key)[-1].outcome.final["val/accuracy"]


@pytest.mark.parametrize("has_parent", [False, True])
def test_a_child_starts_from_the_weights_of_its_parents_answer(home, uri, tmp_path, has_parent: bool) -> None:
    """Also where the study has trained the parent itself, goes on with a storage, and begins the child then."""
    near = {} if has_parent else {"near": PARENT}
    study = arms({"plain": {}, **near, "child": OTHER_CHILD}, name="third")
    for cut in range(1, 40) if has_parent else ():
        if KEY not in {fact.run for fact in facts(home, study, Ended)}:
            conduct(home, study, cut=cut)
    if not has_parent:
        conduct(home, ALONE)
    before = final(home, KEY)
    done, replaced = sent(home, study, uri)
    assert done.order
    assert KEY in replaced
    assert final(home, KEY) == final(Home(tmp_path / "cluster"), KEY) == pytest.approx(before + 1e-6)
    assert [*(home.outcomes / KEY).glob("*.json.damaged")], "what gave way is kept"
    assert sent(home, study, uri)[1] == [], "once"


def test_weights_of_another_training_are_refused(home: Home, uri: str) -> None:
    conduct(home, ALONE)
    name = Outcomes(home).of(KEY)[-1].name
    with pytest.raises(LocusError, match=rf"{KEY}/{name}.json must be .*{name}.json, got the answer of another"):
        Copies(uri, home, ALONE.id).weights(KEY, name)


def test_nothing_is_fetched_or_sent_beside_an_answer_of_another_training(home: Home, uri: str) -> None:
    conduct(home, ALONE)
    outcomes, copies = Outcomes(home), Copies(uri, home, ALONE.id)
    name = outcomes.of(KEY)[-1].name
    outcomes.weights(KEY, name).unlink()
    outcomes.probe(KEY, name, "position").write_bytes(b"what a probe found in the home's model")
    copies.outcomes.write(f"{KEY}/{name}.similarity.npz", b"what it found in the storage's model")
    fetch(uri, home, WITH_CHILD.id)
    copies.keep_missing([(KEY, name)])
    assert not outcomes.probe(KEY, name, "similarity").exists()
    assert not outcomes.weights(KEY, name).exists()
    assert not copies.outcomes.has(f"{KEY}/{name}.position.npz")
    outcomes.path(KEY, name).unlink()
    copies.fetch_answers_of(KEY)
    assert outcomes.has_sound_weights(KEY, name)


@pytest.mark.parametrize("moment", ["weights", "answer"])
def test_two_homes_that_send_one_answer_at_the_same_moment_leave_one_with_its_own_weights(
    home: Home, uri: str, tmp_path: Path, monkeypatch, moment: str
) -> None:
    cluster = Home(tmp_path / "cluster")
    conduct(home, ALONE)
    name = Outcomes(home).of(KEY)[-1].name
    place = Copies(f"{uri}-second", home, ALONE.id)
    put, others = RemoteFolder.put, [Copies(place.uri, cluster, WITH_CHILD.id)]

    def while_another_home_sends(folder, local, at):
        if others and at.endswith(".json") == (moment == "answer"):
            others.pop().keep(KEY, name)
        put(folder, local, at)

    monkeypatch.setattr(RemoteFolder, "put", while_another_home_sends)
    place.keep(KEY, name)
    assert not others
    third = Home(tmp_path / "third")
    Copies(place.uri, third, ALONE.id).fetch_answers_of(KEY)
    assert Outcomes(third).has_sound_weights(KEY, name)
    weights = Copies(place.uri, third, ALONE.id).weights(KEY, name)
    known = Outcomes(third).get(KEY, name).weights[".pt"]
    assert hashlib.sha256(Path(weights.removeprefix("file://")).read_bytes()).hexdigest() == known
