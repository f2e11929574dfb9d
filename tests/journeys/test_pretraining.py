"""Arms that start from other runs, through the real engine: parents are listed, trained first, and once."""

import pytest

from tests.journeys.files import PRETRAINED
from tests.journeys.terminal import Terminal

ID = "pretrained@base"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    terminal = Terminal(tmp_path_factory.mktemp("pretrained"))
    (terminal.folder / "pretrained.py").write_text(PRETRAINED)
    terminal.first = terminal.type("run", "./pretrained.py")
    yield terminal
    terminal.clear()


def test_parents_are_trained_first_and_once(trained):
    assert trained.first.code == 0, trained.first.out + trained.first.err
    started = [fact for fact in trained.facts(ID) if fact.fact == "started"]
    assert len(started) == len({fact.run for fact in started}) == 3 * 2 + 2 * 2
    at = {(fact.label, fact.seed): number for number, fact in enumerate(trained.facts(ID)) if fact.fact == "started"}
    keys = {fact.run: (fact.label, fact.seed) for fact in started}
    ended = {keys[fact.run]: number for number, fact in enumerate(trained.facts(ID)) if fact.fact == "ended"}
    parents = {fact.name: fact.number for fact in trained.facts(ID) if fact.fact == "planned" and fact.role == "parent"}
    direction, absolute = (f"p{parents[f'fourier on {task}']}" for task in ("direction4", "absolute"))
    for seed in range(2):
        assert ended[direction, seed] < at[absolute, seed] < ended[absolute, seed] < at["2", seed]
        assert ended[direction, seed] < at["1", seed]


def test_they_are_listed_and_verified(trained):
    for line in ("p1", "p2"):
        assert any(row.split()[:1] == [line] for row in trained.first.lines), trained.first.out
    trained.do("verify", "pretrained")


def test_a_child_and_its_parent_can_be_run_again(trained):
    for label in ("p1", "2"):
        key = next(fact.run for fact in trained.facts(ID) if fact.fact == "started" and fact.label == label)
        again = trained.do("rerun", key)
        assert ", 0 differ" in again.out


def test_typed_again_nothing_runs(trained):
    before = trained.facts(ID)
    again = trained.type("run", "./pretrained.py")
    assert "plan: pretrained@base: 0 runs to train, 10 done" in again.out
    assert trained.facts(ID) == before
