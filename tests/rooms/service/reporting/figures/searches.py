"""Searches over two numbers with a history written by hand, for the figures of a search."""

from __future__ import annotations

import math
import random
from pathlib import Path

from search_spaces.space import Domain, Real, Space
from search_spaces.study import Search, Study
from service.results import Result
from service.storage.facts import Confirms, Counts
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base

GAMMA, RATE = "encoding.gamma", "optimizer.lr"
TWO: dict[str, Domain] = {GAMMA: Real(low=0.1, high=40.0, log=True), RATE: Real(low=1e-4, high=0.1, log=True)}
ODD = {3: "stopped", 5: "diverged", 6: "failed", 8: "part"}
"""How some points end; all others are trained on all seeds."""


def hill(values: dict) -> float:
    """An invented answer: a hill over gamma and a lower one over the learning rate; nothing else matters."""
    far = math.log(values[GAMMA] / 3) ** 2 / 4 + math.log(values[RATE] / 0.003) ** 2 / 16
    return 0.5 + 0.48 * math.exp(-far)


def search(root: Path, count: int = 14, *, rivals: int = 0, odd: dict | None = None, confirm=()) -> Result:
    """A search of random points with three seeds each, and as many random rivals as asked for."""
    plan = Search(space=Space(TWO), trials=count, rival=rivals > 0)
    edition = Study(name="hills", question="Where is the top?", base=base(), plan=plan, seeds=3).at()
    hand, chance = ByHand(root, edition), random.Random(4)

    def points(role: str, number: int, seeds: range, ends: dict) -> None:
        values = plan.space.point(edition.study.base, lambda _, coordinate: coordinate.draw(chance))
        trial, score = hand.plan(role, number, values), hill(values)
        scores = {seed: round(score + chance.gauss(0, 0.01), 3) for seed in seeds}
        how = ends.get(number, "whole")
        if how == "stopped":
            hand.stop(trial, seeds[0], 1.05, 3, 0.85)  # at its rung above all others
        elif how == "raced":
            for seed in seeds[:2]:
                hand.complete(trial, seed, scores[seed], scores[seed])
            hand.stop(trial, seeds[2], 0.0, 0, 0.85)
        elif how == "diverged":
            hand.diverge(trial, seeds[0], 4)
        elif how == "failed":
            hand.fail(trial, seeds[0], "the worker died")
        else:
            for seed, value in scores.items():
                if how == "part" and seed == seeds[-1]:
                    hand.fail(trial, seed, "the worker died")
                else:
                    hand.complete(trial, seed, value, value)

    with hand.journal:
        hand.journal.write(Counts(seeds=3, trials=count))
        for number in range(count):
            points("trial", number, range(3), ODD if odd is None else odd)
        for number in range(rivals):
            points("rival", number, range(2000, 2003), {})
        if confirm:
            hand.journal.write(Confirms(numbers=tuple(confirm)))
            known = {row.trial.number: row for row in Result.open(Home(root), edition.id).of("trial")}
            for number in confirm:
                trial = hand.plan("confirmation", number, known[number].trial.values)
                for seed in trial.seeds(3):
                    hand.complete(trial, seed, round(hill(trial.values), 3), 0.9)
    return Result.open(Home(root), edition.id)
