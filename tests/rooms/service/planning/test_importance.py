"""The importance of paths: what the score depends on has it, what it does not depend on has little."""

import math
import random

import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Halving, Search, Study
from service.planning.sampling import FEWEST_POINTS, MOST_POINTS, importances, scored_points
from service.reporting.further_tables import varied
from service.results import Result
from service.storage.facts import StoppedAt
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base

DOMAINS = {
    "encoding.gamma": Real(low=0.1, high=40.0, log=True),
    "optimizer.lr": Real(low=1e-4, high=0.1, log=True),
    "model.pool": Choice(("token", "avg")),
}


def study(root, count: int, domains=DOMAINS, stopped: int = 0) -> Result:
    """Points at random; the score depends on gamma, and a little on the pooling."""
    edition = Study(name="weights", question="?", base=base(), plan=Search(space=Space(domains)), seeds=1).at()
    chance = random.Random(1)
    with ByHand(root, edition, seeds=1, trials=count) as hand:
        for number in range(count + stopped):
            values = {path: domain.draw(chance) for path, domain in domains.items()}
            score = 0.5 + 0.4 * math.exp(-(math.log(values["encoding.gamma"] / 2) ** 2))
            score += 0.02 * (values.get("model.pool") == "avg")
            trial = hand.plan("trial", number, values)
            if number < count:
                hand.complete(trial, 0, round(score, 3), 0.5)
            else:
                hand.stop(trial, 0, 0.99, 3, 0.85)
    return Result.open(Home(root), edition.id)


def test_what_decides_the_score_has_the_importance_and_the_table_shows_it(tmp_path):
    result = study(tmp_path / "a", 40)
    found = importances(result.history)
    assert set(found) == {"encoding.fourier.gamma", "optimizer.adamw.lr", "model.vit.pool"}
    assert sum(found.values()) == pytest.approx(1)
    assert found["encoding.fourier.gamma"] > 0.8
    table = varied(result)
    assert sorted(table.columns[2].cells) == sorted(f"{share:.2f}" for share in found.values())
    assert "40 points" in table.note
    more = study(tmp_path / "b", 40, stopped=6)
    assert importances(more.history) == found, "stopped points do not count"


def test_of_very_many_points_some_are_drawn_and_the_table_says_so(tmp_path):
    result = study(tmp_path, MOST_POINTS + 30)
    assert importances(result.history)["encoding.fourier.gamma"] > 0.8
    assert f"from {MOST_POINTS} of the {MOST_POINTS + 30} points" in varied(result).note


def test_few_points_or_one_path_have_none(tmp_path):
    few = study(tmp_path / "few", FEWEST_POINTS - 1)
    assert importances(few.history) == {}
    assert len(varied(few).columns) == 2
    assert importances(study(tmp_path / "enough", FEWEST_POINTS).history) != {}
    one = {"encoding.gamma": DOMAINS["encoding.gamma"]}
    assert importances(study(tmp_path / "one", 40, one).history) == {}


def test_random_rivals_and_points_that_are_out_of_the_race_count(tmp_path):
    plan = Search(space=Space(DOMAINS), stop=Halving(), rival=True)
    chance = random.Random(1)
    with ByHand(
        tmp_path, Study(name="weights", question="?", base=base(), plan=plan, seeds=2).at(), seeds=2, trials=20
    ) as hand:
        for number in range(FEWEST_POINTS):
            role, values = ("rival", "trial")[number % 2], {path: one.draw(chance) for path, one in DOMAINS.items()}
            trial = hand.plan(role, number // 2, values)
            seeds = trial.seeds(2)
            hand.complete(trial, seeds[0], round(0.5 + 0.4 * chance.random(), 3), 0.5)
            left_out = {"run": trial.run(seeds[1]).key, "code": hand.codes(trial.recipe).digest}
            hand.journal.write(StoppedAt(**left_out, epoch=0, cutoff=0.9))
    history = Result.open(Home(tmp_path), hand.edition.id).history
    assert len(scored_points(history)) == FEWEST_POINTS
    assert importances(history) != {}
