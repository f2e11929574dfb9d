"""Arms with a teacher, through the real engine: it is listed as one, trained first and once for all its pupils."""

import pytest

from service.storage.home import Home
from tests.journeys.files import DISTILLED
from tests.journeys.terminal import Terminal

ID = "distilled@base"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    terminal = Terminal(tmp_path_factory.mktemp("distilled"))
    (terminal.folder / "distilled.py").write_text(DISTILLED)
    terminal.first = terminal.type("run", "./distilled.py")
    yield terminal
    terminal.clear()


def test_the_teacher_is_trained_once_and_before_its_pupils(trained):
    assert trained.first.code == 0, trained.first.out + trained.first.err
    started = {(fact.label, fact.seed): n for n, fact in enumerate(trained.facts(ID)) if fact.fact == "started"}
    assert sorted(started) == [(label, seed) for label in ("0", "1", "2", "p1") for seed in range(2)]
    keys = {fact.run: (fact.label, fact.seed) for fact in trained.facts(ID) if fact.fact == "started"}
    ended = {keys[fact.run]: n for n, fact in enumerate(trained.facts(ID)) if fact.fact == "ended"}
    for seed in range(2):
        assert all(ended["p1", seed] < started[label, seed] for label in ("1", "2"))


def test_the_teacher_is_listed_as_one_and_all_is_verified(trained):
    (row,) = [line for line in trained.first.lines if line.split()[:1] == ["p1"]]
    assert "teacher: fourier on direction" in row
    trained.do("verify", "distilled")
    results = (Home(trained.home).study("distilled@base").root / "report" / "results.csv").read_text()
    assert "teacher: fourier on direction" in results


def test_a_pupil_can_be_run_again(trained):
    key = next(fact.run for fact in trained.facts(ID) if fact.fact == "started" and fact.label == "2")
    again = trained.do("rerun", key)
    assert ", 0 differ" in again.out


def test_typed_again_nothing_runs(trained):
    before = trained.facts(ID)
    again = trained.type("run", "./distilled.py")
    assert "plan: distilled@base: 0 runs to train, 8 done" in again.out
    assert trained.facts(ID) == before


def test_a_kept_answers_weights_teach_as_a_file(trained):
    """The weights that a study kept are a file like any other; another file under its name is refused."""
    home = Home(trained.home)
    weights = next(
        home.outcomes.glob(f"{next(f.run for f in trained.facts(ID) if getattr(f, 'label', '') == 'p1')}/*.pt")
    )
    again = trained.do("run", "./distilled.py", "--seeds", "1", *by_file(weights))
    assert not any(line.split()[:1] == ["p1"] for line in again.lines), again.out


def by_file(path):
    import hashlib
    import json

    sha256 = hashlib.sha256(path.read_bytes()).hexdigest()
    teacher = {"kind": "from_file", "path": str(path), "sha256": sha256, "values": {"model.depth": 2}}
    return ["--set", f"teacher={json.dumps(teacher)}"]
