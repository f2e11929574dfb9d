"""The driver is killed at twenty random moments, and while it lists its arms: the study ends with the same numbers."""

import os
import random
import signal
import time

import pytest

from service.storage.home import Home
from tests.faults.killed import ended, facts, measured_once, numbers, points, recovery_s, redone, trained_after_its_end
from tests.journeys.files import SMALL

pytestmark = [pytest.mark.fault, pytest.mark.timeout(2400)]

SEED = 20
KILLS = 20
COMMAND = ("run", "./study.py", "--budget", "long", "--seeds", "4")
ID = "encodings@long"
WAIT_S = 400
"""How long a study may take on a busy machine."""
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


def told(terminal, id):
    return facts(terminal.home, id) if Home(terminal.home).study(id).journal.exists() else []


def epochs(terminal):
    return sum(fact.fact == "measured" for fact in told(terminal, ID))


def wait_while(command, holds, seconds=120.0):
    """Waits as long as something holds and the command runs."""
    until = time.monotonic() + seconds
    while holds() and command.process.poll() is None:
        assert time.monotonic() < until, command.out
        time.sleep(0.02)


def test_the_driver_is_killed_at_random_moments(terminals, tally):
    """Half of the moments are in its first seconds, half while it trains; every second kill spares its workers."""
    calm, hurt, chance = terminals("calm"), terminals("hurt"), random.Random(SEED)
    assert calm.type(*COMMAND, timeout_s=WAIT_S).code == 0
    kills = []
    for number in range(KILLS):
        known, running = epochs(hurt), hurt.begin(*COMMAND)
        if number % 4 < 2:
            time.sleep(chance.uniform(0.2, 8))
        else:
            wait_while(running, lambda known=known: epochs(hurt) == known)
            time.sleep(chance.uniform(0, 3))
        assert running.process.poll() is None, f"the study ended before {KILLS} kills: {running.out}"
        if number % 2:
            running.kill()
        else:
            os.kill(running.process.pid, signal.SIGKILL)
        kills.append((time.time(), redone(hurt.home, ID) if told(hurt, ID) else 0))
        assert running.end(30).code == -signal.SIGKILL
    done = hurt.type(*COMMAND, timeout_s=WAIT_S)
    assert done.code == 0, done.out + done.err
    found = told(hurt, ID)
    assert numbers(found) == numbers(told(calm, ID))
    assert len(ended(found)) == 12
    assert measured_once(found)
    assert trained_after_its_end(found) == []
    assert not [fact for fact in found if fact.fact == "failed"]
    verified = hurt.type("verify", "encodings")
    assert verified.code == 0, verified.out
    for begun, again in kills:
        tally(again, recovery_s(found, begun))


def test_the_driver_is_killed_while_it_lists_its_arms(terminals, tally):
    calm, hurt, command = terminals("calm", MANY), terminals("hurt", MANY), ("run", "./study.py")
    assert calm.type(*command, timeout_s=WAIT_S).code == 0
    running = hurt.begin(*command)
    journal = Home(hurt.home).study("many@base").journal
    while not journal.exists() or b'"planned"' not in journal.read_bytes():
        assert running.process.poll() is None, running.out
    running.kill()
    begun = time.time()
    running.end(30)
    assert 0 < len(points(told(hurt, "many@base"))) < 30, "the kill came while arms were listed"
    done = hurt.type(*command, timeout_s=WAIT_S)
    assert done.code == 0, done.out + done.err
    found, right = told(hurt, "many@base"), told(calm, "many@base")
    assert points(found) == points(right)
    assert numbers(found) == numbers(right)
    assert hurt.type("verify", "many").code == 0
    tally(0, recovery_s(found, begun))
