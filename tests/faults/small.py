"""A study of seconds, conducted on a real local Ray."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from search_spaces.study import Ablation, Edition, Score, Study
from service.execution import tune
from service.execution.driver import Driver
from service.planning.placement import Placement
from service.storage.facts import Fact
from service.storage.home import Home
from service.storage.journal import read
from tests.rooms.toy import driving
from trainables.launch.job import Job
from trainables.recipe import Recipe

TINY = {
    "data.train_size": 130,
    "data.val_size": 70,
    "data.test_size": 70,
    "optimizer.epochs": 3,
    "optimizer.batch_size": 32,
}


def edition(arms: dict[str, dict[str, Any]], **values: Any) -> Edition:
    """An ablation of one seed over 130 images."""
    plan = Ablation(arms=arms, baseline=next(iter(arms)))
    base = Recipe().put(TINY | values)
    study = Study(name="small", question="Does it run?", base=base, plan=plan, score=Score("val/accuracy"), seeds=1)
    return study.at(None)


def conduct(
    root: Path,
    edition: Edition,
    placement: Placement,
    hear: Callable[[Driver, Fact], None] = lambda *_: None,
    run_hours: float | None = None,
) -> list[Fact]:
    """Runs what is missing, on a Ray of its own; the journal's facts."""
    home = Home(root)
    with driving(home, edition, placement) as driver:
        driver.listeners.append(lambda fact: hear(driver, fact))
        first = driver.next()
        if isinstance(first, Job):
            tune.run_on_tune(driver, first, run_hours=run_hours)
        return read(home.study(edition.id).journal)[0]
