"""A search with random rivals: the same points as without them, and an equal search by chance beside them."""

import random

from search_spaces.space import Space, Subset
from search_spaces.study import Edition, Search, Study
from service.planning.forecast import unproposed
from service.storage.facts import Confirms, Ended, Exhausted, Planned, Started, StoppedAt
from service.storage.history import History
from service.storage.home import Home
from tests.rooms.service.execution.studies import facts
from tests.rooms.service.execution.studies import search as small_search
from tests.rooms.toy import conduct, driving, measure
from trainables.recipe import Recipe


def search(trials: int = 6, *, rival: bool = True, **changes) -> Edition:
    return small_search(trials, rival=rival, **changes)


def planned(home: Home, edition: Edition, role: str) -> list[tuple[int, dict]]:
    return [(fact.number, fact.values) for fact in facts(home, edition, Planned) if fact.role == role]


def own_facts(home: Home, edition: Edition) -> list[dict]:
    """What happened to the sampler's own points: proposals, ends, stops and confirmations, without times."""
    rivals = {fact.run for fact in facts(home, edition, Started) if fact.label.startswith("r")}
    kept = [fact for fact in facts(home, edition, Planned) if fact.role in ("trial", "confirmation")]
    kept += [fact for fact in facts(home, edition, Ended | StoppedAt) if fact.run not in rivals]
    kept += facts(home, edition, Confirms)
    return [fact.model_dump(exclude={"time", "rivals"}) for fact in kept]


def test_the_search_is_the_same_with_and_without_rivals(tmp_path) -> None:
    alone, beside = Home(tmp_path / "alone"), Home(tmp_path / "beside")
    conduct(alone, search(8, rival=False), 1)
    conduct(beside, search(8), 1)
    assert own_facts(alone, search(rival=False)) == own_facts(beside, search())
    assert planned(alone, search(), "rival") == []


def test_rivals_are_as_many_random_points_in_seeds_of_their_own(home) -> None:
    edition = search(8)
    toy = conduct(home, edition, max_concurrent=2)
    history = History.open(home, edition)
    points, rivals = history.of("trial"), history.of("rival")
    assert [trial.number for trial in rivals] == [trial.number for trial in points] == [*range(8)]
    assert len({trial.recipe for trial in rivals}) == 8
    seeds = {trial.label: {run.seed for run in history.runs(trial).values()} for trial in [points[0], rivals[0]]}
    assert seeds == {"0": {0, 1}, "r0": {2000, 2001}}
    assert {history.answer(trial).status for trial in [*points, *rivals]} >= {"completed", "stopped"}
    best = sorted(
        (trial for trial in rivals if history.answer(trial).status == "completed"),
        key=lambda trial: -history.answer(trial).mean,
    )
    assert history.rival_confirms == tuple(trial.number for trial in best[:5])
    fresh = history.confirmations("rival_confirmation")
    assert {run.seed for trial in fresh for run in history.runs(trial).values()} == {1000, 1001}
    assert {history.answer(trial).status for trial in fresh} == {"completed"}
    keys = [run.key for run in toy.order]
    assert len(keys) == len(set(keys))


def test_rivals_are_stopped_by_their_own_scores_alone(home) -> None:
    edition = search(8)
    conduct(home, edition)
    history = History.open(home, edition)
    rungs: dict[int, dict[str, float]] = {2: {}, 4: {}}
    ends: dict[str, float] = {}
    cut = {fact.run: fact.epoch for fact in facts(home, edition, StoppedAt) if fact.epoch}
    for trial in history.of("rival"):
        run = history.first_run(trial)
        for epoch, reached in rungs.items():
            if epoch > history.state(run).epoch:
                continue
            value = measure(run, epoch).values["val/accuracy"]
            reached[run.key] = value
            line = sorted(reached.values(), reverse=True)[max(len(reached) // 3, 1) - 1]
            if len(ends) >= 5:
                line = min(line, sorted(ends.values())[-5] - max(end - reached[key] for key, end in ends.items()))
            assert (len(ends) >= 5 and value < line) == (cut.get(run.key) == epoch)
        if history.state(run).epoch == 6:
            ends[run.key] = measure(run, 6).values["val/accuracy"]


def test_a_killed_search_ends_as_the_undisturbed_one(tmp_path) -> None:
    calm, edition = Home(tmp_path / "calm"), search(6)
    conduct(calm, edition, 3)
    confirmed = History.open(calm, edition).rival_confirms
    for cut in (5, 20, 40, 60, 80):
        cut_short = Home(tmp_path / str(cut))
        conduct(cut_short, edition, 3, cut=cut)
        conduct(cut_short, edition, 4)
        for role in ("trial", "rival"):
            assert planned(calm, edition, role) == planned(cut_short, edition, role), cut
        assert History.open(cut_short, edition).rival_confirms == confirmed, cut


def test_an_extension_adds_points_and_rivals(tmp_path) -> None:
    home, whole, alone = Home(tmp_path / "home"), Home(tmp_path / "whole"), Home(tmp_path / "alone")
    conduct(home, search(4))
    first = planned(home, search(), "rival")
    conduct(home, search(8))
    conduct(alone, search(4, rival=False))
    conduct(alone, search(8, rival=False))
    assert planned(home, search(), "trial") == planned(alone, search(), "trial")
    conduct(whole, search(8))
    rivals = planned(home, search(), "rival")
    assert len(first) == 4
    assert rivals[:4] == first
    assert rivals == planned(whole, search(), "rival")
    history = History.open(home, search(8))
    assert all(history.answer(trial).status != "open" for trial in history.trials)
    assert unproposed(history).recipes == []


def test_a_small_space_ends_both_searches_with_all_of_its_points(home) -> None:
    plan = Search(Space({"encoding.places": Subset((-1, 0))}), trials=9, rival=True)
    base = Recipe().put({"encoding.kind": "peg", "model.depth": 2, "optimizer.epochs": 2})
    edition = Study(name="few", question="?", base=base, plan=plan, seeds=2).at()
    conduct(home, edition)
    assert [(fact.trials, fact.rival) for fact in facts(home, edition, Exhausted)] == [(4, False)]
    history = History.open(home, edition)
    assert {trial.recipe for trial in history.of("trial")} == {trial.recipe for trial in history.of("rival")}
    assert not {run.key for trial in history.of("trial") for run in history.runs(trial).values()} & {
        run.key for trial in history.of("rival") for run in history.runs(trial).values()
    }


def test_what_is_ahead_counts_points_rivals_and_both_confirmations(home) -> None:
    edition = search(5)
    with driving(home, edition) as driver:
        assert len(unproposed(driver.history).points) == (5 + 5 + 5 + 5) * 2
    conduct(home, edition, random.Random(0).random())
    assert unproposed(History.open(home, edition)).recipes == []
