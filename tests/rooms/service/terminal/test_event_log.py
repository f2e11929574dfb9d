"""Room: `locus logs` prints the journal's events, of all runs or of one."""

import random
import re
import threading
import time

import pytest

from service.storage.home import Home
from service.terminal.event_log import events
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import Toy, conduct, driving
from trainables.spec import SpecError


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path)


def test_every_event_has_its_time_and_its_line(home: Home) -> None:
    conduct(home, arms())
    lines = list(events(home, arms().id))
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  #", line) for line in lines)
    assert [line[21:] for line in lines[:4]] == [
        "#0 none planned",
        "#1 near planned",
        "#2 far planned",
        "#0 seed 0 started",
    ]
    assert sum("completed" in line for line in lines) == 6


def test_one_run_alone_by_its_row_and_seed_or_by_its_key(home: Home) -> None:
    toy = conduct(home, arms())
    one = list(events(home, arms().id, run="2.1"))
    assert [line[21:].split(" val")[0] for line in one] == [
        "#2 seed 1 started",
        *[f"#2 seed 1 epoch {epoch}/6" for epoch in range(1, 7)],
        "#2 seed 1 completed",
    ]
    key = next(run.key for run in toy.order if run.seed == 1 and run.recipe == toy.driver.history.of("trial")[2].recipe)
    assert list(events(home, arms().id, run=key[:9])) == one
    with pytest.raises(SpecError, match=r"its row and seed such as 0.1, got '7.1'"):
        list(events(home, arms().id, run="7.1"))


def test_it_follows_a_driver_to_its_end(home: Home) -> None:
    with driving(home, arms()) as driver:
        found: list[str] = []
        follow = threading.Thread(target=lambda: found.extend(events(home, arms().id, follow=True)))
        follow.start()
        time.sleep(0.7)
        Toy(driver, random.Random(0)).drive()
    follow.join(10)
    assert found == list(events(home, arms().id))
