"""A search with random rivals: the same points as without them, and an equal search by chance beside them."""

import random

from search_spaces.space import Real, Space, Subset
from search_spaces.study import Edition, Halving, Search, Study
from service.planning.forecast import unproposed
from service.storage.facts import Confirms, Ended, Exhausted, Planned, Started, StoppedAt
from service.storage.history import History
from service.storage.home import Home
from tests.rooms.service.execution.studies import BASE, facts
from tests.rooms.toy import conduct, driving, measure
from trainables.recipe import Recipe


def search(trials: int = 6, *, rival: bool = True, **changes) -> Edition:
    plan = Search(
        space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}),
        first=({"encoding.gamma": 2.5},),
        trials=trials,
        stop=Halving(),
        rival=rival,
    )
    return Study(**{"name": "reach", "question": "?", "base": BASE, "plan": plan, "seeds": 2} | changes).at()


def planned(home: Home, edition: Edition, role: str) -> list[tuple[int, dict]]:
    return [(fact.number, fact.values) for fact in facts(home, edition, Planned) if fact.role == role]


def own_facts(home: Home, edition: Edition) -> list[dict]:
    """What happened to the sampler's own points: proposals, ends, stops and confirmations, without times."""
    rivals = {fact.run for fact in facts(home, edition, Started) if fact.label.startswith("r")}
    kept = [fact for fact in facts(home, edition, Planned) if fact.role in ("trial", "confirmation")]
    kept += [fact for fact in facts(home, edition, Ended | StoppedAt) if fact.run not in rivals]
    kept += facts(home, edition, Confirms)
    return [fact.model_dump(exclude={"time", "rivals"}) for fact in kept]


def history(home: Home, edition: Edition) -> History:
    return History.open(home, edition)


def test_the_search_is_the_same_with_and_without_rivals(tmp_path) -> None:
    alone, beside = Home(tmp_path / "alone"), Home(tmp_path / "beside")
    conduct(alone, search(8, rival=False), 1)
    conduct(beside, search(8), 1)
    assert own_facts(alone, search(rival=False)) == own_facts(beside, search())
    assert planned(alone, search(), "rival") == []


def test_rivals_are_as_many_random_points_in_seeds_of_their_own(home) -> None:
    edition = search(8)
    toy = conduct(home, edition, max_concurrent=2)
    found = history(home, edition)
    own, rivals = found.of("trial"), found.of("rival")
    assert [trial.number for trial in rivals] == [trial.number for trial in own] == [*range(8)]
    assert len({trial.recipe for trial in rivals}) == 8
    seeds = {trial.label: {run.seed for run in found.runs(trial).values()} for trial in [own[0], rivals[0]]}
    assert seeds == {"0": {0, 1}, "r0": {2000, 2001}}
    assert {found.answer(trial).status for trial in [*own, *rivals]} >= {"completed", "stopped"}
    best = sorted(
        (trial for trial in rivals if found.answer(trial).status == "completed"),
        key=lambda trial: -found.answer(trial).mean,
    )
    assert found.rival_confirms == tuple(trial.number for trial in best[:5])
    fresh = found.confirmations("rival_confirmation")
    assert {run.seed for trial in fresh for run in found.runs(trial).values()} == {1000, 1001}
    assert {found.answer(trial).status for trial in fresh} == {"completed"}
    keys = [run.key for run in toy.order]
    assert len(keys) == len(set(keys))


def test_rivals_are_stopped_by_their_own_scores_alone(home) -> None:
    edition = search(8)
    conduct(home, edition)
    found = history(home, edition)
    rungs: dict[int, dict[str, float]] = {2: {}, 4: {}}
    ends: dict[str, float] = {}
    cut = {fact.run: fact.epoch for fact in facts(home, edition, StoppedAt) if fact.epoch}
    for trial in found.of("rival"):
        run = found.first_run(trial)
        for epoch, reached in rungs.items():
            if epoch > found.state(run).epoch:
                continue
            value = measure(run, epoch).values["val/accuracy"]
            reached[run.key] = value
            line = sorted(reached.values(), reverse=True)[max(len(reached) // 3, 1) - 1]
            if len(ends) >= 5:
                line = min(line, sorted(ends.values())[-5] - max(end - reached[key] for key, end in ends.items()))
            assert (len(ends) >= 5 and value < line) == (cut.get(run.key) == epoch)
        if found.state(run).epoch == 6:
            ends[run.key] = measure(run, 6).values["val/accuracy"]


def test_a_killed_search_ends_as_the_undisturbed_one(tmp_path) -> None:
    calm, edition = Home(tmp_path / "calm"), search(6)
    conduct(calm, edition, 3)
    confirmed = history(calm, edition).rival_confirms
    for cut in (5, 20, 40, 60, 80):
        cut_short = Home(tmp_path / str(cut))
        conduct(cut_short, edition, 3, cut=cut)
        conduct(cut_short, edition, 4)
        for role in ("trial", "rival"):
            assert planned(calm, edition, role) == planned(cut_short, edition, role), cut
        assert history(cut_short, edition).rival_confirms == confirmed, cut


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
    found = history(home, search(8))
    assert all(found.answer(trial).status != "open" for trial in found.trials)
    assert unproposed(found).recipes == []


def test_more_seeds_reach_the_rivals(home) -> None:
    conduct(home, search(4))
    more = search(4, seeds=3)
    conduct(home, more)
    found = history(home, more)
    for trial in found.confirmations("rival_confirmation"):
        assert {run.seed for run in found.runs(trial).values()} == {1000, 1001, 1002}
        assert found.answer(trial).status == "completed"


def test_a_small_space_ends_both_searches_with_all_of_its_points(home) -> None:
    plan = Search(Space({"encoding.places": Subset((-1, 0))}), trials=9, rival=True)
    base = Recipe().put({"encoding.kind": "peg", "model.depth": 2, "optimizer.epochs": 2})
    edition = Study(name="few", question="?", base=base, plan=plan, seeds=2).at()
    conduct(home, edition)
    assert [(fact.trials, fact.rival) for fact in facts(home, edition, Exhausted)] == [(4, False)]
    found = history(home, edition)
    assert {trial.recipe for trial in found.of("trial")} == {trial.recipe for trial in found.of("rival")}
    assert not {run.key for trial in found.of("trial") for run in found.runs(trial).values()} & {
        run.key for trial in found.of("rival") for run in found.runs(trial).values()
    }


def test_what_is_ahead_counts_points_rivals_and_both_confirmations(home) -> None:
    edition = search(5)
    with driving(home, edition) as driver:
        assert len(unproposed(driver.history).points) == (5 + 5 + 5 + 5) * 2
    conduct(home, edition, random.Random(0).random())
    assert unproposed(history(home, edition)).recipes == []
