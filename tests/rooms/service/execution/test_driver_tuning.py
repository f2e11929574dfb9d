"""A tuned ablation from its first to its last fact: equal trials for all arms, one choice an arm, resumed anywhere."""

import json

import pytest

from search_spaces.space import Choice, Real, Space
from search_spaces.study import Ablation, Budget, Edition, Study, Tuning
from service.planning.estimate import estimate_work
from service.planning.placement import Placement
from service.storage.editions import EditionError, resolve_edition
from service.storage.facts import Planned, Started, Tuned
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import BASE, facts
from tests.rooms.toy import conduct, driving
from trainables.recipe import FromTrial, revisions

ARMS = {"token": {}, "mean": {"model.pool": "avg"}, "far": {"encoding.gamma": 30.0, "model.depth": 2}}
WIDE = Space({"encoding.gamma": Real(0.3, 24, log=True)})
BEYOND = Space({"encoding.gamma": Real(26, 40)})
"""Every run of this space diverges."""


def fair(trials: int = 3, *, space: Space = WIDE, seeds: int = 2, **more) -> Edition:
    plan = Ablation(ARMS, "token", tune=Tuning(space, trials, **more))
    return Study(name="fair", question="?", base=BASE, plan=plan, seeds=seeds).at()


def points(home: Home, edition: Edition) -> dict[str, list[dict]]:
    """The proposed points by arm."""
    by_arm: dict[str, list[dict]] = {}
    for fact in facts(home, edition, Planned):
        if fact.role == "tuning":
            assert fact.number == len(by_arm.setdefault(fact.tunes, []))
            by_arm[fact.tunes].append(fact.values)
    return by_arm


def choices(home: Home, edition: Edition) -> dict[str, int | None]:
    return {fact.arm: fact.number for fact in facts(home, edition, Tuned)}


def plan(home: Home, edition: Edition):
    return estimate_work(History.open(home, edition), Outcomes(home), Placement(max_concurrent=1))


@pytest.mark.parametrize(("sampler", "max_concurrent"), [("random", 1), ("random", 3), ("tpe", 1), ("tpe", 3)])
def test_every_arm_gets_as_many_trials_and_then_the_values_of_its_best(home, sampler, max_concurrent) -> None:
    edition = fair(sampler=sampler)
    toy = conduct(home, edition, max_concurrent=max_concurrent)
    history, proposed = History.open(home, edition), points(home, edition)
    assert {arm: len(values) for arm, values in proposed.items()} == dict.fromkeys(ARMS, 3)
    for arm in history.of("trial"):
        scores = [history.answer(trial).mean for trial in history.of("tuning") if trial.tunes[0] == arm.name]
        best = scores.index(max(scores))
        assert history.tuning.chosen[arm.name] == best
        assert arm.recipe == edition.study.recipe(ARMS[arm.name]).put(proposed[arm.name][best])
        assert {run.seed for run in history.runs(arm).values()} == {0, 1}
        assert history.answer(arm).status == "completed"
    keys = [run.key for run in toy.order]
    assert len(keys) == len(set(keys)) == 3 * 3 + 3 * 2
    assert {run.seed for run in toy.order[: 3 * 3]} == {3000}
    assert not conduct(home, edition).trained


def test_arms_try_the_same_points_so_that_no_arm_is_luckier(home) -> None:
    edition = fair(4, first=({"encoding.gamma": 2.0},))
    conduct(home, edition)
    token, mean, far = points(home, edition).values()
    assert token == mean == far
    assert token[0] == {"encoding.gamma": 2.0}
    assert len({json.dumps(point) for point in token}) == 4


@pytest.mark.parametrize("sampler", ["random", "grid"])
def test_every_edition_tries_the_same_points_in_the_same_order(tmp_path, sampler: str) -> None:
    """Named arms, own values, another budget or another name: what they share is not trained again."""
    space = Space({"encoding.gamma": Real(0.3, 24, log=True, points=8)})
    whole = fair(4, space=space, sampler=sampler)
    study = whole.study.model_copy(update={"budgets": {"quick": Budget(trials=2)}})
    editions = [
        whole,
        whole.named("again"),
        study.at("quick"),
        study.at(arms=["mean"]),
        study.at(set={"optimizer.weight_decay": 0.1}),
    ]
    tried = []
    for edition in editions:
        conduct(home := Home(tmp_path / edition.id), edition)
        tried.append(points(home, edition)["mean"])
    assert tried == [tried[0], tried[0], tried[0][:2], tried[0], tried[0]]


def test_tpe_learns_from_the_arms_own_trials_alone(home, tmp_path) -> None:
    edition = fair(13, sampler="tpe", seeds=1)
    conduct(home, edition)
    token, mean, _ = points(home, edition).values()
    assert token[:10] == mean[:10]
    chance = Home(tmp_path / "chance")
    conduct(chance, fair(13, seeds=1))
    assert points(chance, edition)["token"][10:] != token[10:]
    alone = Home(tmp_path / "alone")
    one = Ablation({"token": {}}, "token", tune=edition.study.plan.tune)
    study = Study(**{**dict(edition.study), "plan": one})
    conduct(alone, study.at())
    assert points(alone, study.at())["token"] == token


