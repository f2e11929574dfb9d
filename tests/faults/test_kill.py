"""kill -9 at five points, and the same command again: the numbers are those of a study that nothing disturbed."""

import os
import signal
from functools import partial

import pytest

from service.storage import editions
from service.storage.home import Home
from service.tracking.store import look_up
from tests.faults.killed import ended, facts, numbers, of, points, shared, trained_after_its_end
from tests.journeys.files import REACH
from tests.journeys.processes import TRIAL, titled

pytestmark = [pytest.mark.fault, pytest.mark.timeout(1800)]

ABLATION = ("run", "./study.py", "-v", "--budget", "long", "--seeds", "2")
SEARCH = ("run", "./study.py", "-v", "--set", "optimizer.epochs=12", "--set", "data.train_size=200", "--as", "long")


def killed_at(terminal, command, moments):
    """Types a command again and again, each time killed at the next moment: what it says, or a process that it has."""
    for moment in moments:
        running = terminal.begin(*command)
        if moment is TRIAL:
            running.wait_until(partial(titled, running.process.pid, *TRIAL), "no process was there that trains")
        else:
            running.wait_for(moment)
        running.kill()
        assert running.end().code == -signal.SIGKILL


def shown(terminal, id):
    """MLflow's id of the study and of every run, by place; a trial's is another once its curve is sent anew."""
    home = Home(terminal.home)
    store = look_up(home, editions.stored(home, id))
    return {} if store is None else {place: row.id for place, row in store.shown.items() if place[0] != "trial"}


def test_an_ablation_has_the_numbers_of_the_undisturbed_one(terminals):
    plain, hurt = terminals("plain"), terminals("hurt")
    plain.do(*ABLATION)
    killed_at(hurt, ABLATION, ["plan:", TRIAL, "epoch 3/40", "epoch 30/40", "completed"])
    before = shown(hurt, "waves@long")
    hurt.do(*ABLATION)
    told, calm = facts(hurt.home, "waves@long"), facts(plain.home, "waves@long")
    assert numbers(told) == numbers(calm)
    assert ended(told) == ended(calm)
    assert len(ended(told)) == 6
    assert trained_after_its_end(told) == []
    after = shown(hurt, "waves@long")
    assert before
    assert before.items() <= after.items()
    hurt.do("verify", "waves")


@pytest.mark.gate
def test_a_search_one_at_a_time_proposes_the_same_points(terminals):
    plain, hurt = terminals("plain", REACH), terminals("hurt", REACH)
    command = (*SEARCH, "--max-concurrent", "1")
    plain.do(*command)
    killed_at(hurt, command, ["planned", "epoch 2/12", "completed", "epoch 5/12", "confirming"])
    hurt.do(*command)
    told, calm = facts(hurt.home, "reach@base~long"), facts(plain.home, "reach@base~long")
    assert points(told) == points(calm)
    assert [fact.numbers for fact in of(told, "confirms")] == [fact.numbers for fact in of(calm, "confirms")]
    stopped = [[(fact.run, fact.epoch, fact.cutoff) for fact in of(study, "stopped")] for study in (told, calm)]
    assert stopped[0] == stopped[1]
    assert ended(told) == ended(calm)
    assert numbers(told) == numbers(calm)
    assert trained_after_its_end(told) == []
    hurt.do("verify", "reach")


def test_a_search_two_at_a_time_shares_equal_numbers(terminals):
    plain, hurt = terminals("plain", REACH), terminals("hurt", REACH)
    plain.do(*SEARCH)
    killed_at(hurt, SEARCH, ["epoch 3/12", "completed"])
    hurt.do(*SEARCH)
    told, calm = facts(hurt.home, "reach@base~long"), facts(plain.home, "reach@base~long")
    assert len(shared(numbers(told), numbers(calm))) >= 2  # the first point is the plan's own
    assert trained_after_its_end(told) == []
    hurt.do("verify", "reach")


def test_a_killed_worker_is_a_failure_and_is_tried_again(terminals):
    one = terminals("one")
    running = one.begin(*ABLATION, "--seeds", "1")
    running.wait_for("epoch 5/40")
    os.kill(titled(running.process.pid, *TRIAL)[0], signal.SIGKILL)
    done = running.end()
    assert done.code == 0, done.out + done.err
    told = facts(one.home, "waves@long")
    (failed,) = of(told, "failed")
    assert failed.reason
    assert "failed: " + failed.reason in done.out
    assert [fact.attempt for fact in of(told, "started") if fact.run == failed.run] == [1, 2]
    assert ended(told)[failed.run] == "completed"
    assert len(ended(told)) == 3
    one.do("verify", "waves")


def test_a_torn_line_is_dropped_and_said(terminals):
    one = terminals("one")
    command = ("run", "./study.py", "--seeds", "1")
    one.do(*command)
    journal = Home(one.home).study("waves@base").journal
    whole = journal.read_bytes()
    torn = whole.splitlines(keepends=True)
    journal.write_bytes(b"".join(torn[:-1]) + torn[-1][: len(torn[-1]) // 2])
    again = one.do(*command)
    assert "the journal's last line was torn by a crash, and dropped" in again.out
    arms = editions.stored(Home(one.home), "waves@base").arms()
    assert ended(facts(one.home, "waves@base")).keys() == {run.key for arm in arms for run in arm.runs(1)}
    one.do("verify", "waves")
