"""What arms cost beside each other: measured in turns, told apart only where the turns do."""

import math
import random

from search_spaces.study import Ablation, Study
from service.analysis.headline import details, ratio
from service.execution.machine import measure_costs
from service.planning.forecast import Forecast
from service.planning.placement import Placement
from service.results import Result
from service.storage.facts import ArmCost, Costed
from service.storage.history import History
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base

ARMS = {"table": {"encoding.kind": "learnable"}, "turned": {"encoding.kind": "rotary"}}


def study(race: bool = True) -> Study:
    small = {"data.train_size": 60, "data.val_size": 12, "data.test_size": 12, "model.embed_dim": 16, "model.depth": 1}
    return Study(name="mine", question="?", base=base().put(small), plan=Ablation(ARMS, "table", race=race), seeds=3)


def test_arms_are_told_apart_where_their_turns_are() -> None:
    """Both get slower together, by a factor of four; the one takes as long as the other, or 20 % longer."""
    noise = random.Random(0)
    load = [1 + 3 * turn / 20 for turn in range(20)]
    own = [0.003 * slow * math.exp(noise.gauss(0, 0.02)) for slow in load]
    same = [0.003 * slow * math.exp(noise.gauss(0, 0.02)) for slow in load]
    assert ratio(own, same) is None
    low, high = ratio([1.2 * seconds for seconds in own], same)
    assert low < 1.2 < high
    assert high - low < 0.06


def test_a_race_is_measured_once_and_its_time_follows(tmp_path) -> None:
    edition = study().at()
    history = History(edition)
    assert Forecast(history)(1).seconds is None
    costed = measure_costs(history, Placement(max_concurrent=1), tmp_path)
    assert costed is not None
    assert costed.arms.keys() == ARMS.keys()
    for cost in costed.arms.values():
        assert all(seconds > 0 for seconds in (*cost.train_s, *cost.predict_s))
        assert len(cost.train_s) == len(cost.predict_s)
    history.add(costed)
    assert measure_costs(history, Placement(max_concurrent=1), tmp_path) is None
    assert Forecast(history)(1).seconds > 0
    alike = History(study(race=False).at())
    assert measure_costs(alike, Placement(max_concurrent=1), tmp_path) is None


def test_the_time_of_a_study_is_what_its_arms_take(tmp_path) -> None:
    """8 epochs of 60 images, at 10 and 20 ms; 12 images are predicted after each, 12 more after the last, at 5 ms."""
    history = History(study().at())
    arms = {
        name: ArmCost(train_s=(train, train), predict_s=(0.005, 0.005))
        for name, train in (("table", 0.01), ("turned", 0.02))
    }
    history.add(Costed(arms=arms, load=0.0, cores=2))
    expected = 3 * sum(8 * 60 * train + (8 + 1) * 12 * 0.005 for train in (0.01, 0.02))
    assert abs(Forecast(history)(1).seconds - expected) < 1e-6


def test_the_page_says_what_the_best_arm_costs_and_how_busy_the_machine_was(tmp_path) -> None:
    edition = study().at()
    turns = [0.003 + 0.0001 * (turn % 3) for turn in range(10)]
    costs = {"table": ArmCost(train_s=turns, predict_s=turns)}
    costs["turned"] = ArmCost(train_s=[1.5 * seconds for seconds in turns], predict_s=turns)
    hand = ByHand(tmp_path, edition)
    with hand.journal:
        hand.journal.write(Costed(arms=costs, load=3.0, cores=2))
        for trial, seed in hand.runs(ARMS, 3):
            score = 0.9 + 0.001 * seed if trial.name == "turned" else 0.7
            hand.complete(trial, seed, score, score)
    [cost] = [line for line in details(Result.open(Home(tmp_path), edition.id)) if line.startswith("It costs")]
    assert cost.startswith(
        "It costs 4.65 ms an image in training (“table” 3.10), 3.10 ms an image in prediction (“table” 3.10, not "
        "distinguishable) and "
    )
    assert cost.endswith(" (a load of 3.0 on 2 cores).")
