"""The report of each search of the library, with random points and the corners of its space as its points."""

import random

import pytest

from search_spaces.library import find, names
from search_spaces.space import probes
from search_spaces.study import Search
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ByHand

SEARCHES = [name for name in names() if isinstance(find(name).plan, Search)]


@pytest.mark.parametrize("name", SEARCHES)
def test_any_of_its_points_can_be_reported(tmp_path, name):
    """At one of its budgets, which share its space; the searches take turns, so that all sizes of a budget occur."""
    budgets = [budget for budget in find(name).budgets if budget != "smoke"]
    budget = budgets[SEARCHES.index(name) % len(budgets)]
    edition = find(name).at(budget, seeds=2)
    plan, base = edition.study.plan, edition.study.base
    chance = random.Random(1)
    points = [*plan.first, *probes(plan.space, base)]
    points += [plan.space.point(base, lambda _, coordinate: coordinate.draw(chance)) for _ in range(12)]
    with ByHand(tmp_path, edition, seeds=2, trials=len(points)) as hand:
        for number, values in enumerate(points):
            trial = hand.plan("trial", number, values)
            for seed in range(2):
                score = round(chance.uniform(0.6, 0.9), 3)
                hand.complete(trial, seed, score, score)
    page = Result.open(Home(tmp_path), edition.id).report()
    assert edition.study.question.split('"')[0][:20] in page.read_text()
