"""Arms that start from other runs, or have a teacher, through the real engine: parents are listed, first, and once."""

import hashlib
import json

import pytest

from service.storage.home import Home
from tests.journeys.files import DISTILLED, PRETRAINED
from tests.journeys.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


def ran(folder, name, text):
    """A terminal in which a study was run once."""
    terminal = Terminal(folder)
    (folder / f"{name}.py").write_text(text)
    terminal.first = terminal.type("run", f"./{name}.py")
    return terminal


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    with ran(tmp_path_factory.mktemp("pretrained"), "pretrained", PRETRAINED) as terminal:
        yield terminal


@pytest.fixture(scope="module")
def distilled(tmp_path_factory):
    with ran(tmp_path_factory.mktemp("distilled"), "distilled", DISTILLED) as terminal:
        yield terminal


def begun_and_ended(terminal, id):
    """The number of the fact by which each run began, and of that by which it ended, by label and seed."""
    facts = terminal.facts(id)
    runs = {fact.run: (fact.label, fact.seed) for fact in facts if fact.fact == "started"}
    assert len(runs) == len([fact for fact in facts if fact.fact == "started"]), "each is trained once"
    return [
        {runs[fact.run]: number for number, fact in enumerate(facts) if fact.fact == kind}
        for kind in ("started", "ended")
    ]


def test_parents_are_trained_first_and_once(pretrained):
    assert pretrained.first.code == 0, pretrained.first.out + pretrained.first.err
    begun, ended = begun_and_ended(pretrained, "pretrained@base")
    assert len(begun) == 3 * 2 + 2 * 2
    planned = pretrained.facts("pretrained@base", "planned")
    numbers = {fact.name: fact.number for fact in planned if fact.role == "parent"}
    direction, absolute = (f"p{numbers[f'fourier on {task}']}" for task in ("direction4", "absolute"))
    for seed in range(2):
        assert ended[direction, seed] < begun[absolute, seed] < ended[absolute, seed] < begun["2", seed]
        assert ended[direction, seed] < begun["1", seed]


def test_a_teacher_is_trained_once_and_before_its_pupils_and_listed_as_one(distilled):
    assert distilled.first.code == 0, distilled.first.out + distilled.first.err
    begun, ended = begun_and_ended(distilled, "distilled@base")
    assert sorted(begun) == [(label, seed) for label in ("0", "1", "2", "p1") for seed in range(2)]
    for seed in range(2):
        assert all(ended["p1", seed] < begun[label, seed] for label in ("1", "2"))
    (row,) = [line for line in distilled.first.lines if line.split()[:1] == ["p1"]]
    assert "teacher: fourier on direction" in row
    table = Home(distilled.home).study("distilled@base").report / "results.csv"
    assert "teacher: fourier on direction" in table.read_text()


@pytest.mark.parametrize(
    ("name", "parents", "reruns", "runs"),
    [("pretrained", {"p1", "p2"}, ("p1", "2"), 10), ("distilled", {"p1"}, ("2",), 8)],
)
def test_they_are_listed_verified_and_run_again_and_typed_again_nothing_runs(request, name, parents, reruns, runs):
    terminal, id = request.getfixturevalue(name), f"{name}@base"
    assert {line.split()[0] for line in terminal.first.lines if line.strip()} >= parents
    terminal.do("verify", name)
    for label in reruns:
        key = next(fact.run for fact in terminal.facts(id, "started") if fact.label == label)
        assert ", 0 differ" in terminal.do("rerun", key).out
    before = terminal.facts(id)
    assert f"plan: {id}: 0 runs to train, {runs} done" in terminal.type("run", f"./{name}.py").out
    assert terminal.facts(id) == before


def test_a_kept_answers_weights_teach_as_a_file(distilled):
    """The weights that a study kept are a file like any other."""
    key = next(fact.run for fact in distilled.facts("distilled@base", "started") if fact.label == "p1")
    weights = next(Home(distilled.home).outcomes.glob(f"{key}/*.pt"))
    sha256 = hashlib.sha256(weights.read_bytes()).hexdigest()
    teacher = {"kind": "from_file", "path": str(weights), "sha256": sha256, "values": {"model.depth": 2}}
    again = distilled.do("run", "./distilled.py", "--seeds", "1", "--set", f"teacher={json.dumps(teacher)}")
    assert not any(line.split()[:1] == ["p1"] for line in again.lines), again.out