@pytest.mark.parametrize("sampler", ["random", "tpe", "grid"])
def test_a_small_space_gives_each_arm_all_of_its_points(home, sampler: str) -> None:
    edition = fair(3, space=Space({"encoding.gamma": Choice((1.0, 2.0, 4.0))}), sampler=sampler)
    conduct(home, edition)
    for tried in points(home, edition).values():
        assert sorted(point["encoding.gamma"] for point in tried) == [1.0, 2.0, 4.0]
    assert {trial.recipe.encoding.gamma for trial in History.open(home, edition).of("trial")} == {2.0}


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_a_killed_study_ends_as_the_undisturbed_one(tmp_path, sampler: str) -> None:
    calm, edition = Home(tmp_path / "calm"), fair(sampler=sampler)
    conduct(calm, edition, 1)
    calm_arms = [trial.recipe for trial in History.open(calm, edition).of("trial")]
    for cut in (2, 20, 33, 47, 70):
        killed = Home(tmp_path / str(cut))
        assert conduct(killed, edition, 1, cut=cut) is None
        conduct(killed, edition, 2)
        assert points(calm, edition) == points(killed, edition), cut
        assert choices(calm, edition) == choices(killed, edition), cut
        assert [trial.recipe for trial in History.open(killed, edition).of("trial")] == calm_arms, cut
        started = [fact.run for fact in facts(killed, edition, Started) if fact.attempt == 1]
        assert len(started) == len(set(started)), cut


def test_a_driver_killed_between_the_choice_and_the_arms_lists_them_with_it(home) -> None:
    edition = fair()
    conduct(home, edition)
    journal = home.study(edition.id).journal
    lines = journal.read_bytes().splitlines(keepends=True)
    last = max(number for number, line in enumerate(lines) if b'"fact":"tuned"' in line)
    before = [trial.recipe for trial in History.open(home, edition).of("trial")]
    for kept in (last + 1, last + 2):  # without any arm, and with the first one alone
        journal.write_bytes(b"".join(lines[:kept]))
        toy = conduct(home, edition)
        assert [trial.recipe for trial in History.open(home, edition).of("trial")] == before
        assert not toy.trained, "all answers were there"


def test_other_counts_of_trials_are_another_edition(home) -> None:
    edition = fair(2)
    conduct(home, edition, cut=5)
    with pytest.raises(EditionError, match=r"plan.tune.trials was 2, is 3\. version=.* starts another version"):
        resolve_edition(fair(3), home)
    assert resolve_edition(fair(3).named("again"), home).id != edition.id


def test_the_plan_lists_what_tuning_trains_and_the_arms_after_it(home) -> None:
    edition = fair(3)
    before = plan(home, edition)
    assert (before.missing, before.unknown, before.to_train) == (3 * 3, 3 * 2, 15)
    rows = [(row.label, row.name, row.missing) for row in before.work]
    assert rows == [
        ("t", "tuning of token, mean and far, 3 trials each", 9),
        *(("", f"{arm}, as tuned", 2) for arm in ARMS),
    ]
    conduct(home, edition, cut=8)
    half = plan(home, edition)
    assert half.done + half.to_train == 15
    assert sum(sum(row.counts) for row in half.work) == 15
    conduct(home, edition)
    assert (plan(home, edition).done, plan(home, edition).to_train) == (15, 0)


def test_after_an_edit_of_the_code_the_choice_stands_and_the_arms_train_again(home, monkeypatch) -> None:
    edition = fair(2)
    conduct(home, edition)
    before = [trial.recipe for trial in History.open(home, edition).of("trial")]
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    toy = conduct(home, edition)
    assert {run.seed for run in toy.order} == {0, 1}
    assert len(toy.order) == 2 * 3
    assert [trial.recipe for trial in History.open(home, edition).of("trial")] == before
    with driving(home, edition) as driver:
        assert driver.history.failed == 0


def test_parents_of_a_tuning_are_trained_with_its_values_and_not_again_after_an_edit(home, monkeypatch) -> None:
    start = FromTrial(values={"data.task": "absolute"}).plain()
    plan_ = Ablation({"fresh": {}, "child": {"init": start}}, "fresh", tune=Tuning(WIDE, 2))
    edition = Study(name="fair", question="?", base=BASE, plan=plan_, seeds=1).at()
    conduct(home, edition)
    history = History.open(home, edition)
    child = next(trial for trial in history.of("trial") if trial.name == "child")
    (parent,) = next(iter(history.runs(child).values())).needs()
    assert parent.recipe.encoding.gamma == child.recipe.encoding.gamma
    assert parent.seed == 0
    parents = {run.seed for trial in history.of("parent") for run in history.runs(trial).values()}
    assert parents == {0, 3000}
    assert plan(home, edition).to_train == 0
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    conduct(home, edition)
    after = estimate_work(History.open(home, edition), Outcomes(home), Placement(max_concurrent=1))
    assert (after.to_train, after.done) == (0, 3), "two arms and a parent; the tuning is over"


def test_a_half_tuned_study_of_edited_code_tunes_again(home, monkeypatch) -> None:
    edition = fair(3, seeds=1)
    conduct(home, edition, cut=32)
    old = sum(fact.outcome == "completed" for fact in facts(home, edition) if fact.fact == "ended")
    assert 0 < old < 9
    assert not choices(home, edition)
    monkeypatch.setattr(revisions, "LOOP", revisions.LOOP + 1)
    assert len(conduct(home, edition).order) == 9 + 3
    assert set(choices(home, edition)) == set(ARMS)
