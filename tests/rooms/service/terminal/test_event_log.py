"""Room: `locus logs` prints the journal's events, of all runs or of one."""

import random
import re
import threading

import pytest

from search_spaces.study import Ablation, Study
from service.storage.facts import Measured, Planned
from service.storage.history import History
from service.storage.home import Home
from service.terminal.live import EventLines, events
from tests.rooms.service.execution.studies import arms
from tests.rooms.toy import Toy, conduct, driving
from tests.waiting import until
from trainables.encodings import Fourier
from trainables.recipe import Recipe
from trainables.spec import SpecError


def test_every_event_has_its_time_and_its_line(home: Home) -> None:
    conduct(home, arms())
    lines = list(events(home, arms().id))
    assert all(re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  #", line) for line in lines)
    planned = [f"#{number} {name} planned" for number, name in enumerate(("none", "near", "far"))]
    assert [line[21:] for line in lines[:4]] == [*planned, "#0 seed 0 started"]
    assert sum("completed" in line for line in lines) == 6


def test_a_parent_is_shown_by_the_metric_of_its_own_task() -> None:
    """A parent that measures distances has no accuracy, and its line showed 0.0000."""
    start = {"kind": "from_trial", "values": {"data.task": "distance"}}
    plan = Ablation(arms={"fresh": {}, "pretrained": {"init": start}}, baseline="fresh")
    edition = Study(name="parents", question="?", base=Recipe(encoding=Fourier()), plan=plan, seeds=1).at()
    line = EventLines(history := History(edition))
    (parent,) = history.edition.arms()[1].run(0).needs()
    history.add(planned := Planned(role="trial", number=1, name="pretrained", values=edition.arms()[1].values))
    history.add(Planned(role="parent", number=1, name="p", values={"key": parent.key}))
    measured = Measured(run=parent.key, code=history.code(parent), epoch=2, values={"val/r2": 0.5, "train/loss": 1.0})
    assert line(planned) == "#1 pretrained planned"
    assert line(measured) == f"#p1 seed 0 epoch 2/{parent.recipe.optimizer.epochs} val/r2 0.5000"


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
        following = threading.Thread(target=lambda: found.extend(events(home, arms().id, follow=True)))
        following.start()
        toy = Toy(driver, random.Random(0))
        toy._fill()
        until(lambda: found)
        toy.drive()
    following.join(60)
    assert found == list(events(home, arms().id))
