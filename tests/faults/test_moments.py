"""The driver is killed at twenty random moments, while it lists its arms, and at five points of a search.

The same command again gives the numbers of the study that nothing disturbed.
"""

import os
import random
import signal
import time

import pytest

from service.storage import editions
from service.storage.home import Home
from service.tracking.store import look_up
from tests.faults.killed import (
    ended,
    facts,
    numbers,
    of,
    points,
    recovery_s,
    redone,
    require_whole,
    trained_after_its_end,
)
from tests.journeys.files import REACH, SMALL
from tests.journeys.processes import TRIAL, below, titled

pytestmark = [pytest.mark.fault, pytest.mark.timeout(2400)]

SEED = 20
KILLS = 20
COMMAND = ("run", "./study.py", "--budget", "long", "--seeds", "4")
ID = "waves@long"
MANY = (
    SMALL
    + """
study = Study(
    name="many",
    question="Which?",
    base=BASE.put({"optimizer.epochs": 1}),
    plan=Ablation(arms={f"gamma {i}": {"encoding.gamma": 1.0 + i} for i in range(30)}, baseline="gamma 0"),
    seeds=1,
)
"""
)

KILLED = """
import os, signal
from service.__main__ import main
from service.storage.facts import Planned
from service.storage.journal import Journal

write, listed = Journal.write, []

def write_or_die(journal, fact):
    written = write(journal, fact)
    listed.extend([fact] * isinstance(fact, Planned))
    if len(listed) == 10:
        os.kill(os.getpid(), signal.SIGKILL)
    return written

Journal.write = write_or_die
main()
"""
"""A command whose driver is killed once it has listed its tenth arm."""


def epochs(terminal):
    return len(of(facts(terminal.home, ID), "measured"))


def shown(terminal):
    """MLflow's id of the study and of every run, by place; a trial's is another once its curve is sent anew."""
    home = Home(terminal.home)
    store = look_up(home, editions.stored(home, ID))
    return {} if store is None else {place: row.id for place, row in store.shown.items() if place[0] != "trial"}


def has_process(command, title):
    return any(title in one for one in below(command.process.pid).values())


EARLY = {
    "it has a plan": lambda command: "plan:" in command.out,
    "Ray starts": lambda command: has_process(command, "gcs_server"),
    "Ray has started": lambda command: has_process(command, "ray::IDLE"),
    "a worker starts": lambda command: titled(command.process.pid, *TRIAL),
    "it trains": lambda command: " epoch " in command.out,
}
"""What is seen of a command's first seconds."""


def test_the_driver_is_killed_at_random_moments(terminals, tally):
    """Half of the moments are in its first seconds, half while it trains; every second kill spares its workers."""
    calm, hurt, chance = terminals("calm"), terminals("hurt"), random.Random(SEED)
    calm.do(*COMMAND)
    kills = []
    for number in range(KILLS):
        before, running = epochs(hurt), hurt.begin(*COMMAND)
        if number % 4 < 2:
            name = chance.choice([*EARLY])
            running.wait_until(lambda name=name, running=running: EARLY[name](running), f"{name}: that did not happen")
        else:
            more = before + chance.randint(1, 15)
            running.wait_until(lambda more=more: epochs(hurt) >= more, f"it did not come to {more} epochs")
        time.sleep(chance.uniform(0, 0.3))  # for moments between those that can be seen; nothing is waited for
        if number % 2:
            running.kill()
        else:
            os.kill(running.process.pid, signal.SIGKILL)
        kills.append((time.time(), redone(hurt.home, ID)))
        assert running.end().code == -signal.SIGKILL
    before = shown(hurt)
    assert before
    hurt.do(*COMMAND)
    assert before.items() <= shown(hurt).items()
    found = require_whole(hurt, ID, numbers(facts(calm.home, ID)))
    assert len(of(found, "ended")) == 12
    assert trained_after_its_end(found) == []
    assert not of(found, "failed")
    for begun, again in kills:
        tally(again, recovery_s(found, begun))


def test_the_driver_is_killed_while_it_lists_its_arms(terminals, tally):
    calm, hurt, command = terminals("calm", MANY), terminals("hurt", MANY), ("run", "./study.py")
    calm.do(*command)
    killed = hurt.python(KILLED, *command)
    begun = time.time()
    assert killed.code == -signal.SIGKILL, killed.out + killed.err
    assert len(points(facts(hurt.home, "many@base"))) == 10, "the kill came while arms were listed"
    hurt.do(*command)
    found, right = facts(hurt.home, "many@base"), facts(calm.home, "many@base")
    assert points(found) == points(right)
    assert numbers(found) == numbers(right)
    hurt.do("verify", "many")
    tally(0, recovery_s(found, begun))


@pytest.mark.gate
def test_a_search_one_at_a_time_that_is_killed_proposes_the_same_points(terminals):
    calm, hurt = terminals("calm", REACH), terminals("hurt", REACH)
    command = ("run", "./study.py", "-v", "--set", "optimizer.epochs=12", "--set", "data.train_size=200")
    command = (*command, "--as", "long", "--max-concurrent", "1")
    calm.do(*command)
    for text in ("planned", "epoch 2/12", "completed", "epoch 5/12", "confirming"):
        running = hurt.begin(*command)
        running.wait_for(text)
        running.kill()
        assert running.end().code == -signal.SIGKILL
    hurt.do(*command)
    right = facts(calm.home, "reach@base~long")
    found = require_whole(hurt, "reach@base~long", numbers(right))
    assert points(found) == points(right)
    assert [fact.numbers for fact in of(found, "confirms")] == [fact.numbers for fact in of(right, "confirms")]
    assert ended(found) == ended(right)
    stopped = [[(fact.run, fact.epoch, fact.cutoff) for fact in of(study, "stopped")] for study in (found, right)]
    assert stopped[0] == stopped[1]
    assert trained_after_its_end(found) == []
