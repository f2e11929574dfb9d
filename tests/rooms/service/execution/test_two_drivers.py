"""Two studies of one home at the same time: each run is trained once, and both get its answer (S-B24)."""

import random
from contextlib import ExitStack

from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.study import Ablation, Edition, Study
from service.execution.driver import FINISHED, DriverPolls
from service.execution.other_drivers import Neighbours
from service.execution.tune import DriverSearcher
from service.planning.placement import Placement
from service.storage.home import Home
from tests.rooms.service.execution.studies import search
from tests.rooms.service.planning.situations import BASE
from tests.rooms.toy import Toy, cliff, conduct, driving
from trainables.launch.job import Job

ARMS = ("none", "2.0", "3.0", "30.0")


def study(name: str, arms: list[str], seeds: int) -> Edition:
    values = {arm: {} if arm == "none" else {"encoding.gamma": float(arm)} for arm in arms}
    return Study(name=name, question="?", base=BASE, plan=Ablation(arms=values, baseline=arms[0]), seeds=seeds).at()


def together(home: Home, editions: list[Edition], chance: random.Random) -> list[Toy]:
    """Drives all studies to their end, a step of one and a step of another as chance decides."""
    with ExitStack() as stack:
        drivers = [stack.enter_context(driving(home, edition)) for edition in editions]
        toys = [Toy(driver, chance, chance.randint(1, 3)) for driver in drivers]
        ended = [False] * len(toys)
        while not all(ended):
            ended = [toy._fill() and not toy.workers for toy in toys]
            assert all(ended) or any(toy.workers for toy in toys), "each waits for the other"
            busy = [toy for toy in toys if toy.workers]
            keys = [key for toy in busy for key in toy.workers]
            assert len(keys) == len(set(keys)), "two drivers train one run at the same time"
            if busy:
                toy = chance.choice(busy)
                toy._advance(chance.choice(sorted(toy.workers)))
        return toys


@settings(max_examples=12)
@given(
    arms=st.lists(st.lists(st.sampled_from(ARMS), min_size=2, unique=True), min_size=2, max_size=3),
    seeds=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    chance=st.randoms(use_true_random=False),
)
def test_each_run_is_trained_once(tmp_path_factory, arms, seeds, chance) -> None:
    home = Home(tmp_path_factory.mktemp("home"))
    editions = [study(f"s{number}", some, seeds[number]) for number, some in enumerate(arms)]
    toys = together(home, editions, chance)
    trained = sum((toy.trained for toy in toys), start=type(toys[0].trained)())
    assert {*trained.values()} <= {1}
    for edition, toy in zip(editions, toys, strict=True):
        for trial in toy.driver.history.trials:
            for run in toy.driver.history.runs(trial).values():
                assert toy.driver.history.state(run).status == ("diverged" if cliff(run) else "completed")
        assert conduct(home, edition).trained == {}, "nothing is missing"
    assert not list(home.claims.iterdir())


def test_what_fails_elsewhere_is_trained_here(home) -> None:
    one, other = (study(name, ["none", "2.0"], 1) for name in ("one", "other"))
    with driving(home, one) as first, driving(home, other) as second:
        job, rival = first.next(), second.next()
        assert {job.run.key, rival.run.key} == {run.key for run in _runs(second)}
        assert second.next() is None
        notes: list[str] = []
        attention = DriverPolls(second, notes.append)
        attention.look()
        attention.look()
        assert notes == ["another study of this home trains 1 run of this one; its answers are used here"]
        first.on_failure(job, reason="the worker died", final=True)
        assert second.next().run.key == job.run.key


def test_a_study_with_nothing_to_train_waits_for_nobody(home) -> None:
    """The neighbour uses the whole machine; what is only to be reused needs none of it."""
    edition = study("one", ["none", "2.0"], 1)
    conduct(home, edition)
    one_place = Placement(max_concurrent=1, fits=1)
    neighbour = study("neighbour", ["none", "3.0"], 1)
    with driving(home, neighbour, neighbours=Neighbours(home, neighbour.id, one_place)) as first:
        first.placement = one_place
        assert isinstance(first.next(), Job)
        again = study("again", ["none", "2.0"], 1)
        with driving(home, again, neighbours=Neighbours(home, again.id, one_place)) as second:
            assert second.next() is FINISHED
        more = study("more", ["none", "30.0"], 1)
        with driving(home, more, neighbours=Neighbours(home, more.id, one_place)) as third:
            third.placement = one_place
            assert third.next() is None
            assert DriverSearcher(third).suggest("1") == "FINISHED", "Tune would wait for minutes"
            notes: list[str] = []
            DriverPolls(third, notes.append).look()
            assert notes == ["this machine is shared with neighbour@base: at most 1 concurrent run here"]


def test_a_serial_search_waits_for_a_point_that_is_trained_elsewhere(home) -> None:
    """It would propose the next point without the score of this one, and another search would come out."""
    with driving(home, search()) as first, driving(home, search(name="twin")) as second:
        first.placement = second.placement = Placement(max_concurrent=1)
        job = first.next()
        assert second.next() is None
        assert len(second.history.trials) == 1
        first.release(job)
        assert second.next().run.key == job.run.key


def _runs(driver):
    return [run for trial in driver.history.trials for run in driver.history.runs(trial).values()]
