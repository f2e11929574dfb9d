"""While a study runs, commands in other terminals ask for more seeds, for fewer concurrent runs, for its end; and two
studies of one home that are typed at the same time share the machine, and train each run once."""

import pytest

from tests.journeys.files import ENCODINGS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ID = "waves@long"
RUN = ("run", "./study.py", "--budget", "long")


def test_it_is_asked_for_more_and_stopped_and_stopped_now(terminal):
    first = terminal.begin(*RUN)
    first.wait_for("epoch 1/40")
    same = terminal.type(*RUN)
    assert same.code == 2
    assert f"{ID} is being run by another driver, which does all of this" in same.said
    more = terminal.do(*RUN, "--seeds", "2", "--max-concurrent", "1")
    assert "was asked for 2 seeds and 1 concurrent run" in more.said
    first.wait_for("asked by another command: seeds 2, max-concurrent 1")
    assert [fact.seeds for fact in terminal.facts(ID, "counts")][-1] == 2

    watch = terminal.begin("logs", "waves", "-f")
    watch.wait_for("#0 seed 0 started")
    stopped = terminal.do("stop", "waves")
    assert f"the driver of {ID} was asked to stop each run after its epoch" in stopped.said
    ended = first.end()
    assert ended.code == 130
    assert "what is finished is kept" in ended.said
    assert watch.end().code == 0

    again = terminal.begin(*RUN)
    again.wait_for("epoch")
    now = terminal.type("stop", "waves", "--now")
    assert "was asked to stop now" in now.said
    assert again.end().code == 130
    again.wait_until_gone()

    terminal.do(*RUN)
    assert len(terminal.facts(ID, "ended")) == 6
    assert len({(fact.run, fact.epoch) for fact in terminal.facts(ID, "measured")}) == 6 * 40
    nobody = terminal.type("stop", "waves")
    assert (nobody.code, nobody.err.strip()) == (2, f"locus: {ID} is not being run here; see locus status")


def test_two_studies_of_one_home_train_each_run_once(terminal):
    text = ENCODINGS.replace('name="waves"', 'name="others"')
    other = text.replace('"sine": {"encoding": Sinusoidal()}', '"long": {"encoding.gamma": 5.0}')
    (terminal.folder / "other.py").write_text(other)
    options = ("--budget", "long", "--seeds", "2")
    commands = [terminal.begin("run", f"./{name}.py", *options) for name in ("study", "other")]
    ended = [command.end() for command in commands]
    assert [typed.code for typed in ended] == [0, 0], [typed.out + typed.err for typed in ended]
    ids = ("waves@long", "others@long")
    begun = [fact.run for id in ids for fact in terminal.facts(id, "started")]
    assert len(begun) == len({*begun}) == 8, "four arms of two seeds, two of the arms in both studies"
    answered = [{fact.run for fact in terminal.facts(id, "ended")} for id in ids]
    assert [len(runs) for runs in answered] == [6, 6]
    assert len(answered[0] & answered[1]) == 4
    terminal.do("verify", "waves")
    terminal.do("verify", "others")
