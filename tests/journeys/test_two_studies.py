"""Two studies of one home, typed at the same time: they share the machine, and each run is trained once."""

import pytest

from service.storage.home import Home
from service.storage.journal import read
from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import Terminal

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
OTHER = ENCODINGS.replace('name="waves"', 'name="others"').replace(
    '"sine": {"encoding": Sinusoidal()}', '"long": {"encoding.gamma": 5.0}'
)


@pytest.fixture
def terminal(tmp_path):
    found = Terminal(tmp_path)
    (tmp_path / "one.py").write_text(ENCODINGS)
    (tmp_path / "other.py").write_text(OTHER)
    yield found
    found.clear()


def test_they_train_each_run_once(terminal):
    commands = [terminal.begin("run", f"./{name}.py", "--budget", "long", "--seeds", "2") for name in ("one", "other")]
    ended = [command.end() for command in commands]
    assert [typed.code for typed in ended] == [0, 0], [typed.out + typed.err for typed in ended]
    facts = [read(Home(terminal.home).study(f"{name}@long").journal)[0] for name in ("waves", "others")]
    begun = [fact.run for some in facts for fact in some if fact.fact == "started"]
    assert len(begun) == len({*begun}) == 8, "four arms of two seeds, two of the arms in both studies"
    answered = [{fact.run for fact in some if fact.fact == "ended"} for some in facts]
    assert [len(runs) for runs in answered] == [6, 6]
    assert len(answered[0] & answered[1]) == 4
    assert terminal.type("verify", "waves").code == terminal.type("verify", "others").code == 0
